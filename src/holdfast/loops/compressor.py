"""The compressor: summarises a prefix of a session while its turns go on.

Rule 1: the session is the operation's; nothing here can name another one.
Rule 2: one compression per session at a time, by the store's compare-and-set, whoever asks for it: the background,
        a turn at the hard threshold, `/compress`, or an operator.
Rule 3: whatever goes wrong ends the operation with a reason and changes nothing else.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from holdfast import log
from holdfast.core.compress import COMPRESS, Operation, Summary, SummaryDraft, choose_cut, fault_of
from holdfast.core.context import Context, summary_request
from holdfast.core.errors import HoldfastError, ModelFailed, SessionNotFound, SummaryStale
from holdfast.core.ids import AgentName, OperationId, SessionId, make_id
from holdfast.loops.agents import Agent, Agents
from holdfast.loops.loop import Loop
from holdfast.loops.member import Member
from holdfast.ports.clock import Clock
from holdfast.ports.entropy import Entropy
from holdfast.ports.model import Answer, ModelRequest, Task
from holdfast.ports.notifier import Event, Notifier, Topic
from holdfast.ports.store import Busy, Store
from holdfast.ports.tasks import Tasks

REQUESTS_MAX = 10_000
REST_MS = 5_000


@dataclass(frozen=True, slots=True)
class Compressed:
    """How a compression ended: done, nothing, failed, stale or busy."""

    outcome: str
    summary: Summary | None = None
    reason: str = ""


class Compressor(Loop):
    name = "compressor"

    def __init__(
        self,
        store: Store,
        agents: Agents,
        member: Member,
        notifier: Notifier,
        clock: Clock,
        entropy: Entropy,
        tasks: Tasks,
    ) -> None:
        super().__init__(tasks, entropy)
        self._store = store
        self._agents = agents
        self._member = member
        self._notifier = notifier
        self._clock = clock
        # RAM that can vanish: the next turn of the session asks again.
        self._wanted: OrderedDict[SessionId, AgentName] = OrderedDict()
        self._failed_at: OrderedDict[SessionId, int] = OrderedDict()
        self._unended: list[tuple[Operation, Compressed]] = []

    # --- in the background, at the soft threshold

    def want(self, session: SessionId, agent: AgentName) -> None:
        """Ask for a summary to be prepared; turns go on meanwhile."""
        if self._resting(session, agent):
            return
        self._wanted[session] = agent
        if len(self._wanted) > REQUESTS_MAX:
            self._wanted.popitem(last=False)
        self._notifier.wake(Topic.COMPRESS)

    def _resting(self, session: SessionId, agent: AgentName) -> bool:
        pause_ms = self._agents.policy(agent).thresholds.failed_pause_ms
        return self._clock.now() - self._failed_at.get(session, -pause_ms) < pause_ms

    async def step(self) -> bool:
        unended, self._unended = self._unended, []
        for operation, result in unended:
            await self._end(operation, result)
        if not self._wanted:
            return False
        session, agent = self._wanted.popitem(last=False)
        # Each in its own task, so that one slow summariser delays nobody else's session.
        self._tasks.start(self._prepare(session, agent), name=f"compress {session}")
        return True

    async def _prepare(self, session: SessionId, agent: AgentName) -> None:
        try:
            await self.compress(session, agent)
        except HoldfastError as error:
            log.warning("compress.done", session=session, outcome=error.code, why=str(error))

    async def rest(self) -> None:
        await self._notifier.wait(Topic.COMPRESS, timeout_ms=REST_MS)

    # --- on demand

    async def compress(
        self, session: SessionId, agent: AgentName, *, focus: str = "", forced: bool = False
    ) -> Compressed:
        begun = await self.begin(session)
        if isinstance(begun, Busy):
            return Compressed("busy", reason=f"operation {begun.operation} is running")
        return await self.run_operation(begun, agent, focus=focus, forced=forced)

    async def begin(self, session: SessionId) -> Operation | Busy:
        operation = OperationId(make_id("op", self._clock.now(), self._entropy.bits(80)))
        return await self._store.begin_operation(operation, COMPRESS, session, self._member.node)

    async def running(self, session: SessionId) -> OperationId | None:
        """The compression that is under way for the session, if any."""
        return await self._store.open_operation(session, COMPRESS)

    async def run_operation(
        self, operation: Operation, agent: AgentName, *, focus: str = "", forced: bool = False
    ) -> Compressed:
        """See a begun compression through. Its start and its end carry the same session and operation."""
        started = self._clock.now()
        with log.pinned(session=operation.session, operation=operation.id):
            log.info("compress.started", forced=forced)
            try:
                result = await self._attempt(operation, self._agents.get(agent), focus=focus, forced=forced)
            except SessionNotFound as gone:
                result = Compressed("stale", reason=f"{gone}: it was deleted meanwhile")
            except Exception as error:
                await self._end(operation, Compressed("failed", reason=type(error).__name__))
                raise
            if result.outcome != "done":
                await self._end(operation, result)
            self._remember(operation.session, result)
            log.info(
                "compress.done",
                outcome=result.outcome,
                summary=result.summary.n if result.summary else None,
                duration_ms=self._clock.now() - started,
            )
            self._notifier.publish(
                Event(name="compress.done", session=operation.session, fields={"outcome": result.outcome})
            )
        return result

    async def _end(self, operation: Operation, result: Compressed) -> None:
        """An operation that the store cannot end now is ended later: while it is open, no other one begins."""
        detail: dict[str, object] = {"reason": result.reason}
        try:
            await self._store.end_operation(operation, result.outcome, detail)
        except HoldfastError as error:
            self._unended.append((operation, result))
            log.warning("compress.done", outcome=error.code, why=str(error))

    def _remember(self, session: SessionId, result: Compressed) -> None:
        self._failed_at.pop(session, None)
        if result.outcome == "failed":
            self._failed_at[session] = self._clock.now()
            if len(self._failed_at) > REQUESTS_MAX:
                self._failed_at.popitem(last=False)

    async def _attempt(self, operation: Operation, agent: Agent, *, focus: str, forced: bool) -> Compressed:
        thresholds = agent.policy.thresholds
        context = await self._store.read_context(operation.session)
        cut = choose_cut(context.committed, thresholds, ratio=context.token_ratio, forced=forced)
        if cut is None:
            return Compressed("nothing", reason="there is no complete turn before the newest ones")
        try:
            text = await self._summarise(agent, context, cut, focus)
        except ModelFailed as error:
            log.warning("model.failed", task="summary", why=str(error))
            return Compressed("failed", reason=str(error))
        fault = fault_of(text, thresholds)
        if fault:
            return Compressed("failed", reason=fault)
        try:
            summary = await self._store.commit_summary(operation, _draft(context, cut, text, agent.summariser.name))
        except SummaryStale as error:
            return Compressed("stale", reason=str(error))
        return Compressed("done", summary)

    async def _summarise(self, agent: Agent, context: Context, cut: int, focus: str) -> str:
        covered = [entry for entry in context.committed if entry.seq <= cut]
        request = ModelRequest(task=Task.SUMMARY, messages=summary_request(context.summary, covered, focus))
        try:
            async with asyncio.timeout(agent.policy.thresholds.summariser_wait_ms / 1000):
                async for event in agent.summariser.ask(request):
                    if isinstance(event, Answer):
                        return event.text
        except TimeoutError as error:
            raise ModelFailed("the summariser did not answer in time") from error
        raise ModelFailed("the summariser's answer ended before it was complete")


def _draft(context: Context, cut: int, text: str, model: str) -> SummaryDraft:
    return SummaryDraft(
        base_n=context.summary.n if context.summary else 0,
        undo_count=context.undo_count,
        covers_from=context.covers_through + 1,
        covers_through=cut,
        head_seq=context.last_seq,
        text=text,
        model=model,
    )
