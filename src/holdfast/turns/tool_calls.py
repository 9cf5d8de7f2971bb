"""Tool calls of a turn, run one by one.

Rule 1: a call is journaled as started before it starts. If it is cut off after that, its outcome is unknown and
        reported as unknown.
Rule 2: a dangerous call starts only after a human approves it. The turn then waits in the store, not here (D9). Tools
        come and go with their servers, so the check is repeated at the instant of the call. A call that cannot be shown
        to a human is not run, and the model is told the reason.
Rule 3: a tool's messages to other agents are stored in the transaction that journals the tool's result, or not at all.
Rule 4: a tool's text from other conversations is journaled as a recall, for this turn only (D13).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from holdfast.inbox.address import parse
from holdfast.kernel import log
from holdfast.kernel.ids import AgentName, ReplyId
from holdfast.kernel.spans import TOOL, span
from holdfast.store.ports import Ports
from holdfast.turns.activity import ActivityKind, tool_name
from holdfast.turns.approval import (
    ID_BITS,
    IDS_OFFERED,
    ApprovalAsk,
    Decision,
    approval_id,
    needs_approval,
    refused_text,
    unshowable_text,
)
from holdfast.turns.call_view import SALT_BITS, why_unshowable
from holdfast.turns.journal import AnyBody, Recalled, ToolCall, ToolReturned, ToolStarted, storable
from holdfast.turns.model_call import is_cancelled_from_outside
from holdfast.turns.policy import Arrivals
from holdfast.turns.tool import ToolContext
from holdfast.turns.turn import UNKNOWN_OUTCOME, OpenCall, OutgoingMessage, Phase, Step, TurnEvent, close_call
from holdfast.turns.turn_run import Interruption, TurnRun, TurnSteps

APPEARED = (
    "This call was not run: the tool was not there yet, and now that it is, a person must say yes. Call it again."
)
TOOL_CHARS_MAX = 100  # limit on a tool's name in the log
Hint: TypeAlias = Callable[[AgentName, str], str]  # a note about commands on an agent's channel


@dataclass(frozen=True, slots=True)
class Result:
    """The parts of a call's outcome that are stored together: its result, its recall and its outgoing messages."""

    returned: ToolReturned
    shown: Recalled | None = None
    messages: tuple[OutgoingMessage, ...] = ()

    @property
    def entries(self) -> tuple[AnyBody, ...]:
        return (self.returned,) if self.shown is None else (self.returned, self.shown)


