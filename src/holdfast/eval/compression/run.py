"""The measurement: a real store and compressor, a growing conversation, and a search for the planted facts.

The context window is chosen so that every segment of the conversation fills it to the soft threshold, as in service:
then the compressor chooses its own cut, and commits or refuses its summary by its own rules. After each compression
every fact so far is looked for in the model's context.

A failed compression leaves the history whole, so every fact could still be found; its round counts as nothing kept all
the same, because the window would soon be full.
"""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.eval.compression.conversation import DialogueTurn, PlantedConversation, PlantedFact, make_conversation
from holdfast.eval.compression.measured_memory import AGENT, PRINCIPAL, SESSION, MeasuredMemory
from holdfast.eval.compression.report import (
    IN_CONTEXT,
    CompressionReport,
    CompressionRound,
    FactFinding,
    distances_of,
    gone_of,
    kinds_of,
    ratio,
)
from holdfast.eval.compression.retention import Retention, is_answered, where_kept
from holdfast.eval.local_provider import local_provider
from holdfast.kernel.errors import ConfigInvalid
from holdfast.memory.provider import Configured
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.runtime.runtime import Runtime
from holdfast.sessions.compression import Thresholds, summary_tokens_max
from holdfast.sessions.compressor import Compressed, Compressor
from holdfast.store.membership import Member
from holdfast.testing.entropy import SeededEntropy
from holdfast.turns.context import Context, ModelMessage, render
from holdfast.turns.context_cache import ContextCache
from holdfast.turns.journal import AssistantSaid, UserSaid
from holdfast.turns.model import Model, ModelRequest, ModelTask
from holdfast.turns.model_call import hear
from holdfast.turns.policy import AgentPolicy
from holdfast.turns.turn import TurnRecord

OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPlan:
    turns: int = 240
    facts: int = 84
    compressions: int = 6
    seed: int = 1
    recall: bool = True


async def measure(
    plan: EvaluationPlan,
    *,
    summariser: Model,
    asked: Model | None = None,
    provider: Configured | None = None,
    conversation: PlantedConversation | None = None,
    progressed: Callable[[], None] = lambda: None,
) -> CompressionReport:
    """Plant the facts, compress, and look for them; with `asked`, that model is asked for every fact as well.

    Recall uses `provider`, or the local one. `conversation` is a real one with facts of its own: then nothing is
    planted, and the report shows no fact. `progressed` is called after each compression. Raises `InvalidInput` for an
    invalid plan, and `ModelFailed` if the asked model does not answer.
    """
    is_real = conversation is not None
    if conversation is None:
        conversation = make_conversation(
            SeededEntropy(f"compression/{plan.seed}"),
            turns=plan.turns,
            facts=plan.facts,
            compressions=plan.compressions,
        )
    thresholds = Thresholds(context_tokens=window_of(conversation))
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="holdfast-eval-", ignore_cleanup_errors=True)))
        agents = make_agents(model=summariser, policy=AgentPolicy(thresholds=thresholds, memory={}))
        runtime = await stack.enter_async_context(await open_runtime(folder / "store", agents=agents, serve=False))
        memory = MeasuredMemory(provider or local_provider(folder / "memory", AGENT)) if plan.recall else None
        if memory is not None:
            stack.push_async_callback(memory.close)
        member = Member(runtime.ports, host="eval")
        await member.join(sole=False)
        compressor = Compressor(runtime.ports, ContextCache(runtime.db), agents=agents, member=member)
        run = CompressionRun(
            conversation=conversation,
            runtime=runtime,
            compressor=compressor,
            memory=memory,
            asked=asked,
            thresholds=thresholds,
        )
        for segment in conversation.segments:
            await run.go_through(segment)
            progressed()
    report = run.report(plan, summariser.name)
    return replace(report, gone=()) if is_real else report


def window_of(conversation: PlantedConversation) -> int:
    """The largest window that each segment alone fills to the soft threshold."""
    weights = [sum(conversation.exchanges[turn - 1].tokens for turn in segment) for segment in conversation.segments]
    return int(min(weights) / Thresholds().soft)


def model_named(name: str) -> Model:
    """The model with this name. Raises `ConfigInvalid`."""
    model = make_agents().get(AGENT).model
    if name != model.name:
        raise ConfigInvalid(f'there is no model {name!r}; use "{model.name}", the offline model')
    return model


def is_offline(model: Model) -> bool:
    """Whether it is the practice model, whose answers add nothing to the search."""
    return model.name == make_agents().get(AGENT).model.name


