"""A model and tools for histories: they answer from the request, fail as the plan says, and record every call.

The same request gets the same answer in every run. The records belong to the world, not to a node: a model's vendor and
a tool's server do not die with the process that calls them.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace

from holdfast.kernel import log
from holdfast.kernel.errors import ModelFailed
from holdfast.memory.lane import LaneKey
from holdfast.testing.agent_messages import message_call, message_in
from holdfast.testing.faults import ModelFailure, ModelFault
from holdfast.testing.servers import Lookup, Server
from holdfast.testing.strangers import WISHES, arguments_of, extracted
from holdfast.testing.workload import FILLER, marks_in
from holdfast.turns.context import ModelMessage
from holdfast.turns.journal import ToolCall, estimate_tokens
from holdfast.turns.model import ModelAnswer, ModelEvent, ModelRequest, ModelTask, TextDelta, ToolSpec
from holdfast.turns.tool import ToolContext, ToolOutcome
from holdfast.turns.turn import Usage

FOREVER_S = 10_000.0
TOOLS = {"look": True, "pay": False, "fire": False}  # name -> idempotent
DANGEROUS = frozenset({"fire"})
PAID = "paid-"  # the prefix of the model names of paid answers, each with its own number
LENGTH, LENGTH_UNHURRIED = 90, 200  # of an answer, in characters
PAUSE_S = 1.6  # between two parts of a slow model's answer


@dataclass(frozen=True, slots=True)
class ModelAsked:
    """One request, with the session and turn that the asking worker had pinned."""

    at_ms: int
    task: ModelTask
    session: str
    turn: int
    operation: str
    messages: tuple[ModelMessage, ...]
    looked_at: int | None = None  # when the worker read the amount spent, if it did


@dataclass(slots=True)
class ModelMemory:
    """Records outside the nodes: every request to the model, every effect of a tool by its call, every provider's."""

    asked: list[ModelAsked] = field(default_factory=list)
    effects: Counter[tuple[str, str]] = field(default_factory=Counter)
    arguments: dict[tuple[str, str], str] = field(default_factory=dict)  # of each effect
    calls: int = 0
    extractions: int = 0
    servers: dict[LaneKey, Server] = field(default_factory=dict)
    lookups: list[Lookup] = field(default_factory=list)
    answers: int = 0
    looked_at: dict[object, int] = field(default_factory=dict)  # by task: when it read the amount spent


class FakeModel:
    """Implements `Model`. A text requests tools by name: `m07 use pay`."""

    name = "fake"

    def __init__(
        self,
        seed: int | str,
        memory: ModelMemory,
        now_ms: Callable[[], int],
        fault: Callable[[], ModelFault | None],
        cost: Callable[[int], int] | None = None,
        *,
        unhurried: bool = False,
        notes_words: bool = False,
        gossips: bool = False,
    ) -> None:
        self._notes_words = notes_words  # its notes contain the marks of their messages
        self._gossips = gossips  # repeats the texts that it was shown, to every user
        self._unhurried = unhurried  # gives long answers, with pauses in which a draft can be shown
        self._seed = seed
        self._cost = cost  # of an answer by its number, in histories with spending
        self._memory = memory
        self._now_ms = now_ms
        self._fault = fault

    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self._remember(request)
        rng = random.Random(f"{self._seed}/{_key(request.messages)}")
        fault = self._fault()
        await asyncio.sleep(_delay_s(rng, fault))
        if fault is not None and fault.failure is ModelFailure.RAISES:
            raise ModelFailed("the fake model is told to fail")
        answer = self._answer(request, rng)
        if fault is not None and fault.failure is ModelFailure.EMPTY:
            answer = ModelAnswer(text="")
        if fault is not None and fault.failure is ModelFailure.GARBAGE:
            if request.task is ModelTask.REPLY:
                yield TextDelta("gar")
                return
            answer = ModelAnswer(text=FILLER * 40)  # an oversized summary
        half = len(answer.text) // 2
        for part in (answer.text[:half], answer.text[half:]):
            if part:
                yield TextDelta(part)
                await asyncio.sleep(rng.random() * (PAUSE_S if self._unhurried else 0.1))
        yield self._priced(answer)

    def _priced(self, answer: ModelAnswer) -> ModelAnswer:
        if self._cost is None:
            return answer
        self._memory.answers += 1
        n = self._memory.answers
        return replace(answer, model=f"{PAID}{n}", cost_micros=self._cost(n))

    def _remember(self, request: ModelRequest) -> None:
        pins = log.pins()
        self._memory.asked.append(
            ModelAsked(
                at_ms=self._now_ms(),
                task=request.task,
                session=str(pins.get("session", "")),
                turn=int(str(pins.get("turn", 0))),
                operation=str(pins.get("operation", "")),
                messages=request.messages,
                looked_at=self._memory.looked_at.pop(asyncio.current_task(), None),
            )
        )

    def _answer(self, request: ModelRequest, rng: random.Random) -> ModelAnswer:
        if request.task is ModelTask.SUMMARY:
            text = "said: " + " ".join(marks_said(request.messages))
            return ModelAnswer(text=text, usage=_usage(request.messages, text, rng))
        if request.task is ModelTask.EXTRACT:
            note = self._extraction(request.messages, self._gossip(request.messages, rng))
            return ModelAnswer(text=note, usage=_usage(request.messages, "", rng))
        message = message_in(request.messages, gossips=self._gossips)
        if message is not None:
            self._memory.calls += 1
            return ModelAnswer(text="", calls=(message_call(f"call{self._memory.calls}", message),))
        wishes = _wishes(request.messages)
        if wishes:
            calls = tuple(self._call(name, rng, request.messages) for name in wishes)
            return ModelAnswer(
                text=rng.choice(("", "let me see")), calls=calls, usage=_usage(request.messages, "", rng)
            )
        most = LENGTH_UNHURRIED if self._unhurried else LENGTH
        told = self._gossip(request.messages, rng)
        text = f"re {_last_mark(request.messages)} {told}{(FILLER * 3)[: rng.randrange(most)]}".strip()
        return ModelAnswer(text=text, usage=_usage(request.messages, text, rng))

    def _gossip(self, messages: Sequence[ModelMessage], rng: random.Random) -> str:
        """Often every mark of the request, of any author and in any role."""
        if not self._gossips or rng.random() < 0.4:
            return ""
        seen = dict.fromkeys(mark for message in messages for mark in marks_in(message.content))
        return "".join(f"{mark} " for mark in seen)

    def _extraction(self, messages: Sequence[ModelMessage], told: str) -> str:
        """A different note each time: a caller that asks twice and keeps both, or the wrong one, is detected."""
        self._memory.extractions += 1
        n = self._memory.extractions
        note = extracted(n, messages) if self._notes_words else f"{told}note {n}"
        return f'{{"changes": [{{"verb": "add", "text": "{note}"}}]}}'

    def _call(self, name: str, rng: random.Random, messages: Sequence[ModelMessage]) -> ToolCall:
        self._memory.calls += 1
        if name in WISHES:
            arguments = arguments_of(name, messages, self._memory.calls)
            return ToolCall(id=f"call{self._memory.calls}", name=name, arguments=arguments)
        arguments = "{}" if rng.random() < 0.9 else "{not json"
        return ToolCall(id=f"call{self._memory.calls}", name=name, arguments=arguments)


