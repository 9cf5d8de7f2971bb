"""The compressor: summarises a prefix of a session while its turns continue.

Rule 1: a compression writes only to the session of its operation; no code here can name another session.
Rule 2: the store's compare-and-set allows one compression per session at a time, for every caller: the background loop,
        a turn at the hard threshold, `/compress`, or an operator.
Rule 3: every failure ends the operation with a reason and changes nothing else.
Rule 4: a compression runs in its own task. A caller may stop waiting, as a stopped turn does; the compression
        continues, and its operation is ended all the same.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError, ModelFailed, SessionNotFound, StoreUnavailable, SummaryStale
from holdfast.kernel.ids import AgentName, NodeId, OperationId, SessionId
from holdfast.kernel.loop import Loop, TaskSet
from holdfast.kernel.notifier import Event, Topic
from holdfast.kernel.spans import COMPRESS, span
from holdfast.sessions import compression
from holdfast.sessions.compression import Busy, Operation, Pressure, Summary, SummaryDraft
from holdfast.sessions.summary_sql import begin_operation, commit_summary, end_operation, find_open_operation
from holdfast.store.membership import Member
from holdfast.store.ports import Ports
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.context import Context, is_named, summary_request
from holdfast.turns.context_cache import ContextCache
from holdfast.turns.model import ModelRequest, ModelTask
from holdfast.turns.model_call import hear

REQUESTS_MAX = 10_000
COMPRESSIONS_MAX = 64  # concurrent background compressions; a turn at the hard threshold does not wait for them
REST_MS = 5_000  # it ends without a question to the store
FAILED_JUST_NOW = "the last attempt failed a moment ago"
NOTHING_TO_COVER = "there is no complete turn before the newest ones"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Compressed:
    """The outcome of a compression: done, nothing, failed, stale, unavailable or busy."""

    outcome: str
    summary: Summary | None = None
    reason: str = ""


@dataclass(slots=True, eq=False)
class CompressionRequest:
    """One request for a compression, with the futures of callers that wait for its start or its end."""

    session: SessionId
    agent: AgentName
    focus: str = ""
    forced: bool = False
    insisted: bool = False  # requested by a person, so a recent failure does not block it
    begun: asyncio.Future[Operation | Busy] | None = None
    ended: asyncio.Future[Compressed] | None = None


class Compressor(Loop):
    name = "compressor"

    def __init__(self, ports: Ports, contexts: ContextCache, *, agents: Agents, member: Member) -> None:
        super().__init__(ports.tasks, ports.entropy)
        self._ports = ports
        self._contexts = contexts
        self._agents = agents
        self._member = member
        # In memory only: after a restart, the next turn of the session requests the compression again.
        self._wanted: OrderedDict[SessionId, AgentName] = OrderedDict()
        self._failed_at: OrderedDict[SessionId, int] = OrderedDict()
        self._working = TaskSet(ports.tasks, name=self.name)
        self._requests: set[CompressionRequest] = set()  # started and not ended
        self._unsure: dict[OperationId, tuple[SessionId, NodeId]] = {}  # operations whose start has an unknown outcome
        self._unended: dict[OperationId, tuple[Operation, Compressed]] = {}  # operations whose end is not stored yet

    # --- in the background, at the soft threshold

    def want(self, session: SessionId, agent: AgentName) -> None:
        """Request a summary in the background; turns continue meanwhile."""
        if self.rests(session, agent):
            return
        self._wanted[session] = agent
        if len(self._wanted) > REQUESTS_MAX:
            self._wanted.popitem(last=False)
        self._ports.notifier.wake(Topic.COMPRESS)

    def rests(self, session: SessionId, agent: AgentName) -> bool:
        """Whether the session's last compression failed so recently that another attempt would fail too."""
        pause_ms = self._agents.policy(agent).thresholds.failed_pause_ms
        return self._ports.clock.now() - self._failed_at.get(session, -pause_ms) < pause_ms

    async def step(self) -> bool:
        for operation, result in list(self._unended.values()):
            await self._end(operation, result)
        await self._end_unsure()
        if not self._wanted:
            return False
        await self._working.fewer_than(COMPRESSIONS_MAX)
        session, agent = self._wanted.popitem(last=False)
        # Each compression has its own task, so that a slow summariser delays no other session.
        self._start(CompressionRequest(session, agent))
        return True

    async def rest(self) -> None:
        await self._ports.notifier.wait(Topic.COMPRESS, timeout_ms=REST_MS)

    def cut_off(self) -> None:
        """Cancel the running compressions. Leaving ends the operations of this node; later turns request them again."""
        self._working.cut_off()
        while self._requests:  # a task that is cancelled before its first step never runs
            _give_up(self._requests.pop())

    # --- on demand

    async def compress(
        self, session: SessionId, agent: AgentName, *, focus: str = "", forced: bool = False, insisted: bool = False
    ) -> Compressed:
        """Compress now; if that is impossible, the result gives the reason."""
        ended: asyncio.Future[Compressed] = asyncio.get_running_loop().create_future()
        self._start(CompressionRequest(session, agent, focus, forced, insisted, ended=ended))
        return await ended

    async def begin(self, session: SessionId, agent: AgentName) -> Operation | Busy:
        """Start a compression that continues in the background; its operation is stored when this returns."""
        begun: asyncio.Future[Operation | Busy] = asyncio.get_running_loop().create_future()
        self._start(CompressionRequest(session, agent, forced=True, insisted=True, begun=begun))
        return await begun

    async def running(self, session: SessionId) -> OperationId | None:
        """The open compression operation of the session, if any."""
        return await self._ports.db.read(find_open_operation(session, compression.COMPRESS))

    # --- one request, in its own task

    def _start(self, request: CompressionRequest) -> None:
        self._requests.add(request)
        self._working.start(partial(self._run, request), name=f"compress {request.session}")

    async def _run(self, request: CompressionRequest) -> None:
        """Run a request. Its callers receive the result or the error; an error without a caller is logged."""
        try:
            result = await self._carry_out(request)
        except Exception as error:  # noqa: BLE001
            self._tell_failure(request, error)
        else:
            _settle(request.ended, result)
        finally:
            self._requests.discard(request)
            _give_up(request)

    async def _carry_out(self, request: CompressionRequest) -> Compressed:
        if not request.insisted and self.rests(request.session, request.agent):
            return Compressed("failed", reason=FAILED_JUST_NOW)
        if request.begun is None and not await self._is_worth_it(request):
            return Compressed("nothing", reason=NOTHING_TO_COVER)
        begun = await self._begin(request.session)
        _settle(request.begun, begun)
        if isinstance(begun, Busy):
            return Compressed("busy", reason=f"operation {begun.operation} is running")
        return await self._run_operation(begun, request)

    async def _is_worth_it(self, request: CompressionRequest) -> bool:
        """Whether there is anything to compress; an operation that has just ended may have left nothing to cover."""
        context, agent = await self._contexts.read(request.session), self._agents.get(request.agent)
        policy = agent.policy
        if not request.forced and context.pressure(policy.thresholds, policy.instructions) is Pressure.NONE:
            return False
        return self._cut(context, agent, forced=request.forced) is not None

    def _tell_failure(self, request: CompressionRequest, error: Exception) -> None:
        waiting = [one for one in (request.begun, request.ended) if one is not None and not one.done()]
        for one in waiting:
            one.set_exception(error)
        if not waiting:
            known = isinstance(error, HoldfastError)
            code = error.code if isinstance(error, HoldfastError) else type(error).__name__
            log.error(
                "compress.done",
                failure=None if known else error,
                session=request.session,
                outcome=code,
                why=str(error),
            )

    async def _begin(self, session: SessionId) -> Operation | Busy:
        operation = OperationId(self._ports.new_id("op"))
        try:
            return await self._ports.db.write(
                begin_operation(operation, compression.COMPRESS, session, self._member.node)
            )
        except StoreUnavailable:
            self._unsure[operation] = session, self._member.node
            self._ports.notifier.wake(Topic.COMPRESS)
            raise

    async def _end_unsure(self) -> None:
        """End operations whose start has an unknown outcome. Repeating the start shows which of them began."""
        for operation, (session, node) in list(self._unsure.items()):
            try:
                begun = await self._ports.db.write(begin_operation(operation, compression.COMPRESS, session, node))
            except SessionNotFound:  # the session is deleted, and the operation never began
                begun = Busy(operation)
            if isinstance(begun, Operation) and begun.ended_at is None:
                await self._end(begun, Compressed("abandoned", reason="its start was not confirmed"))
            self._unsure.pop(operation, None)

    async def _run_operation(self, operation: Operation, request: CompressionRequest) -> Compressed:
        """Run a started compression to its end. The log lines of start and end carry the same session and operation."""
        with (
            log.pinned(session=operation.session, operation=operation.id),
            span(
                COMPRESS,
                gen_ai_agent_name=request.agent,
                gen_ai_conversation_id=operation.session,
                holdfast_operation_id=operation.id,
            ) as seen,
        ):
            result = await self._see_through(operation, request)
            seen.note(holdfast_compress_outcome=result.outcome)
            return result

    async def _see_through(self, operation: Operation, request: CompressionRequest) -> Compressed:
        started = self._ports.clock.now()
        log.info("compress.started", forced=request.forced)
        try:
            result = await self._attempt(operation, request)
        except StoreUnavailable as error:  # the summariser did not fail, so no pause follows
            result = Compressed("unavailable", reason=str(error))
        except HoldfastError as error:
            result = Compressed("failed", reason=f"{error.code}: {error}")
        except Exception as error:  # a bug; it is raised, and the next step ends the operation
            self._unended[operation.id] = operation, Compressed("failed", reason=type(error).__name__)
            self._ports.notifier.wake(Topic.COMPRESS)
            raise
        self._remember(operation.session, result)
        if result.outcome != "done":
            await self._end_or_keep(operation, result)
        log.info(
            "compress.done",
            outcome=result.outcome,
            summary=result.summary.n if result.summary else None,
            duration_ms=self._ports.clock.now() - started,
        )
        self._ports.notifier.publish(
            Event(
                name="compress.done",
                session=operation.session,
                fields={"agent": request.agent, "outcome": result.outcome},
            )
        )
        return result

    async def _end_or_keep(self, operation: Operation, result: Compressed) -> None:
        """End an operation; if that fails, `step` retries, because an open operation blocks all later ones."""
        self._unended[operation.id] = operation, result
        try:
            await self._end(operation, result)
        except HoldfastError as error:
            log.warning("loop.failed", loop=self.name, code=error.code, why=str(error))
            self._ports.notifier.wake(Topic.COMPRESS)

    async def _end(self, operation: Operation, result: Compressed) -> None:
        await self._ports.db.write(end_operation(operation, result.outcome, {"reason": result.reason}))
        self._unended.pop(operation.id, None)

    def _remember(self, session: SessionId, result: Compressed) -> None:
        self._failed_at.pop(session, None)
        if result.outcome == "failed":
            self._failed_at[session] = self._ports.clock.now()
            if len(self._failed_at) > REQUESTS_MAX:
                self._failed_at.popitem(last=False)

    # --- summarising

    async def _attempt(self, operation: Operation, request: CompressionRequest) -> Compressed:
        agent = self._agents.get(request.agent)
        context = await self._contexts.read(operation.session)
        cut = self._cut(context, agent, forced=request.forced)
        if cut is None:
            return Compressed("nothing", reason=NOTHING_TO_COVER)
        try:
            text = await self._summarise(agent, context, cut, request.focus)
        except ModelFailed as error:
            log.error("model.failed", failure=error.__cause__, task="summary", why=str(error), **error.vendor.fields)
            return Compressed("failed", reason=error.reason)
        fault = compression.fault_of(text, agent.policy.thresholds)
        if fault:
            return Compressed("failed", reason=fault)
        try:
            summary = await self._ports.db.write(
                commit_summary(operation, _draft(context, cut, text, agent.summariser.name))
            )
        except SummaryStale as error:
            return Compressed("stale", reason=str(error))
        return Compressed("done", summary)

    def _cut(self, context: Context, agent: Agent, *, forced: bool) -> int | None:
        return compression.choose_cut(
            context.committed,
            agent.policy.thresholds,
            ratio=context.token_ratio,
            forced=forced,
            in_turn=context.open_turn is not None,
        )

    async def _summarise(self, agent: Agent, context: Context, cut: int, focus: str) -> str:
        covered = [entry for entry in context.committed if entry.seq <= cut]
        asked = summary_request(context.summary, covered, focus, named=is_named(context, context.address))
        request = ModelRequest(task=ModelTask.SUMMARY, messages=asked)
        return (await hear(agent.summariser, request, agent.policy.thresholds.summariser_wait_ms)).text


def _give_up(request: CompressionRequest) -> None:
    """Release the callers of a cancelled request: others wait for its start, turns of this process for its end."""
    if request.begun is not None and not request.begun.done():
        request.begun.set_exception(StoreUnavailable(f"the process is stopping: no compression of {request.session}"))
    if request.ended is not None and not request.ended.done():
        request.ended.cancel()


def _settle(waiting: "asyncio.Future[T] | None", result: T) -> None:
    if waiting is not None and not waiting.done():  # done: its waiter was cancelled
        waiting.set_result(result)


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
