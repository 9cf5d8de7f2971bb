"""The measurement: a real store, the real compressor, a conversation that grows, and facts that are looked for.

The window is chosen so that every stretch of the conversation fills it to the soft threshold, as it would be in
service: then the compressor is asked, chooses its own cut, and its summary is committed or refused by its own rules.
After each compression every fact said so far is looked for in what the model would be sent.

A compression that fails leaves the history whole, so everything could still be found; its round counts as nothing
kept all the same, because the window would soon be full.
"""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.eval.compression.conversation import Conversation, Exchange, Planted, make_conversation
from holdfast.eval.compression.keeping import Kept, is_answered, where_kept
from holdfast.eval.compression.remembering import AGENT, PRINCIPAL, SESSION, Memory, local_provider
from holdfast.eval.compression.report import (
    IN_CONTEXT,
    Finding,
    Report,
    Round,
    distances_of,
    gone_of,
    kinds_of,
    ratio,
)
from holdfast.kernel.errors import ConfigInvalid
from holdfast.memory.provider import Configured
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.runtime.environment import Environment
from holdfast.runtime.runtime import Runtime
from holdfast.sessions.compression import Thresholds, summary_tokens_max
from holdfast.sessions.compressor import Compressed, Compressor
from holdfast.store.membership import Member
from holdfast.testing.entropy import SeededEntropy
from holdfast.turns.context import Context, ModelMessage, render
from holdfast.turns.context_cache import ContextCache
from holdfast.turns.journal import AssistantSaid, UserSaid
from holdfast.turns.model import Model, ModelRequest, Task
from holdfast.turns.model_call import hear
from holdfast.turns.policy import AgentPolicy
from holdfast.turns.turn import TurnRecord

OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    turns: int = 240
    facts: int = 84
    compressions: int = 6
    seed: int = 1
    recall: bool = True


async def measure(
    plan: Plan,
    *,
    summariser: Model,
    asked: Model | None = None,
    provider: Configured | None = None,
    progressed: Callable[[], None] = lambda: None,
) -> Report:
    """Plant, compress, look; with `asked`, that model is asked for every fact as well.

    Recall is from `provider`, or from the local one. `progressed` is called after each
    compression. Raises `InvalidInput` for a plan that makes no conversation, and `ModelFailed` when the asked model
    does not answer.
    """
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
        memory = _memory(plan, folder / "memory", runtime, provider)
        if memory is not None:
            stack.push_async_callback(memory.close)
        member = Member(runtime.ports, host="eval")
        await member.join(sole=False)
        compressor = Compressor(runtime.ports, ContextCache(runtime.db), agents=agents, member=member)
        bench = Bench(
            conversation=conversation,
            runtime=runtime,
            compressor=compressor,
            memory=memory,
            asked=asked,
            thresholds=thresholds,
        )
        for segment in conversation.segments:
            await bench.go_through(segment)
            progressed()
    return bench.report(plan, summariser.name)


def window_of(conversation: Conversation) -> int:
    """The largest window that each stretch alone fills to the soft threshold."""
    weights = [sum(conversation.exchanges[turn - 1].tokens for turn in segment) for segment in conversation.segments]
    return int(min(weights) / Thresholds().soft)


def model_named(name: str) -> Model:
    """The model that an agent configured with this name has. Raises `ConfigInvalid`."""
    model = make_agents().get(AGENT).model
    if name != model.name:
        raise ConfigInvalid(f'there is no model {name!r}; this release has only "{model.name}", the offline model')
    return model


def is_offline(model: Model) -> bool:
    """Whether it is the practice model, whose answers say nothing that looking does not."""
    return model.name == make_agents().get(AGENT).model.name


def _memory(plan: Plan, folder: Path, runtime: Runtime, provider: Configured | None) -> Memory | None:
    if not plan.recall:
        return None
    environment = Environment(folder=folder, clock=runtime.clock, entropy=runtime.entropy, tasks=runtime.tasks)
    return Memory(provider or local_provider(environment))


class Bench:
    """One measurement under way."""

    def __init__(
        self,
        *,
        conversation: Conversation,
        runtime: Runtime,
        compressor: Compressor,
        memory: Memory | None,
        asked: Model | None,
        thresholds: Thresholds,
    ) -> None:
        self._conversation = conversation
        self._runtime = runtime
        self._compressor = compressor
        self._memory = memory
        self._asked = asked
        self._thresholds = thresholds
        self._turns_covered: list[int] = []  # by each summary, the last turn it covers
        self._findings: list[Finding] = []
        self._rounds: list[Round] = []

    # --- talking and compressing

    async def go_through(self, segment: range) -> None:
        """Say a stretch of the conversation, compress, and look for what was said so far."""
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

    async def _say(self, turn: int, exchange: Exchange) -> None:
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

    # --- looking

    async def _look(self, turn: int, context: Context, *, failed: bool) -> list[Finding]:
        settled = render(replace(context, open_turn=None))
        return [await self._find(one, context, settled, failed=failed) for one in self._conversation.said_by(turn)]

    async def _find(self, one: Planted, context: Context, shown: Sequence[ModelMessage], *, failed: bool) -> Finding:
        summary = shown[0].content if context.summary else ""
        tail = [message.content for message in shown[1 if context.summary else 0 :]]
        kept = where_kept(one.fact, summary, tail)
        if kept is Kept.LOST and self._memory is not None:
            kept = where_kept(one.fact, summary, tail, await self._memory.recall(one.fact.question, context.last_seq))
        return Finding(
            fact=one.fact,
            turn=one.turn,
            compressions=len(self._rounds) + 1,
            summaries=sum(one.turn <= covered for covered in self._turns_covered),
            kept=Kept.LOST if failed else kept,
            answered=await self._answered(one, shown),
        )

    async def _answered(self, one: Planted, shown: Sequence[ModelMessage]) -> bool | None:
        if self._asked is None:
            return None
        question = ModelMessage(role="user", content=one.fact.question)
        request = ModelRequest(task=Task.REPLY, messages=(*shown, question))
        answer = await hear(self._asked, request, self._thresholds.summariser_wait_ms)
        return is_answered(one.fact, answer.text)

    # --- telling

    def _round(self, before: Context, after: Context, done: Compressed, found: Sequence[Finding]) -> Round:
        count = {kept: sum(one.kept is kept for one in found) for kept in Kept}
        kept = sum(count[where] for where in IN_CONTEXT)
        answered = [one.answered for one in found if one.answered is not None]
        recalled = count[Kept.RECALL] if self._memory is not None else None
        return Round(
            compressions=len(self._rounds) + 1,
            asked=len(found),
            kept=kept,
            score=ratio(kept, len(found)),
            in_tail=count[Kept.TAIL],
            in_summary=count[Kept.SUMMARY],
            stale=count[Kept.STALE],
            lost=count[Kept.LOST],
            tokens_before=before.estimated_tokens(),
            tokens_after=after.estimated_tokens(),
            summary_tokens=after.summary.tokens if after.summary else 0,
            only_by_recall=recalled,
            score_with_recall=None if recalled is None else ratio(kept + recalled, len(found)),
            answered=ratio(sum(answered), len(answered)) if answered else None,
            failure=None if done.summary is not None else f"{done.outcome}: {done.reason}",
        )

    def report(self, plan: Plan, model: str) -> Report:
        scores = [one.score for one in self._rounds]
        return Report(
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
