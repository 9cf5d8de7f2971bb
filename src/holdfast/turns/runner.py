"""The turn runner: calls the model, runs tools, journals each step as it happens, commits once.

Rule 1: every action is journaled before it happens; no result is published before it is committed.
Rule 2: each iteration reads the state of the turn from the journal, so starting and resuming are the same code.
Rule 3: `/stop` and interrupting arrivals are seen while the model or a tool is running.
"""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from holdfast.inbox.address import parse
from holdfast.inbox.channels import ChannelKey
from holdfast.inbox.mailbox import plain_run, source_of
from holdfast.inbox.mailbox_sql import read_mail
from holdfast.kernel import log
from holdfast.kernel.errors import ClaimLost, InvariantBroken, ModelFailed
from holdfast.kernel.ids import Instant, ReplyId, SessionId
from holdfast.kernel.notifier import DELTA, Topic
from holdfast.kernel.spans import TURN, span
from holdfast.memory.recaller import Recaller, query_of, shown_of
from holdfast.outbox.post import PULLED
from holdfast.sessions import system_messages
from holdfast.sessions.compression import Pressure
from holdfast.sessions.compressor import Compressor
from holdfast.store.ports import Ports
from holdfast.turns.activity import ActivityKind, context_parts
from holdfast.turns.agents import Agents, acting
from holdfast.turns.context import Context, is_named, render
from holdfast.turns.context_cache import Brief, Briefing, ContextCache, audience_of
from holdfast.turns.context_window import ContextFitter
from holdfast.turns.journal import (
    AnyBody,
    AssistantSaid,
    Noticed,
    UserSaid,
    body_tokens,
    storable,
)
from holdfast.turns.model import ModelAnswer, ModelRequest, ModelTask, ToolSpec
from holdfast.turns.model_call import ModelCaller, ModelTry, Patience
from holdfast.turns.policy import Arrivals
from holdfast.turns.tool import Unreliable, outage_text
from holdfast.turns.tool_calls import Hint, ToolCaller
from holdfast.turns.turn import (
    NewReply,
    Phase,
    Step,
    Turn,
    TurnCommit,
    TurnEvent,
    Usage,
    close_call,
    open_calls,
)
from holdfast.turns.turn_run import ClaimRun, Interruption, TurnRun, TurnSteps
from holdfast.turns.turn_sql import resume_turn
from holdfast.turns.work_sql import EndedTurn, end_turn

STEER_READ_MAX = 32
INTERRUPTED = "interrupted"  # the outcome of an activity that was cancelled


