"""Where the time of a message went, from its acceptance to the end of its turn: one strip of spans in order.

Every moment belongs to one span: to the step that is listed first below if several went on at once, and to Holdfast
itself if none did. A long wait is folded, so that what was done beside it can still be seen.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from holdfast.kernel.ids import Instant
from holdfast.monitor.timeline import Timeline
from holdfast.monitor.timeline_step import Chapter, Mark, TimelineStep

OURS = "ours"
# In the order in which they win a moment.
KINDS = ("model", "tool", "approval", "recall", "compression", "process", "queue", OURS)
TOLD = ("queue", OURS, "recall", "compression", "model", "tool", "approval", "process")  # the order of a legend
WAITS = frozenset({"approval", "process", "queue", "compression"})
GOES_ON = frozenset({Mark.RUNNING, Mark.WAITING, Mark.LOST})
FOLD_MS_MIN = 1_000
FOLD_FACTOR = 2  # a wait is folded if it is longer than so many times everything else together
FOLDED_SHARE = 0.08
SHARE_MIN = 0.004


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSlice:
    kind: str
    ms: int
    share: float = 0.0  # of the width of the strip
    is_folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSpent:
    total_ms: int
    spans: Sequence[TimeSlice]
    by_kind: Mapping[str, int]  # in the order of `TOLD`, without those that took no time
    is_open: bool  # it still goes on


def time_spent(told: Timeline, *, accepted_at: Instant, ended_at: Instant | None, now: Instant) -> TimeSpent | None:
    """None for a message on which no time was spent. `ended_at` is the end of its turn, if it has ended."""
    steps = [step for step in told.steps if step.chapter is Chapter.SAID and step.kind in KINDS]
    start, end = accepted_at, now if ended_at is None else ended_at
    if not steps or end <= start:
        return None
    spans = _spans(steps, start, end)
    by_kind: defaultdict[str, int] = defaultdict(int)
    for span in spans:
        by_kind[span.kind] += span.ms
    return TimeSpent(
        total_ms=end - start,
        spans=_widths(spans),
        by_kind={kind: by_kind[kind] for kind in TOLD if by_kind[kind]},
        is_open=ended_at is None,
    )


def _spans(steps: Sequence[TimelineStep], start: int, end: int) -> list[TimeSlice]:
    taken = [(step.kind, max(start, step.at), min(end, _until(step, end))) for step in steps]
    taken = [(kind, begin, until) for kind, begin, until in taken if begin < until]
    edges = sorted({start, end, *(at for _, *both in taken for at in both)})
    spans: list[TimeSlice] = []
    for begin, until in pairwise(edges):
        covering = {kind for kind, first, last in taken if first <= begin and last >= until}
        kind = next((kind for kind in KINDS if kind in covering), OURS)
        if spans and spans[-1].kind == kind:
            spans[-1] = TimeSlice(kind=kind, ms=spans[-1].ms + until - begin)
        else:
            spans.append(TimeSlice(kind=kind, ms=until - begin))
    return spans


def _until(step: TimelineStep, end: int) -> int:
    """A step without an end is a moment, unless it goes on."""
    if step.until is not None:
        return step.until
    return end if step.mark in GOES_ON else step.at


def _widths(spans: Sequence[TimeSlice]) -> list[TimeSlice]:
    rest = sum(span.ms for span in spans)
    folded: set[int] = set()
    for index in sorted(range(len(spans)), key=lambda one: -spans[one].ms):
        others = rest - spans[index].ms
        is_long = spans[index].ms >= max(FOLD_MS_MIN, FOLD_FACTOR * others)
        if spans[index].kind in WAITS and others and is_long:
            folded.add(index)
            rest = others
    left = 1 - FOLDED_SHARE * len(folded)
    raw = [FOLDED_SHARE if i in folded else max(SHARE_MIN, left * one.ms / rest) for i, one in enumerate(spans)]
    return [
        TimeSlice(kind=one.kind, ms=one.ms, share=raw[i] / sum(raw), is_folded=i in folded)
        for i, one in enumerate(spans)
    ]
