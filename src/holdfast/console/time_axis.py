"""A time axis that leaves out long times in which nothing happened: from instants to places in per cent of the width.

Rule 1: a folded time has a fixed small width, and its length is told.
Rule 2: time between two folds has one scale, so that durations can be compared.
"""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from holdfast.kernel.ids import Instant

FOLDED_MS_MIN = 5_000
FOLD_WIDTH, FOLDS_WIDTH_MAX = 3.0, 24.0  # of one fold, and of all together
LEFT, RIGHT = 0.6, 99.0


@dataclass(frozen=True, slots=True)
class Fold:
    since: Instant
    until: Instant
    x: float
    width: float


class TimeAxis:
    def __init__(self, instants: Collection[Instant]) -> None:
        """The instants are those at which something began or ended; there is at least one."""
        self._knots = sorted(set(instants))
        gaps = [after - before for before, after in pairwise(self._knots)]
        folded = _folded(gaps)
        count = sum(folded)
        fold_width = min(FOLD_WIDTH, FOLDS_WIDTH_MAX / count) if count else 0.0
        shown_ms = sum(gap for gap, is_folded in zip(gaps, folded, strict=True) if not is_folded)
        room = RIGHT - LEFT - count * fold_width
        widths = [
            fold_width if is_folded else room * gap / shown_ms if shown_ms else 0.0
            for gap, is_folded in zip(gaps, folded, strict=True)
        ]
        self._places = [LEFT]
        for width in widths:
            self._places.append(self._places[-1] + width)
        self.folds = tuple(
            Fold(self._knots[n], self._knots[n + 1], self._places[n], widths[n]) for n in range(len(gaps)) if folded[n]
        )
        self.per_second = room * 1_000 / shown_ms if shown_ms else 0.0

    def place(self, at: Instant) -> float:
        """Per cent of the width; an instant outside the axis is at its end."""
        n = bisect_right(self._knots, at) - 1
        if n < 0:
            return self._places[0]
        if n >= len(self._knots) - 1:
            return self._places[-1]
        share = (at - self._knots[n]) / (self._knots[n + 1] - self._knots[n])
        return self._places[n] + share * (self._places[n + 1] - self._places[n])

    @property
    def starts(self) -> tuple[Instant, ...]:
        """Where the axis begins, and where it goes on after each fold."""
        return (self._knots[0], *(fold.until for fold in self.folds))


def _folded(gaps: Sequence[int]) -> list[bool]:
    """A gap is folded if it is longer than all shorter ones together, which would leave them no room."""
    shorter, least = 0, None
    for gap in sorted(gaps):
        if gap >= FOLDED_MS_MIN and gap > shorter:
            least = gap
            break
        shorter += gap
    return [least is not None and gap >= least for gap in gaps]
