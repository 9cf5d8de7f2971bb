"""The chart of costs: one bar per UTC day, with a piece for each agent and model, and the cap of one agent.

The dearest series have a piece of their own; the others are one.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.kernel.ids import Instant
from holdfast.turns.policy import DAY_MS
from holdfast.turns.spend_sql import DaySpend

SERIES_MAX = 6
BAR_SHARE = 0.72  # of a day's place
OTHERS = "others"


@dataclass(frozen=True, slots=True)
class BarPiece:
    series: int  # its place in the legend
    name: str
    micros: int
    y: float  # per cent of the height, from above
    height: float


@dataclass(frozen=True, slots=True)
class DayBar:
    label: str  # the UTC day
    x: float  # per cent of the width
    width: float
    pieces: Sequence[BarPiece]
    micros: int


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    micros: int


@dataclass(frozen=True, slots=True)
class SpendChart:
    days: Sequence[DayBar]
    series: Sequence[Series]  # the dearest first
    top_micros: int  # at the upper edge
    cap: float | None  # per cent of the height, from above


def spend_chart(found: Sequence[DaySpend], *, days: int, now: Instant, cap_micros: int | None) -> SpendChart:
    """`cap_micros` is the limit of a day, if the chart is of one agent that has one."""
    today = now // DAY_MS
    totals = defaultdict[str, int](int)
    by_day = defaultdict[int, defaultdict[str, int]](lambda: defaultdict(int))
    for one in found:
        totals[_name(one)] += one.cost_micros
    dearest = sorted(totals, key=lambda name: (-totals[name], name))
    kept = dearest if len(dearest) <= SERIES_MAX else dearest[: SERIES_MAX - 1]
    for one in found:
        by_day[one.day][_name(one) if _name(one) in kept else OTHERS] += one.cost_micros
    names = [*kept, *([OTHERS] if len(kept) < len(dearest) else [])]
    top = max([sum(by_day[day].values()) for day in by_day] + [cap_micros or 0, 1])
    place = 100 / days
    bars = [
        DayBar(_label(day), round(n * place, 3), round(place * BAR_SHARE, 3), _pieces(by_day[day], names, top), total)
        for n, day in enumerate(range(today - days + 1, today + 1))
        for total in (sum(by_day[day].values()),)
    ]
    series = [Series(name, sum(by_day[day][name] for day in by_day)) for name in names]
    return SpendChart(bars, series, top, None if cap_micros is None else round(100 - 100 * cap_micros / top, 3))


def _label(day: int) -> str:
    at = datetime.fromtimestamp(day * DAY_MS / 1000, UTC)
    return f"{at.day} {at:%b}"


def _name(one: DaySpend) -> str:
    return f"{one.agent}, {one.model}"


def _pieces(costs: Mapping[str, int], names: Sequence[str], top: int) -> Sequence[BarPiece]:
    pieces, y = list[BarPiece](), 100.0
    for n, name in enumerate(names):
        micros = costs.get(name, 0)
        if micros:
            height = 100 * micros / top
            y -= height
            pieces.append(BarPiece(n, name, micros, round(y, 3), round(height, 3)))
    return pieces
