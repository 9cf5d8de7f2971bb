"""One attempt at one turn, and its steps: each is durable before it is published."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from holdfast.inbox.mailbox import Claim
from holdfast.kernel import log
from holdfast.kernel.ids import ReplyId
from holdfast.kernel.notifier import Event, Topic
from holdfast.store.ports import Ports
from holdfast.turns.agents import Agent
from holdfast.turns.approval import asked_text
from holdfast.turns.context import Context
from holdfast.turns.context_cache import Brief, ContextCache
from holdfast.turns.interruption import MailboxWatch
from holdfast.turns.model_call import Patience
from holdfast.turns.policy import Arrivals
from holdfast.turns.turn import Step, Turn, Usage
from holdfast.turns.work_sql import EndedTurn, Planner, take_step


@dataclass(frozen=True, slots=True)
class ClaimRun:
    """A claim while its worker serves it."""

    claim: Claim
    watch: MailboxWatch
    onward: Callable[[], Planner | None]  # asked when a turn ends; None if the worker takes no further item


@dataclass(slots=True)
class TurnRun:
    """The in-memory state of one attempt at one turn."""

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

    @property
    def claim(self) -> Claim:
        return self.serving.claim


class TurnSteps:
    def __init__(self, ports: Ports, contexts: ContextCache) -> None:
        self._ports = ports
        self._contexts = contexts

    async def take(self, run: TurnRun, step: Step) -> None:
        run.serving.watch.begin_transaction()
        stepping = take_step(run.claim, run.turn, step, self._contexts.get)
        run.turn, run.context = await self._ports.db.write(stepping)
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
            )
        )

    def chance(self, bits: int) -> int:
        return self._ports.entropy.bits(bits)

    def reply_id(self, prefix: str = "rep") -> ReplyId:
        return ReplyId(self._ports.new_id(prefix))
