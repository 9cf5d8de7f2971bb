"""The drawing of a session's timeline: where each step stands, how wide it is, and whether its name fits.

All places are in per cent of the width, so that the drawing grows with the window while its text keeps its size.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.console.time_axis import RIGHT, Fold, TimeAxis
from holdfast.kernel.ids import Instant
from holdfast.monitor.session_step import INBOUND, JOURNAL, LANES, MAILBOX, REPLY, UPKEEP, SessionStep, lanes
from holdfast.monitor.timeline_step import Mark

LANE_PX, RULE_PX, AXIS_PX = 22, 9, 26
WIDTH_MIN = 0.45
CHAR_WIDTH = 0.72  # of a letter, at the least width of the drawing
LABEL_CHARS_MIN = 4
GROUPS = {lane: n for n, group in enumerate(((INBOUND, MAILBOX), LANES[2:6], (JOURNAL, REPLY))) for lane in group}
PROVIDERS, LAST = 3, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnStep:
    n: int
    step: SessionStep
    x: float
    width: float
    y: int
    label: str  # empty if there is no room for it
    label_x: float
    is_label_inside: bool


@dataclass(frozen=True, slots=True)
class DrawnLane:
    name: str
    y: int
    has_rule: bool  # a line above it


@dataclass(frozen=True, slots=True)
class Tick:
    at: Instant
    x: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    steps: Sequence[DrawnStep]
    lanes: Sequence[DrawnLane]
    folds: Sequence[Fold]
    ticks: Sequence[Tick]
    restarts: Sequence[tuple[float, float]]  # places and widths of the bands of lost or stopped processes
    now: float | None  # the place of the store's time, if something goes on
    height: int


def draw(steps: Sequence[SessionStep], now: Instant) -> Drawing | None:
    """None without steps."""
    if not steps:
        return None
    goes_on = any(step.goes_on for step in steps)
    instants = [at for step in steps for at in (step.at, step.until) if at is not None]
    axis = TimeAxis([*instants, *([max(now, *instants)] if goes_on else [])])
    placed = _lanes(lanes(steps))
    tops = {lane.name: lane.y for lane in placed}
    drawn = []
    for n, step in enumerate(steps):
        x = axis.place(step.at)
        end = axis.place(now) if step.goes_on else axis.place(step.until) if step.until is not None else x
        drawn.append((n, step, x, max(WIDTH_MIN, end - x)))
    return Drawing(
        steps=[_labelled(one, drawn, tops) for one in drawn],
        lanes=placed,
        folds=axis.folds,
        ticks=[Tick(at, axis.place(at)) for at in _ticks(axis, RIGHT - TICKS_APART if goes_on else RIGHT)],
        restarts=[(x, width) for _, step, x, width in drawn if step.lane == UPKEEP and step.mark is Mark.LOST],
        now=axis.place(now) if goes_on else None,
        height=placed[-1].y + LANE_PX + 4,
    )


def _lanes(names: Sequence[str]) -> list[DrawnLane]:
    found, y, before = list[DrawnLane](), AXIS_PX, None
    for name in names:
        group = LAST if name == UPKEEP else GROUPS.get(name, PROVIDERS)
        has_rule = before is not None and group != before
        y += RULE_PX if has_rule else 0
        found.append(DrawnLane(name, y, has_rule))
        y, before = y + LANE_PX, group
    return found


TICKS_APART = 12.0  # per cent: room for a time of day


def _ticks(axis: TimeAxis, last: float) -> list[Instant]:
    """The times that are written, up to a place: those after folds, unless they stand too close together."""
    found = list[Instant]()
    for at in axis.starts:
        if axis.place(at) > last:
            break
        if not found or axis.place(at) - axis.place(found[-1]) >= TICKS_APART:
            found.append(at)
    return found


Placed = tuple[int, SessionStep, float, float]


def _labelled(one: Placed, drawn: Sequence[Placed], tops: dict[str, int]) -> DrawnStep:
    n, step, x, width = one
    text = step.label or step.what
    following = min((other for m, of, other, _ in drawn if of.lane == step.lane and m > n), default=100.0)
    inside = not step.is_point and len(text) * CHAR_WIDTH <= width - 0.8
    room = int(width / CHAR_WIDTH) if inside else int((following - x - width - 0.8) / CHAR_WIDTH)
    if not inside and len(text) > room:
        text = f"{text[: room - 1]}…" if room >= LABEL_CHARS_MIN else ""
    return DrawnStep(
        n=n,
        step=step,
        x=round(x, 3),
        width=round(width, 3),
        y=tops[step.lane],
        label=text,
        label_x=round(x + 0.5 if inside else x + width + 0.5, 3),
        is_label_inside=inside,
    )
