"""The turn runner: asks the model, runs tools, journals each step as it happens, commits once.

Rule 1: nothing is done before it is written that it will be done; nothing is told before it is committed.
Rule 2: where a turn stands is read from the journal each time round, so starting and resuming are the same code.
Rule 3: `/stop` and interrupting arrivals are seen while the model or a tool is still running.
Rule 4: a dangerous call is not started before a human said yes. The turn then waits in the store, not here (D9).
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast import log
from holdfast.core import say
from holdfast.core.approval import (
    ID_BITS,
    IDS_OFFERED,
    ApprovalAsk,
    Decision,
    approval_id,
    asked_text,
    needs_approval,
    refused_text,
)
from holdfast.core.compress import Pressure, pressure
from holdfast.core.context import Context, render
from holdfast.core.errors import ModelFailed
from holdfast.core.ids import ReplyId, SessionId, make_id
from holdfast.core.journal import (
    AnyBody,
    AssistantSaid,
    Noticed,
    ToolCall,
    ToolReturned,
    ToolStarted,
    UserSaid,
    storable,
)
from holdfast.core.mailbox import Claim, plain_run
from holdfast.core.policy import Arrivals
from holdfast.core.recall import is_group
from holdfast.core.turn import (
    UNKNOWN_OUTCOME,
    OpenCall,
    Phase,
    Reply,
    Step,
    Turn,
    TurnCommit,
    TurnEvent,
    Usage,
    OutgoingMessage,
    close_call,
    open_calls,
)
from holdfast.loops.agents import Agent, Agents
from holdfast.loops.asking import Asker, is_cancelled_from_outside
from holdfast.loops.compressor import Compressor
from holdfast.loops.keeper import Briefing
from holdfast.loops.recaller import Recaller, query_of, shown_of
from holdfast.loops.room import RoomMaker
from holdfast.loops.watch import Interruption, race, watch
from holdfast.ports.clock import Clock
from holdfast.ports.entropy import Entropy
from holdfast.ports.model import Answer, ModelRequest, Task
from holdfast.ports.notifier import Event, Notifier, Topic
from holdfast.ports.store import Store
from holdfast.ports.tasks import Tasks
from holdfast.ports.tool import ToolContext

STEER_READ_MAX = 32


@dataclass(slots=True)
class Run:
    """One attempt at one turn, in RAM."""

    claim: Claim
    turn: Turn
    agent: Agent
    usage: Usage = field(default_factory=Usage)
    partial: str = ""
    steps: int = 0
    remembered: bool = False  # memory was looked up in this attempt
    instructions: str = ""  # what stands before the conversation


class TurnRunner:
    def __init__(
        self,
        *,
        store: Store,
        agents: Agents,
        compressor: Compressor,
        recaller: Recaller,
        briefing: Briefing,
        notifier: Notifier,
        clock: Clock,
        entropy: Entropy,
        tasks: Tasks,
    ) -> None:
        self._store = store
        self._agents = agents
        self._compressor = compressor
        self._recaller = recaller
        self._briefing = briefing
        self._notifier = notifier
        self._clock = clock
        self._entropy = entropy
        self._tasks = tasks
        self._asker = Asker(entropy, tasks)
        self._room = RoomMaker(store, compressor, notifier)

    # --- starting and resuming

    async def start(self, claim: Claim, turn: Turn) -> None:
        with log.pinned(session=turn.session, turn=turn.n):
            log.info("turn.opened", attempt=turn.attempt, messages=len(turn.messages))
            self._publish(claim, turn, "turn.opened")
            await self._run(Run(claim, turn, self._agents.get(claim.agent)))

    async def resume(self, claim: Claim, turn: Turn) -> None:
        agent = self._agents.get(claim.agent)
        with log.pinned(session=turn.session, turn=turn.n):
            if turn.attempt >= agent.policy.turn.turn_attempts_max and turn.phase is not Phase.AWAITING:
                run = Run(claim, turn, agent)
                await self._fail(run, f"It was tried {turn.attempt} times and stopped its worker each time.")
                return
            turn = await self._store.resume_turn(claim, turn)
            log.info("turn.resumed", attempt=turn.attempt, phase=turn.phase.value)
            self._publish(claim, turn, "turn.restarted")
            await self._run(Run(claim, turn, agent))

    def left(self, session: SessionId) -> None:
        """The conversation went to another session: nothing that was looked up for this one is shown any more."""
        self._recaller.forget(session)

    async def _run(self, run: Run) -> None:
        while True:
            context = await self._store.read_context(run.turn.session)
            run.instructions = await self._brief(run, context)
            if run.turn.stopping:
                await self._interrupt(run, Interruption.STOPPED)
                return
            if run.turn.approval is not None and run.turn.approval.is_superseded:
                await self._interrupt(run, Interruption.SUPERSEDED)
                return
            calls = open_calls([entry for entry in context.entries if entry.turn == run.turn.n])
            ended = await self._act(run, calls) if calls else await self._think(run, context)
            if ended:
                return

    async def _brief(self, run: Run, context: Context) -> str:
        policy = run.agent.policy
        return await self._briefing.instructions(
            policy.instructions,
            policy.notes,
            agent=run.claim.agent,
            session=run.turn.session,
            summaries=context.summaries,
            who=run.turn.principal,
        )

    # --- thinking

    async def _think(self, run: Run, context: Context) -> bool:
        """One question to the model; True when the turn has ended."""
        if await self._steer(run) or await self._remember(run, context):
            return False
        run.steps += 1
        if run.steps > run.agent.policy.turn.steps_max:
            await self._fail(run, f"The model asked for tools {run.steps - 1} times without answering.")
            return True
        if self._pressure(run, context) is Pressure.HARD:
            room = await self._raced(run, self._room.make(context, run.agent.policy.thresholds, run.instructions))
            if isinstance(room, Interruption):
                await self._interrupt(run, room)
                return True
            context = room
        instructions = run.instructions
        request = ModelRequest(
            task=Task.REPLY,
            messages=render(context, instructions, named=is_group(run.claim.address)),
            tools=run.agent.tools.specs(run.claim.agent),
        )
        try:
            answer = await self._raced(run, self._ask(run, request))
        except ModelFailed as error:
            await self._fail(run, f"{error}.")
            return True
        if isinstance(answer, Interruption):
            await self._interrupt(run, answer)
            return True
        estimated = context.estimated_tokens(instructions)
        run.usage = Usage(
            tokens_in=answer.usage.tokens_in,
            tokens_out=run.usage.tokens_out + answer.usage.tokens_out,
            estimated_in=estimated,
        )
        return await self._answered(run, answer)

    async def _ask(self, run: Run, request: ModelRequest) -> Answer:
        def heard(text: str) -> None:
            run.partial += text
            self._publish(run.claim, run.turn, "turn.delta", text=text)

        def restarted() -> None:
            if run.partial:
                run.partial = ""
                self._publish(run.claim, run.turn, "turn.restarted")

        return await self._asker.ask(run.agent.model, request, run.agent.policy.turn, heard, restarted)

    async def _answered(self, run: Run, answer: Answer) -> bool:
        body = AssistantSaid(text=answer.text, calls=answer.calls, model=run.agent.model.name)
        if answer.calls:
            await self._step(run, Step(event=TurnEvent.CALLED, entries=(body,)))
            run.partial = ""
            return False
        await self._commit(run, TurnEvent.ANSWERED, (body,), answer.text)
        return True

    async def _steer(self, run: Run) -> bool:
        """Let messages that arrived meanwhile join the turn, where the policy says so."""
        if run.agent.policy.turn.arrivals is not Arrivals.STEER:
            return False
        mail = await self._store.read_mail(run.claim, limit=STEER_READ_MAX)
        joining = tuple(item for item in plain_run(mail.waiting) if item.principal == run.turn.principal)
        if not joining:
            return False
        await self._step(
            run,
            Step(
                event=TurnEvent.JOINED,
                entries=tuple(item.said() for item in joining),
                messages=tuple(item.message for item in joining),
            ),
        )
        return True

    # --- memory

    async def _remember(self, run: Run, context: Context) -> bool:
        """Look memory up once per turn and journal what is shown of it; True when something was (D13).

        A resumed turn finds what was shown before and is not shown anything else.
        """
        said = [entry for entry in context.entries if entry.turn == run.turn.n]
        if run.remembered or any(not isinstance(entry.body, UserSaid) for entry in said):
            return False
        run.remembered = True
        query = query_of(run.claim, run.turn, run.agent.policy.recall, said)
        if not query.text.strip():
            return False
        found = await self._raced(run, self._recaller.recall(query, run.agent.policy.recall))
        if isinstance(found, Interruption):
            return False  # the same interruption is seen again before the model is asked
        shown = shown_of(found, run.agent.policy.recall, context.entries)
        if shown is None:
            return False
        await self._step(run, Step(event=TurnEvent.RECALLED, entries=(shown,)))
        return True

    # --- acting

    async def _act(self, run: Run, calls: tuple[OpenCall, ...]) -> bool:
        """Run the first open call; True when the turn has ended, or waits for a human."""
        first, *others = calls
        if run.turn.phase is Phase.AWAITING and await self._is_refused(run, first, is_last=not others):
            return False
        if run.turn.phase is Phase.ACTING and not first.started and self._is_feared(run, first.call):
            await self._ask_human(run, first.call)
            return True
        outcome = await self._outcome(run, first)
        if isinstance(outcome, Interruption):
            await self._interrupt(run, outcome)
            return True
        returned, messages = outcome
        event = TurnEvent.STEPPED if others else TurnEvent.RETURNED
        outgoing = tuple(replace(one, id=self._reply_id("rep")) for one in messages)
        await self._step(run, Step(event=event, entries=(returned,), outgoing=outgoing))
        if outgoing:
            self._notifier.wake(Topic.REPLY)
        return False

    async def _outcome(
        self, run: Run, first: OpenCall
    ) -> tuple[ToolReturned, tuple[OutgoingMessage, ...]] | Interruption:
        """What came of a call, or what cut it off. It is journaled as started before it starts."""
        if first.started and not run.agent.tools.is_idempotent(first.call.name):
            return close_call(first), ()
        if not first.started:
            started = ToolStarted(call=first.call.id, name=first.call.name)
            event = TurnEvent.DECIDED if run.turn.phase is Phase.AWAITING else TurnEvent.STEPPED
            await self._step(run, Step(event=event, entries=(started,)))
        found: tuple[ToolReturned, tuple[OutgoingMessage, ...]] | Interruption
        found = await self._raced(run, self._call(run, first))
        return found

    async def _call(self, run: Run, open_call: OpenCall) -> tuple[ToolReturned, tuple[OutgoingMessage, ...]]:
        """What came of a call. Cut off by the time limit, or by itself, its outcome is unknown."""
        context = ToolContext(
            agent=run.claim.agent,
            session=run.turn.session,
            turn=run.turn.n,
            principal=run.turn.principal,
            call=open_call.call.id,
            address=run.claim.address,
            epoch=run.turn.epoch,
            head_seq=run.turn.first_seq - 1,
            hop=run.turn.hop,
        )
        call, wait_ms = open_call.call, run.agent.policy.turn.tool_wait_ms
        try:
            async with asyncio.timeout(wait_ms / 1000):
                outcome = await run.agent.tools.call(call.name, call.arguments, context)
        except TimeoutError:
            return _unknown(call, f"The tool did not answer within {wait_ms} ms."), ()
        except asyncio.CancelledError:
            if is_cancelled_from_outside():
                raise
            return _unknown(call, "The tool cancelled its own work."), ()
        if outcome.unknown:
            return _unknown(call, storable(outcome.text)), ()
        said = "ok" if outcome.ok else "error"
        return ToolReturned(call=call.id, name=call.name, text=storable(outcome.text), outcome=said), outcome.messages

    # --- approvals

    def _is_feared(self, run: Run, call: ToolCall) -> bool:
        """Whether a human must say yes first. A call of a tool that does not exist harms nobody."""
        agent, tools = run.claim.agent, run.agent.tools
        dangerous = tools.needs_approval(agent, call.name)
        if not needs_approval(run.agent.policy.approval, call.name, dangerous=dangerous):
            return False
        return dangerous or call.name in {spec.name for spec in tools.specs(agent)}

    async def _ask_human(self, run: Run, call: ToolCall) -> None:
        policy = run.agent.policy
        ask = ApprovalAsk(
            ids=tuple(approval_id(self._entropy.bits(ID_BITS)) for _ in range(IDS_OFFERED)),
            call=call,
            reply=self._reply_id("ask"),
            wait_ms=policy.approval.wait_ms,
            approvers=policy.approval.approvers,
            yields=policy.turn.arrivals is Arrivals.INTERRUPT,
        )
        await self._step(run, Step(event=TurnEvent.ASKED, entries=(), ask=ask))
        self._notifier.wake(Topic.REPLY)

    async def _is_refused(self, run: Run, first: OpenCall, *, is_last: bool) -> bool:
        """Tell the model that its call is not run; False when a human said yes to it."""
        approval = run.turn.approval
        if approval is None or approval.decision is Decision.APPROVED:
            return False
        said = ToolReturned(
            call=first.call.id, name=first.call.name, text=storable(refused_text(approval)), outcome="not_run"
        )
        event = TurnEvent.RETURNED if is_last else TurnEvent.DECIDED
        await self._step(run, Step(event=event, entries=(said,)))
        return True

    # --- ending

    async def _fail(self, run: Run, reason: str) -> None:
        reason = storable(reason)
        entries = await self._closing_entries(run, f"[This turn failed: {reason}]")
        await self._commit(run, TurnEvent.FAILED, entries, say.failed_text(reason), reason=reason)

    async def _interrupt(self, run: Run, why: Interruption) -> None:
        entries = await self._closing_entries(run, f"[This turn was interrupted: {why.value}.]")
        text = run.partial or say.interrupted_text(why.value)
        await self._commit(run, TurnEvent.INTERRUPTED, entries, text, reason=why.value)

    async def _closing_entries(self, run: Run, notice: str) -> tuple[AnyBody, ...]:
        """Every call gets an honest result, and what the user already saw is kept."""
        context = await self._store.read_context(run.turn.session)
        calls = open_calls([entry for entry in context.entries if entry.turn == run.turn.n])
        closed = tuple(close_call(call) for call in calls)
        seen = (AssistantSaid(text=run.partial, model=run.agent.model.name),) if run.partial else ()
        return (*closed, *seen, Noticed(text=notice))

    async def _commit(
        self,
        run: Run,
        event: TurnEvent,
        entries: tuple[AnyBody, ...],
        text: str,
        *,
        reason: str | None = None,
    ) -> None:
        reply = Reply(id=self._reply_id("rep"), text=text)
        commit = TurnCommit(
            event=event,
            entries=entries,
            replies=(reply,),
            usage=run.usage,
            reason=reason,
            policies=run.agent.policy.deliveries,
        )
        committed = await self._store.commit_turn(run.claim, run.turn, commit)
        log.info(
            "turn.committed",
            outcome=event.value,
            attempt=run.turn.attempt,
            steps=run.steps,
            tokens_in=run.usage.tokens_in,
            tokens_out=run.usage.tokens_out,
            duration_ms=self._clock.now() - run.turn.opened_at,
            waiting=committed.waiting,
        )
        self._publish(run.claim, run.turn, event.value, text=text)
        self._notifier.wake(Topic.DELIVERY)
        await self._prepare_next(run)

    async def _prepare_next(self, run: Run) -> None:
        """Ask ahead for the next turn, and have a summary made in time."""
        context = await self._store.read_context(run.turn.session)
        said = [entry for entry in context.entries if entry.turn == run.turn.n]
        query = query_of(run.claim, run.turn, run.agent.policy.recall, said, head_seq=context.last_seq)
        if query.text.strip():
            self._recaller.prefetch(query, run.agent.policy.recall)
        if self._pressure(run, context) is not Pressure.NONE:
            self._compressor.want(run.turn.session, run.claim.agent)

    def _pressure(self, run: Run, context: Context) -> Pressure:
        return pressure(context.used_tokens(run.instructions), run.agent.policy.thresholds)

    # --- small helpers

    def _reply_id(self, prefix: str) -> ReplyId:
        return ReplyId(make_id(prefix, self._clock.now(), self._entropy.bits(80)))

    async def _step(self, run: Run, step: Step) -> None:
        run.turn = await self._store.append_step(run.claim, run.turn, step)
        log.info("turn.stepped", step=step.event.value, phase=run.turn.phase.value)
        approval = run.turn.approval
        text = asked_text(run.claim.agent, step.ask.call, approval.id) if step.ask and approval else ""
        self._publish(run.claim, run.turn, step.event.value, text=text)

    async def _raced(self, run: Run, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401
        """The work's result, or the interruption that came first."""
        interrupts = run.agent.policy.turn.arrivals is Arrivals.INTERRUPT
        watching = watch(self._store, self._notifier, run.claim, arrivals_interrupt=interrupts)
        return await race(self._tasks, work, watching)

    def _publish(self, claim: Claim, turn: Turn, name: str, *, text: str = "") -> None:
        self._notifier.publish(
            Event(
                name=name,
                session=turn.session,
                mailbox=claim.mailbox,
                turn=turn.n,
                messages=turn.messages,
                text=text,
            )
        )


def _unknown(call: ToolCall, why: str) -> ToolReturned:
    return ToolReturned(call=call.id, name=call.name, text=f"{why} {UNKNOWN_OUTCOME}", outcome="unknown")
