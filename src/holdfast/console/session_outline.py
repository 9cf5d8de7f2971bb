"""A whole session in one line: where each of its turns stands, however long it lasted."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.monitor.session_facts import OutlineTurn, SessionPart

WIDTH_SHARE = 0.8  # of a turn's place


@dataclass(frozen=True, slots=True)
class OutlinedTurn:
    n: int
    phase: str
    rank: str  # open, failed or empty
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class OutlinedSnapshot:
    n: int
    x: float


@dataclass(frozen=True, slots=True)
class Outline:
    """Places in per cent. Turns have equal places: a session may rest for days between two of them."""

    turns: Sequence[OutlinedTurn]
    snapshots: Sequence[OutlinedSnapshot]
    window: tuple[float, float] | None  # the place and the width of the shown part
    left_out: int  # older turns that are not drawn


def outline_of(facts: SessionPart, first: int, last: int) -> Outline:
    spans = facts.outline
    if not spans:
        return Outline((), (), None, 0)
    place = 100 / len(spans)
    turns = [
        OutlinedTurn(span.n, span.phase, _rank(span), round(n * place, 3), round(place * WIDTH_SHARE, 3))
        for n, span in enumerate(spans)
    ]
    shown = [n for n, span in enumerate(spans) if first <= span.n <= last]
    window = (round(shown[0] * place - 0.2, 3), round(len(shown) * place, 3)) if shown else None
    snapshots = [
        OutlinedSnapshot(one.n, round(place * sum(span.opened_at <= one.at for span in spans), 3))
        for one in facts.snapshots
        if one.at >= spans[0].opened_at
    ]
    return Outline(turns, snapshots, window, spans[0].n - 1)


def _rank(span: OutlineTurn) -> str:
    if span.closed_at is None:
        return "open"
    return "" if span.phase == "committed" else "failed"