class CompressionRun:
    """One measurement."""

    def __init__(
        self,
        *,
        conversation: PlantedConversation,
        runtime: Runtime,
        compressor: Compressor,
        memory: MeasuredMemory | None,
        asked: Model | None,
        thresholds: Thresholds,
    ) -> None:
        self._conversation = conversation
        self._runtime = runtime
        self._compressor = compressor
        self._memory = memory
        self._asked = asked
        self._thresholds = thresholds
        self._turns_covered: list[int] = []  # the last turn that each summary covers
        self._findings: list[FactFinding] = []
        self._rounds: list[CompressionRound] = []

    # --- the conversation

    async def go_through(self, segment: range) -> None:
        """Record a segment of the conversation, compress, and look for the facts so far."""
        for turn in segment:
            await self._say(turn, self._conversation.exchanges[turn - 1])
        before = await self._runtime.context(SESSION)
        done = await self._compressor.compress(SESSION, AGENT, insisted=True)
        context = await self._runtime.context(SESSION)
        if done.summary is not None:
            self._turns_covered.append(_last_turn_covered(before, done.summary.covers_through))
        found = await self._look(segment[-1], context, failed=done.summary is None)
        self._findings += found
        self._rounds.append(self._round(before, context, done, found))

    async def _say(self, turn: int, exchange: DialogueTurn) -> None:
        entries = (UserSaid(text=exchange.user, principal=PRINCIPAL), AssistantSaid(text=exchange.assistant))
        await self._runtime.record_turn(
            TurnRecord(
                session=SESSION,
                agent=AGENT,
                key=f"turn-{turn}",
                entries=entries,
                principal=PRINCIPAL,
                place=SESSION,
            )
        )
        if self._memory is not None:
            await self._memory.keep(turn, exchange)

    # --- the search

    async def _look(self, turn: int, context: Context, *, failed: bool) -> list[FactFinding]:
        settled = render(replace(context, open_turn=None))
        return [await self._find(one, context, settled, failed=failed) for one in self._conversation.said_by(turn)]

    async def _find(
        self, one: PlantedFact, context: Context, shown: Sequence[ModelMessage], *, failed: bool
    ) -> FactFinding:
        summary = shown[0].content if context.summary else ""
        tail = [message.content for message in shown[1 if context.summary else 0 :]]
        kept = where_kept(one.fact, summary, tail)
        if kept is Retention.LOST and self._memory is not None:
            kept = where_kept(one.fact, summary, tail, await self._memory.recall(one.fact.question, context.last_seq))
        return FactFinding(
            fact=one.fact,
            turn=one.turn,
            compressions=len(self._rounds) + 1,
            summaries=sum(one.turn <= covered for covered in self._turns_covered),
            kept=Retention.LOST if failed else kept,
            answered=await self._answered(one, shown),
        )

    async def _answered(self, one: PlantedFact, shown: Sequence[ModelMessage]) -> bool | None:
        if self._asked is None:
            return None
        question = ModelMessage(role="user", content=one.fact.question)
        request = ModelRequest(task=ModelTask.REPLY, messages=(*shown, question))
        answer = await hear(self._asked, request, self._thresholds.summariser_wait_ms)
        return is_answered(one.fact, answer.text)

    # --- the report

    def _round(
        self, before: Context, after: Context, done: Compressed, found: Sequence[FactFinding]
    ) -> CompressionRound:
        count = {kept: sum(one.kept is kept for one in found) for kept in Retention}
        kept = sum(count[where] for where in IN_CONTEXT)
        answered = [one.answered for one in found if one.answered is not None]
        recalled = count[Retention.RECALL] if self._memory is not None else None
        return CompressionRound(
            compressions=len(self._rounds) + 1,
            asked=len(found),
            kept=kept,
            score=ratio(kept, len(found)),
            in_tail=count[Retention.TAIL],
            in_summary=count[Retention.SUMMARY],
            stale=count[Retention.STALE],
            lost=count[Retention.LOST],
            tokens_before=before.estimated_tokens(),
            tokens_after=after.estimated_tokens(),
            summary_tokens=after.summary.tokens if after.summary else 0,
            only_by_recall=recalled,
            score_with_recall=None if recalled is None else ratio(kept + recalled, len(found)),
            answered=ratio(sum(answered), len(answered)) if answered else None,
            failure=None if done.summary is not None else f"{done.outcome}: {done.reason}",
        )

    def report(self, plan: EvaluationPlan, model: str) -> CompressionReport:
        scores = [one.score for one in self._rounds]
        return CompressionReport(
            model=model,
            seed=plan.seed,
            turns=plan.turns,
            facts=plan.facts,
            compressions=plan.compressions,
            context_tokens=self._thresholds.context_tokens,
            summary_tokens_max=summary_tokens_max(self._thresholds),
            score=round(sum(scores) / len(scores), 4),
            rounds=tuple(self._rounds),
            kinds=kinds_of(self._findings),
            distances=distances_of(self._findings),
            recall=self._memory.name if self._memory is not None else OFF,
            gone=gone_of(self._findings),
        )


def _last_turn_covered(before: Context, covers_through: int) -> int:
    return max((entry.turn for entry in before.entries if entry.seq <= covers_through), default=0)
