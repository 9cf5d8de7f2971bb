"""The words of a message and of its turn, beside the steps of its timeline, which has none.

A step and its words are matched by their order: the nth answer of a model in the timeline is the nth in the journal.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from holdfast.monitor.timeline_step import Mark, TimelineStep
from holdfast.turns.activity import ActivityKind
from holdfast.turns.journal import AssistantSaid, Entry, Recalled, ToolReturned

ENTRIES_MAX = 200  # of one turn
PAYLOAD_CHARS_MAX = 20_000  # of one step


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnWords:
    message: str  # empty after it was forgotten
    entries: Sequence[Entry] = ()  # of its turn, in order


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """What a step was given, or what it returned."""

    title: str
    text: str
    cut: int = 0  # characters that are left out


def payloads(steps: Sequence[TimelineStep], words: TurnWords) -> Mapping[int, Sequence[Payload]]:
    """The payloads by the index of their step."""
    bodies = [entry.body for entry in words.entries]
    answers = iter([body for body in bodies if isinstance(body, AssistantSaid)])
    recalls = iter([body for body in bodies if isinstance(body, Recalled)])
    calls = {call.id: call for body in bodies if isinstance(body, AssistantSaid) for call in body.calls}
    results = [body for body in bodies if isinstance(body, ToolReturned)]
    told: Mapping[str, Callable[[TimelineStep], Iterator[Payload]]] = {
        ActivityKind.RECALL.value: lambda _: _recalled(next(recalls, None)),
        ActivityKind.MODEL.value: lambda _: _answered(next(answers, None)),
        ActivityKind.TOOL.value: lambda step: _returned(
            step, results, {one.id: one.arguments for one in calls.values()}
        ),
    }
    found: dict[int, Sequence[Payload]] = {}
    for index, step in enumerate(steps):
        if step.kind in told and (step.mark is Mark.DONE or step.kind == ActivityKind.TOOL.value):
            found[index] = list(told[step.kind](step))
    return {index: some for index, some in found.items() if some}


def _recalled(body: Recalled | None) -> Iterator[Payload]:
    if body is not None and body.text:
        yield _payload(f"what was shown to the model, from {', '.join(body.sources) or 'memory'}", body.text)


def _answered(body: AssistantSaid | None) -> Iterator[Payload]:
    if body is None:
        return
    if body.text:
        yield _payload("what it said", body.text)
    for call in body.calls:
        yield _payload(f"it asked for {call.name}", call.arguments)


def _returned(step: TimelineStep, results: list[ToolReturned], arguments: Mapping[str, str]) -> Iterator[Payload]:
    body = next((one for one in results if one.name == step.name), None)
    if body is None:
        return
    results.remove(body)
    if body.call in arguments:
        yield _payload("arguments", arguments[body.call])
    yield _payload("what it returned", body.text)


def _payload(title: str, text: str) -> Payload:
    cut = max(0, len(text) - PAYLOAD_CHARS_MAX)
    return Payload(title=title, text=text[:PAYLOAD_CHARS_MAX], cut=cut)
