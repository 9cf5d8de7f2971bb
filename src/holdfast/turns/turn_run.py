"""One attempt at one turn: its state, its steps, each durable before it is published, and what interrupts it.

`/stop` and interrupting arrivals end a turn while the model or a tool is running. A watch exists for as long as a
mailbox is claimed. It reads the store only if a message was accepted since the newest transaction of its worker, and
once a second, because another process may accept one.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, TypeVar

from holdfast.inbox.mailbox import Claim, plain_run
from holdfast.inbox.mailbox_sql import read_mail
from holdfast.kernel import log
from holdfast.kernel.errors import InvariantBroken, StoreUnavailable
from holdfast.kernel.ids import Instant
from holdfast.kernel.notifier import Event, Topic, is_set_within
from holdfast.memory.recall import RecallOutcome
from holdfast.store.ports import Ports
from holdfast.turns.activity import Activity, ActivityKind, providers_of, vendor_detail
from holdfast.turns.agents import Agent
from holdfast.turns.approval import asked_text
from holdfast.turns.context import Context
from holdfast.turns.context_cache import Brief, ContextCache
from holdfast.turns.journal import Recalled
from holdfast.turns.model_call import ModelTry, Patience
from holdfast.turns.policy import Arrivals
from holdfast.turns.turn import Step, Turn, Usage
from holdfast.turns.work_sql import EndedTurn, Planner, take_step

LOOK_EVERY_MS = 1_000  # `/stop` may be accepted by another process
T = TypeVar("T")


class Interruption(Enum):
    STOPPED = "stopped by /stop"
    SUPERSEDED = "another message came in"


class MailboxWatch:
    """Watches a claimed mailbox. `is_news` says whether a message may have been accepted since the claim."""

    def __init__(
        self, ports: Ports, claim: Claim, *, is_news: bool = False, wait: Callable[[int], None] = lambda _: None
    ) -> None:
        self._ports = ports
        self._claim = claim
        self._is_news = is_news
        self._wait = wait  # told when a wait for a model, a tool or memory begins (1) and ends (-1)
        self._stirred = asyncio.Event()  # a message was accepted, or the running work ended
        self._leave = ports.notifier.listen(claim.mailbox, self._hear)

    def close(self) -> None:
        self._leave()

    def begin_transaction(self) -> None:
        """The worker's next transaction sees every message that was accepted until now."""
        self._is_news = False

    def _hear(self, event: Event) -> None:
        if event.name == "message.accepted":
            self._is_news = True
            self._stirred.set()

    async def race(self, work: Coroutine[Any, Any, T], *, arrivals_interrupt: bool) -> T | Interruption:
        """The result of `work`, or the interruption that came first; `work` is then cancelled.

        Raises what `work` raises, and `ClaimLost` if the claim is lost.
        """
        ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        task = self._ports.tasks.start(self._run(work, ended), name="work")
        self._wait(1)
        look = self._is_news or arrivals_interrupt  # messages may have waited since before the turn
        try:
            while True:
                self._stirred.clear()
                if look and (why := await self._look(arrivals_interrupt=arrivals_interrupt)) is not None:
                    return why
                if ended.done():
                    return ended.result()
                look = not await is_set_within(self._stirred, LOOK_EVERY_MS) or self._is_news
        finally:
            self._wait(-1)
            task.cancel()
            if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
                work.close()  # its task was cancelled before it started
            if not ended.cancel():
                ended.exception()  # an error after an interruption counts as seen; asyncio would report it

    async def _look(self, *, arrivals_interrupt: bool) -> Interruption | None:
        """Why the open turn must be interrupted, if it must.

        A failed read does not cut off the running model or tool: the next read follows soon, and if the store stays
        unavailable, the turn's own writes fail.
        """
        self._is_news = False
        try:
            mail = await self._ports.db.read(read_mail(self._claim, limit=1))
        except StoreUnavailable:
            return None
        if mail.turn is not None and mail.turn.stopping:
            return Interruption.STOPPED
        return Interruption.SUPERSEDED if arrivals_interrupt and plain_run(mail.waiting) else None

    async def _run(self, work: Coroutine[Any, Any, T], ended: asyncio.Future[T]) -> None:
        try:
            result = await work
        except asyncio.CancelledError:
            # If the race itself is not cancelled, the coroutine cancelled itself, and `ended` would never be set.
            _fail(ended, InvariantBroken("a part of a turn cancelled itself"))
            raise
        except Exception as error:  # noqa: BLE001 - raised again by `ended`
            _fail(ended, error)
        else:
            if not ended.done():
                ended.set_result(result)
        finally:
            self._stirred.set()


def _fail(ended: asyncio.Future[Any], error: Exception) -> None:
    if not ended.done():
        ended.set_exception(error)