class TurnRunner:
    def __init__(
        self,
        ports: Ports,
        contexts: ContextCache,
        *,
        agents: Agents,
        compressor: Compressor,
        recaller: Recaller,
        briefing: Briefing,
        hint: Hint,
    ) -> None:
        self._ports = ports
        self._contexts = contexts
        self._agents = agents
        self._compressor = compressor
        self._recaller = recaller
        self._briefing = briefing
        self._steps = TurnSteps(ports, contexts)
        self._tool_caller = ToolCaller(ports, self._steps, hint)
        self._model_caller = ModelCaller(ports.clock, ports.entropy, ports.tasks)
        self._tool_tokens: dict[str, tuple[Sequence[ToolSpec], int]] = {}  # by agent
        self._fitter = ContextFitter(ports, contexts, compressor)
        self._suspects = asyncio.Lock()

    # --- starting and resuming

    async def start(self, serving: ClaimRun, turn: Turn, context: Context) -> EndedTurn | None:
        """Run a turn that was just opened; None if it now waits for a human."""
        claim = serving.claim
        with log.pinned(session=turn.session, turn=turn.n):
            log.info("turn.opened", attempt=turn.attempt, messages=len(turn.messages))
            self._steps.publish(claim, turn, "turn.opened")
            agent = acting(self._agents, claim.agent, turn.chain)
            return await self._run(TurnRun(claim, serving, turn, context, agent))

    async def resume(self, serving: ClaimRun, turn: Turn) -> EndedTurn | None:
        agent = acting(self._agents, serving.claim.agent, turn.chain)
        with log.pinned(session=turn.session, turn=turn.n):
            context = await self._contexts.read(turn.session)
            run = TurnRun(serving.claim, serving, turn, context, agent)
            if turn.attempt >= agent.policy.turn.turn_attempts_max and turn.phase is not Phase.AWAITING:
                await self._fail(run, f"It was tried {turn.attempt} times and stopped its worker each time.")
                return run.ended
            is_suspect = turn.attempt >= max(1, agent.policy.turn.turn_attempts_max // 2)
            async with self._suspects if is_suspect else nullcontext():
                return await self._take_up(run)

    async def _take_up(self, run: TurnRun) -> EndedTurn | None:
        """Count an attempt and continue the turn.

        Turns that were running during several crashes resume one at a time, so the next crash counts against one of
        them and not against every turn that was running.
        """
        run.turn = await self._ports.db.write(resume_turn(run.claim, run.turn))
        run.context = await self._contexts.read(run.turn.session)
        log.info("turn.resumed", attempt=run.turn.attempt, phase=run.turn.phase.value)
        self._steps.publish(run.claim, run.turn, "turn.restarted")
        return await self._run(run)

    def left(self, session: SessionId) -> None:
        """Drop prefetched recall: the conversation moved to another session."""
        self._recaller.forget(session)

    async def _run(self, run: TurnRun) -> EndedTurn | None:
        with span(
            TURN,
            run.claim.agent,
            gen_ai_agent_name=run.claim.agent,
            gen_ai_conversation_id=run.turn.session,
            holdfast_turn_number=run.turn.n,
            holdfast_turn_attempt=run.turn.attempt,
        ):
            while run.ended is None and not await self._advance(run):
                pass
        return run.ended

    async def _advance(self, run: TurnRun) -> bool:
        """Take the next step of the turn; True if the turn now waits for a human."""
        context = run.context
        if context.open_turn != run.turn.n:  # another writer ended the turn, and may have undone it
            raise ClaimLost(f"turn {run.turn.n} of {run.turn.session} is over", session=run.turn.session)
        run.brief = await self._brief(run, context)
        why: Interruption | None = None
        if run.turn.stopping:
            why = Interruption.STOPPED
        elif run.turn.approval is not None and run.turn.approval.is_superseded:
            why = Interruption.SUPERSEDED
        elif calls := open_calls(context.open_entries):
            why = await self._tool_caller.act(run, calls)
        elif not await self._steer(run) and not await self._remember(run, context):
            why = await self._think(run, context)
        if why is not None:
            await self._interrupt(run, why)
        return run.turn.waits

    async def _brief(self, run: TurnRun, context: Context) -> Brief:
        """Notes and instructions, followed by the tool servers that are down, under their configured names."""
        policy, tools = run.agent.policy, run.agent.tools
        audience = audience_of(policy, context, run.turn.principal, run.claim.address)
        brief = await self._briefing.read(policy, context, audience)
        outages = tools.outages() if isinstance(tools, Unreliable) else ()
        if not outages:
            return brief
        return replace(brief, instructions="\n\n".join(filter(None, (brief.instructions, outage_text(outages)))))

    def _now(self) -> Instant:
        return self._ports.clock.now()

    # --- thinking

    async def _think(self, run: TurnRun, context: Context) -> Interruption | None:
        """Send one request to the model, and journal its tool calls or commit its answer."""
        asked = sum(isinstance(entry.body, AssistantSaid) for entry in context.open_entries)  # in every attempt
        run.steps = 1 + asked
        if run.steps > run.agent.policy.turn.steps_max:
            await self._fail(run, f"The model asked for tools {asked} times without answering.")
            return None
        if context.pressure(run.agent.policy.thresholds, run.brief.text) is Pressure.HARD:
            began = self._now()
            fitted = await self._steps.raced(
                run, self._fitter.make(context, run.agent.policy.thresholds, run.brief.text)
            )
            outcome = INTERRUPTED if isinstance(fitted, Interruption) else "fits"
            run.note(ActivityKind.COMPRESSION, "summary", began, self._now(), outcome)
            if isinstance(fitted, Interruption):
                return fitted
            context = fitted
            run.context = self._contexts.get(run.turn.session) or fitted
        brief = run.brief
        request = ModelRequest(
            task=ModelTask.REPLY,
            messages=render(context, brief.instructions, brief.notes, named=is_named(context, run.claim.address)),
            tools=run.agent.tools.specs(run.claim.agent),
        )
        began, parts = self._now(), self._parts(run, context, request.tools)
        try:
            answer = await self._steps.raced(run, self._ask(run, request, parts))
        except ModelFailed as error:
            await self._fail(run, f"{error}.", f"{error.reason}.")
            return None
        if isinstance(answer, Interruption):
            name, now = run.agent.model.name, self._now()
            run.note(ActivityKind.MODEL, name, began, now, INTERRUPTED, detail={"parts": parts})
            return answer
        run.usage = Usage(
            tokens_in=answer.usage.tokens_in,
            tokens_out=run.usage.tokens_out + answer.usage.tokens_out,
            estimated_in=context.estimated_tokens(brief.text),
        )
        body = AssistantSaid(text=answer.text, calls=answer.calls, model=answer.model or run.agent.model.name)
        if answer.calls:
            await self._steps.take(run, Step(event=TurnEvent.CALLED, entries=(body,)))
            run.partial = ""
        else:
            await self._commit(run, TurnEvent.ANSWERED, (body,), answer.text)
        return None

    def _parts(self, run: TurnRun, context: Context, tools: Sequence[ToolSpec]) -> dict[str, int]:
        known, tokens = self._tool_tokens.get(run.claim.agent, ((), 0))
        if known != tools:
            tokens = sum(one.tokens for one in tools)
            self._tool_tokens[run.claim.agent] = tools, tokens
        return context_parts(context, instructions=run.brief.instructions, notes=run.brief.notes, tools=tokens)

    async def _ask(self, run: TurnRun, request: ModelRequest, parts: dict[str, int]) -> ModelAnswer:
        def tried(one: ModelTry) -> None:
            run.note_model(one, parts)

        def heard(text: str) -> None:
            run.partial += text
            if self._ports.notifier.wants_deltas(run.claim.mailbox, run.turn.messages):
                self._steps.publish(run.claim, run.turn, DELTA, text=text)

        def restarted() -> None:
            if run.partial:
                run.partial = ""
                self._steps.publish(run.claim, run.turn, "turn.restarted")

        policy = run.agent.policy.turn
        run.patience = run.patience or Patience.of_turn(policy)
        return await self._model_caller.ask(
            run.agent.model, request, policy, heard, restarted, patience=run.patience, tried=tried
        )

    async def _steer(self, run: TurnRun) -> bool:
        """Add messages that arrived meanwhile to the turn, if the policy says so."""
        if run.agent.policy.turn.arrivals is not Arrivals.STEER:
            return False
        mail = await self._ports.db.read(read_mail(run.claim, limit=STEER_READ_MAX))
        joining = plain_run(mail.waiting)
        if not joining or source_of(joining[0]) != source_of(run.turn):
            return False
        await self._steps.take(
            run,
            Step(
                event=TurnEvent.JOINED,
                entries=tuple(item.said() for item in joining),
                messages=tuple(item.message for item in joining),
            ),
        )
        return True

    # --- memory

    async def _remember(self, run: TurnRun, context: Context) -> bool:
        """Query memory once per turn and journal the shown part; True if any was shown (D13).

        A resumed turn reuses the recall of its earlier attempt and shows no other.
        """
        said = context.open_entries
        if run.remembered or any(not isinstance(entry.body, UserSaid) for entry in said):
            return False
        run.remembered = True
        if not self._recaller.is_able(run.claim.agent, run.agent.policy.recall):
            return False
        query = query_of(run.claim, run.turn, run.agent.policy.recall, said, context)
        if not query.text.strip():
            return False
        asking, began = self._recaller.recall(query, run.agent.policy.recall, as_of=context.withdrawals), self._now()
        found = await self._steps.raced(run, asking)
        if isinstance(found, Interruption):
            run.note(ActivityKind.RECALL, "memory", began, self._now(), INTERRUPTED)
            return False  # the interruption is detected again before the model call
        shown = shown_of(found, run.agent.policy.recall, context)
        run.note_recall(found, shown, began, self._now())
        if shown is None:
            return False
        await self._steps.take(run, Step(event=TurnEvent.RECALLED, entries=(shown,)))
        return True

    # --- ending

    async def _fail(self, run: TurnRun, said: str, reason: str = "") -> None:
        """`said` is for the sender and the journal; `reason`, if it says more, is for the operator."""
        said = storable(said)
        entries = _closing_entries(run, f"[This turn failed: {said}]")
        await self._commit(
            run, TurnEvent.FAILED, entries, system_messages.failed_text(said), reason=storable(reason or said)
        )

    async def _interrupt(self, run: TurnRun, why: Interruption) -> None:
        entries = _closing_entries(run, f"[This turn was interrupted: {why.value}.]")
        text = run.partial if run.partial.strip() else system_messages.interrupted_text(why.value)
        await self._commit(run, TurnEvent.INTERRUPTED, entries, text, reason=why.value)

    async def _commit(
        self,
        run: TurnRun,
        event: TurnEvent,
        entries: tuple[AnyBody, ...],
        text: str,
        *,
        reason: str | None = None,
    ) -> None:
        reply = NewReply(id=ReplyId(self._ports.new_id("rep")), text=text)
        commit = TurnCommit(
            event=event,
            entries=entries,
            replies=(reply,),
            usage=run.usage,
            reason=reason,
            policies=run.agent.policy.deliveries,
            activities=tuple(run.activities),
        )
        committed = (await self._end(run, commit)).committed
        log.info(
            "turn.committed",
            outcome=event.value,
            attempt=run.turn.attempt,
            steps=run.steps,
            tokens_in=run.usage.tokens_in,
            tokens_out=run.usage.tokens_out,
            duration_ms=self._now() - run.turn.opened_at,
            waiting=committed.waiting,
        )
        self._steps.publish_activities(run)
        self._steps.publish(run.claim, run.turn, event.value, text=text)
        self._ports.notifier.wake(Topic.DELIVERY, run.claim.agent)
        address = parse(run.claim.address)
        if address.channel not in PULLED:  # a reader that fetches its replies needs no sender
            self._ports.notifier.wake(Topic.REPLY, ChannelKey(address.agent, address.channel))
        self._prepare_next(run, entries)

    async def _end(self, run: TurnRun, commit: TurnCommit) -> EndedTurn:
        """Commit the turn and open the next one in the same transaction.

        If the next message cannot be processed, the turn is committed alone: its answer must not wait for that.
        """
        run.serving.watch.begin_transaction()
        ending = end_turn(run.claim, run.turn, commit, run.serving.onward(), self._contexts.get)
        try:
            run.ended = await self._ports.db.write(ending)
        except InvariantBroken:
            run.ended = await self._ports.db.write(end_turn(run.claim, run.turn, commit, None, self._contexts.get))
        return run.ended

    def _prepare_next(self, run: TurnRun, entries: Sequence[AnyBody]) -> None:
        """Prefetch recall for the next turn, and request a summary if the context is near its limit."""
        said = run.context.open_entries
        head_seq = run.turn.last_seq + len(entries)
        query = query_of(run.claim, run.turn, run.agent.policy.recall, said, run.context, head_seq=head_seq)
        if query.text.strip():
            self._recaller.prefetch(query, run.agent.policy.recall, as_of=run.context.withdrawals)
        added = sum(body_tokens(body) for body in entries)
        if run.context.pressure(run.agent.policy.thresholds, run.brief.text, added) is not Pressure.NONE:
            self._compressor.want(run.turn.session, run.claim.agent)


def _closing_entries(run: TurnRun, notice: str) -> tuple[AnyBody, ...]:
    """Give every open call an honest result, and keep the text that the user already saw."""
    closed = tuple(close_call(call) for call in open_calls(run.context.open_entries))
    seen = (AssistantSaid(text=run.partial, model=run.agent.model.name),) if run.partial.strip() else ()
    return (*closed, *seen, Noticed(text=notice))