def marks_said(messages: Sequence[ModelMessage]) -> list[str]:
    """The marks of people's messages, summaries included, in order; replies and tools quote nothing."""
    return [mark for message in messages if message.role in {"system", "user"} for mark in marks_in(message.content)]


def _is_said(message: ModelMessage) -> bool:
    return message.role == "user" and not message.data


def _last_mark(messages: Sequence[ModelMessage]) -> str:
    marks = [marks_in(message.content) for message in messages if _is_said(message)]
    return "".join(f"[{mark[0][1:]}]" for mark in marks[-1:] if mark)


def _wishes(messages: Sequence[ModelMessage]) -> list[str]:
    """The tools that the newest text requests, unless they were already called."""
    last = max((n for n, message in enumerate(messages) if _is_said(message)), default=-1)
    if last < 0 or any(message.role == "tool" for message in messages[last:]):
        return []
    return [name for name in (*TOOLS, *WISHES) if f" {name}" in messages[last].content.partition(" use")[2]]


def _key(messages: Sequence[ModelMessage]) -> str:
    return f"{len(messages)}/{messages[-1].content if messages else ''}"


def _delay_s(rng: random.Random, fault: ModelFault | None) -> float:
    if fault is None or fault.failure not in {ModelFailure.SILENT, ModelFailure.SLOW}:
        return rng.random() * rng.choice((0.05, 0.5, 1.5, 3.0))
    return FOREVER_S if fault.failure is ModelFailure.SILENT else fault.delay_ms / 1000


def _usage(messages: Sequence[ModelMessage], text: str, rng: random.Random) -> Usage:
    """The token usage that a vendor reports: none, or a count that differs from ours."""
    counted = sum(estimate_tokens(message.content) for message in messages)
    return Usage(tokens_in=rng.choice((0, counted, int(counted * 1.2))), tokens_out=estimate_tokens(text))


class FakeTools:
    """Implements `Tools`. An effect counts as soon as it happened, even if its answer is lost."""

    def __init__(self, seed: int | str, memory: ModelMemory) -> None:
        self._seed = seed
        self._memory = memory

    def specs(self, agent: str) -> tuple[ToolSpec, ...]:
        del agent
        return tuple(ToolSpec(name=name, description=name, parameters={}) for name in TOOLS)

    def is_idempotent(self, name: str) -> bool:
        return TOOLS.get(name, False)

    def needs_approval(self, agent: str, name: str) -> bool:
        del agent
        return name in DANGEROUS

    async def call(self, name: str, arguments: str, context: ToolContext) -> ToolOutcome:
        rng = random.Random(f"{self._seed}/tool/{context.call}")
        if arguments.replace(" ", "") != "{}":
            return ToolOutcome("unusable arguments", ok=False)
        await asyncio.sleep(rng.random() * 0.3)
        self._memory.effects[name, context.call] += 1
        self._memory.arguments[name, context.call] = arguments
        await asyncio.sleep(rng.random() * (0.3 if rng.random() < 0.9 else 6))
        return ToolOutcome(f"{name} did it")