@dataclass(frozen=True, slots=True)
class ClaimRun:
    """A claim while its worker serves it."""

    claim: Claim
    watch: MailboxWatch
    onward: Callable[[], Planner | None]  # asked when a turn ends; None if the worker takes no further item


@dataclass(slots=True)
class TurnRun:
    """The in-memory state of one attempt at one turn."""

    claim: Claim
    serving: ClaimRun
    turn: Turn
    context: Context  # the session as of the newest write of this turn
    agent: Agent
    usage: Usage = field(default_factory=Usage)
    partial: str = ""
    steps: int = 0  # model requests in this turn, including the running one
    remembered: bool = False  # this attempt has queried memory
    brief: Brief = field(default_factory=Brief)  # the text before the conversation
    patience: Patience | None = None  # the remaining retry budget
    ended: EndedTurn | None = None  # None while the turn is open
    activities: list[Activity] = field(default_factory=list)  # not stored yet

    def note(
        self,
        kind: ActivityKind,
        name: str,
        started_at: Instant,
        ended_at: Instant,
        outcome: str,
        *,
        call: str | None = None,
        usage: Usage | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """Add an activity to those that the next write of the turn stores."""
        done = Activity(
            kind=kind,
            name=name,
            started_at=started_at,
            ended_at=ended_at,
            outcome=outcome,
            call=call,
            tokens_in=usage.tokens_in if usage else None,
            tokens_out=usage.tokens_out if usage else None,
            detail=detail or {},
        )
        self.activities.append(done)

    def note_model(self, one: ModelTry, parts: Mapping[str, int]) -> None:
        """Add a request to the model, with the tokens of the parts of its context."""
        name, outcome, detail, usage = self.agent.model.name, "failed", dict[str, Any](parts=parts), None
        if one.failed is not None:
            detail |= vendor_detail(one.failed.vendor, str(one.failed))
        elif one.answer is not None:
            name, usage = one.answer.model or name, one.answer.usage
            outcome = "called tools" if one.answer.calls else "answered"
        self.note(ActivityKind.MODEL, name, one.started_at, one.ended_at, outcome, usage=usage, detail=detail)

    def note_recall(self, found: RecallOutcome, shown: Recalled | None, began: Instant, ended: Instant) -> None:
        """Add a query of memory. The sentences about skipped providers name no words of people."""
        sources = shown.sources if shown is not None else ()
        detail: dict[str, Any] = {"found": len(found.memories), "shown": len(sources)}
        if found.took_ms:
            detail["took_ms"] = dict(found.took_ms)
        if found.skipped:
            detail["skipped"] = list(found.skipped)
        outcome = "skipped" if found.skipped and not found.memories else "shown" if sources else "nothing"
        self.note(ActivityKind.RECALL, providers_of(sources), began, ended, outcome, detail=detail)


class TurnSteps:
    def __init__(self, ports: Ports, contexts: ContextCache) -> None:
        self._ports = ports
        self._contexts = contexts

    async def take(self, run: TurnRun, step: Step) -> None:
        run.serving.watch.begin_transaction()
        step = replace(step, activities=tuple(run.activities))
        stepping = take_step(run.claim, run.turn, step, self._contexts.get)
        run.turn, run.context = await self._ports.db.write(stepping)
        self.publish_activities(run)
        self._contexts.keep(run.context)
        log.info("turn.stepped", step=step.event.value, phase=run.turn.phase.value)
        approval = run.turn.approval
        text = asked_text(run.claim.agent, step.ask, approval.id) if step.ask and approval else ""
        self.publish(run.claim, run.turn, step.event.value, text=text)
        if step.outgoing or step.ask:
            self._ports.notifier.wake(Topic.REPLY)

    async def raced(self, run: TurnRun, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401
        """The result of `work`, or the interruption that came first."""
        interrupts = run.agent.policy.turn.arrivals is Arrivals.INTERRUPT
        return await run.serving.watch.race(work, arrivals_interrupt=interrupts)

    def publish(self, claim: Claim, turn: Turn, name: str, *, text: str = "") -> None:
        self._ports.notifier.publish(
            Event(
                name=name,
                session=turn.session,
                mailbox=claim.mailbox,
                turn=turn.n,
                fence=claim.fence,
                messages=turn.messages,
                text=text,
                fields={"agent": claim.agent},
            )
        )

    def publish_activities(self, run: TurnRun) -> None:
        """Announce the activities that were just stored."""
        for done in run.activities:
            fields: dict[str, object] = {
                "agent": run.claim.agent,
                "kind": done.kind.value,
                "name": done.name,
                "outcome": done.outcome,
                "duration_ms": done.duration_ms,
                "tokens_in": done.tokens_in or 0,
                "tokens_out": done.tokens_out or 0,
            }
            self._ports.notifier.publish(
                Event(name="turn.activity", session=run.turn.session, turn=run.turn.n, fields=fields)
            )
        run.activities.clear()