class ToolCaller:
    def __init__(self, ports: Ports, steps: TurnSteps, hint: Hint) -> None:
        self._ports = ports
        self._steps = steps
        self._hint = hint

    async def act(self, run: TurnRun, calls: tuple[OpenCall, ...]) -> Interruption | None:
        """Advance the first open call by one step. Afterwards the turn may wait for a human."""
        first, *others = calls
        if run.turn.phase is Phase.AWAITING and await self._is_refused(run, first, is_last=not others):
            return None
        if run.turn.phase is Phase.ACTING and not first.started and is_feared(run, first.call):
            await self._ask_human(run, first.call, is_last=not others)
            return None
        result = await self._result(run, first)
        if isinstance(result, Interruption):
            return result
        event = TurnEvent.STEPPED if others else TurnEvent.RETURNED
        outgoing = tuple(replace(message, id=ReplyId(self._ports.new_id("rep"))) for message in result.messages)
        await self._steps.take(run, Step(event=event, entries=result.entries, outgoing=outgoing))
        return None

    async def _result(self, run: TurnRun, first: OpenCall) -> Result | Interruption:
        if first.started and not run.agent.tools.is_idempotent(first.call.name):
            return Result(close_call(first))
        approved = first.started or run.turn.phase is Phase.AWAITING
        if not first.started:
            started = ToolStarted(call=first.call.id, name=first.call.name)
            event = TurnEvent.DECIDED if run.turn.phase is Phase.AWAITING else TurnEvent.STEPPED
            await self._steps.take(run, Step(event=event, entries=(started,), starts=first.call))
        began = self._ports.clock.now()
        result: Result | Interruption = await self._steps.raced(run, _call(run, first.call, approved=approved))
        outcome = "interrupted" if isinstance(result, Interruption) else result.returned.outcome
        name = tool_name(first.call.name, (spec.name for spec in run.agent.tools.specs(run.claim.agent)))
        run.note(ActivityKind.TOOL, name, began, self._ports.clock.now(), outcome, call=first.call.id)
        return result

    # --- approvals

    async def _ask_human(self, run: TurnRun, call: ToolCall, *, is_last: bool) -> None:
        """Make the turn wait for a human; a call that cannot be shown to one is not run."""
        why = why_unshowable(call)
        if why is not None:
            log.warning("approval.unshowable", tool=storable(call.name)[:TOOL_CHARS_MAX], why=why)
            said = _returned(call, unshowable_text(why), "not_run")
            event = TurnEvent.RETURNED if is_last else TurnEvent.STEPPED
            await self._steps.take(run, Step(event=event, entries=(said,)))
            return
        policy = run.agent.policy
        ask = ApprovalAsk(
            ids=tuple(approval_id(self._ports.entropy.bits(ID_BITS)) for _ in range(IDS_OFFERED)),
            call=call,
            reply=ReplyId(self._ports.new_id("ask")),
            wait_ms=policy.approval.wait_ms,
            approvers=policy.approval.approvers,
            yields=policy.turn.arrivals is Arrivals.INTERRUPT,
            hint=self._hint(run.claim.agent, parse(run.claim.address).channel),
            salt=self._ports.entropy.bits(SALT_BITS).to_bytes(SALT_BITS // 8, "big"),
        )
        await self._steps.take(run, Step(event=TurnEvent.ASKED, entries=(), ask=ask))

    async def _is_refused(self, run: TurnRun, first: OpenCall, *, is_last: bool) -> bool:
        """Tell the model that its call is not run; False if a human approved it."""
        approval = run.turn.approval
        if approval is None or approval.decision is Decision.APPROVED:
            return False
        said = _returned(first.call, storable(refused_text(approval)), "not_run")
        event = TurnEvent.RETURNED if is_last else TurnEvent.DECIDED
        await self._steps.take(run, Step(event=event, entries=(said,)))
        return True


def is_feared(run: TurnRun, call: ToolCall) -> bool:
    """Whether a human must approve the call first. A call of an unknown tool is harmless."""
    agent, tools = run.claim.agent, run.agent.tools
    dangerous = tools.needs_approval(agent, call.name)
    if not needs_approval(run.agent.policy.approval, call.name, dangerous=dangerous):
        return False
    return dangerous or call.name in {spec.name for spec in tools.specs(agent)}


async def _call(run: TurnRun, call: ToolCall, *, approved: bool) -> Result:
    """The outcome of a call; unknown if the time limit or the tool itself cancelled it."""
    context = ToolContext(
        agent=run.claim.agent,
        session=run.turn.session,
        turn=run.turn.n,
        principal=run.turn.principal,
        call=call.id,
        address=run.claim.address,
        epoch=run.turn.epoch,
        head_seq=run.turn.first_seq - 1,
        hop=run.turn.hop,
        fence=run.claim.fence,
        where=run.turn.where,
        chain=run.turn.chain,
        shared=run.turn.shared,
    )
    with span(
        TOOL,
        call.name,
        gen_ai_tool_name=call.name,
        gen_ai_tool_call_id=call.id,
        gen_ai_agent_name=run.claim.agent,
        gen_ai_conversation_id=run.turn.session,
    ) as seen:
        if not approved and is_feared(run, call):
            result = Result(_returned(call, APPEARED, "not_run"))
        else:
            result = await _outcome(run, call, context)
        seen.note(holdfast_tool_outcome=result.returned.outcome)
    return result


async def _outcome(run: TurnRun, call: ToolCall, context: ToolContext) -> Result:
    wait_ms = run.agent.policy.turn.tool_wait_ms
    try:
        async with asyncio.timeout(wait_ms / 1000):
            outcome = await run.agent.tools.call(call.name, call.arguments, context)
    except TimeoutError:
        return _unknown(call, f"The tool did not answer within {wait_ms} ms.")
    except asyncio.CancelledError:
        if is_cancelled_from_outside():
            raise
        return _unknown(call, "The tool cancelled its own work.")
    if outcome.unknown:
        return _unknown(call, storable(outcome.text))
    returned = _returned(call, storable(outcome.text), "ok" if outcome.ok else "error")
    return Result(returned, outcome.shown, outcome.messages)


def _unknown(call: ToolCall, why: str) -> Result:
    return Result(_returned(call, f"{why} {UNKNOWN_OUTCOME}", "unknown"))


def _returned(call: ToolCall, text: str, outcome: str) -> ToolReturned:
    return ToolReturned(call=call.id, name=call.name, text=text, outcome=outcome)
