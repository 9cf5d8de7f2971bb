"""Charts as numbers: lines with their holes, the steps of their axis, and sparklines. Templates draw them.

A plot is 1000 wide and 100 high and is stretched to its place, so labels stand beside it as text.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from holdfast.kernel.ids import Instant
from holdfast.monitor.durations import duration
from holdfast.monitor.sample import MINUTE_MS, Sample

WIDTH, HEIGHT = 1000, 100
TICKS = 4
NICE = (1, 2, 2.5, 5, 10)
TIME_STEPS_MS = tuple(
    1_000 * one for one in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200)
)
DASHES = 6  # line styles that the sheet knows

Value = float | None  # None is a hole


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    name: str
    style: int
    points: Sequence[Value]
    path: str
    last: str  # the newest value in words


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    title: str
    lines: Sequence[Line]
    times: Sequence[Instant]
    ticks: Sequence[str]  # from the top down, zero left out
    rows: Sequence[tuple[Instant, Sequence[str]]]  # the same as a table, newest first
    summary: str  # for people who do not see it
    marks: Sequence[tuple[float, Instant]] = ()  # restarts: their place and time


def buckets(samples: Mapping[Instant, Sample], times: Sequence[Instant], width_ms: int) -> list[list[Sample]]:
    """The samples of each bucket; an empty one is a hole."""
    found: list[list[Sample]] = [[] for _ in times]
    for at, sample in samples.items():
        place = (at - times[0]) // width_ms if times else -1
        if 0 <= place < len(times):
            found[place].append(sample)
    return found


def times_until(now: Instant, *, span_ms: int, width_ms: int = MINUTE_MS) -> list[Instant]:
    """The beginnings of the buckets up to the last whole one."""
    end = now - now % width_ms
    return [Instant(end - span_ms + n * width_ms) for n in range(span_ms // width_ms)]


def level(bucket: Sequence[Sample], name: Callable[[str], bool]) -> Value:
    """The largest level of a bucket."""
    if not bucket:
        return None
    return max((value for one in bucket for key, value in one.levels.items() if name(key)), default=0)


def total(bucket: Sequence[Sample], name: Callable[[str], bool]) -> Value:
    """The sum of the counts of a bucket."""
    return sum(value for one in bucket for key, value in one.counts.items() if name(key)) if bucket else None


def chart(
    title: str,
    series: Mapping[str, Sequence[Value]],
    times: Sequence[Instant],
    *,
    words: Callable[[float], str],
    steps: Sequence[float] = (),
    marks: Sequence[Instant] = (),
) -> Chart:
    top = ceiling(max((value for one in series.values() for value in one if value is not None), default=0), steps)
    lines = [
        Line(
            name=name,
            style=number % DASHES,
            points=points,
            path=path(points, top),
            last="no sample" if not points or points[-1] is None else words(points[-1]),
        )
        for number, (name, points) in enumerate(series.items())
    ]
    table = [
        (at, ["" if points[n] is None else words(points[n] or 0) for points in series.values()])
        for n, at in reversed(list(enumerate(times)))
    ]
    told = ", ".join(f"{line.name} {line.last}" for line in lines) or "nothing"
    width = times[-1] - times[0] if len(times) > 1 else 1
    return Chart(
        title=title,
        lines=lines,
        times=times,
        ticks=[words(top * n / TICKS) for n in range(TICKS, 0, -1)],
        rows=table,
        summary=f"{title}, newest: {told}",
        marks=[(WIDTH * (at - times[0]) / width, at) for at in marks if times and times[0] < at <= times[-1]],
    )


def ceiling(highest: float, steps: Sequence[float] = ()) -> float:
    """The end of an axis that fits the highest value in `TICKS` readable steps."""
    least = max(highest, 1) / TICKS
    for step in steps:
        if step >= least:
            return step * TICKS
    size = 1.0
    while size * NICE[-1] < least:
        size *= 10
    return next(size * one for one in NICE if size * one >= least) * TICKS


def path(points: Sequence[Value], top: float) -> str:
    """The drawing of a line. A hole interrupts it; a single point is a short stroke."""
    drawn: list[str] = []
    for run in _runs(points):
        first, *more = ((_x(place, points), HEIGHT - HEIGHT * value / top) for place, value in run)
        drawn.append(f"M{first[0]:.1f} {first[1]:.1f}")
        drawn += [f"L{x:.1f} {y:.1f}" for x, y in more] or [f"h{WIDTH / max(1, len(points)) / 2:.1f}"]
    return "".join(drawn)


def _runs(points: Sequence[Value]) -> Iterator[list[tuple[int, float]]]:
    run: list[tuple[int, float]] = []
    for place, value in enumerate(points):
        if value is not None:
            run.append((place, value))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _x(place: int, points: Sequence[Value]) -> float:
    return WIDTH * place / max(1, len(points) - 1)


def lag_chart(series: Mapping[str, Sequence[Value]], times: Sequence[Instant], marks: Sequence[Instant]) -> Chart:
    return chart("Lag", series, times, words=duration, steps=TIME_STEPS_MS, marks=marks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A sparkline of counts: the place, height and kind of each bar. `scale` is shared by those that are compared."""

    bars: Sequence[tuple[float, float]]  # x and height of 18; a hole has none
    total: int
    width: int


def sparkline(points: Sequence[Value], scale: float) -> Bars:
    high = max(scale, 1)
    bars = [
        (n * 1.25, max(1.0, 18 * value / high) if value else 1.0) for n, value in enumerate(points) if value is not None
    ]
    return Bars(bars=bars, total=int(sum(value or 0 for value in points)), width=round(len(points) * 1.25))
