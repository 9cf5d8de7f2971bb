"""From samples to figures: medians with their spread, ratios within a repetition, and goals."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

FIGURES = {
    "per_s": "per second",
    "cpu_ms": "CPU ms",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "bytes": "bytes per turn",
    "in_order": "in order",
    "trips_per_turn": "per turn",
    "trips_per_accept": "per accept",
    "trips_per_idle_s": "per idle second",
    "turns_per_s": "turns per second",
    "refused": "refused",
    "cpu_share": "cores",
    "answered": "answered",
    "recalled": "share of turns that recalled",
    "first_answer_s": "first answer, s",
    "bytes_per_session": "bytes per session",
    "resident_mb": "resident MB",
    "ready_s": "ready, s",
    "import_s": "import, s",
    "help_s": "help, s",
}
Cells: TypeAlias = Mapping[str, Mapping[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Spread:
    """The median, the smallest and the largest of the repetitions."""

    median: float
    least: float
    most: float

    @staticmethod
    def of(values: Sequence[float]) -> "Spread":
        return Spread(statistics.median(values), min(values), max(values))


def number(value: float) -> str:
    """About three digits."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    digits = 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 else 3
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def spread(cells: Cells, cell: str, who: str, figure: str) -> Spread | None:
    """A figure of one contestant in one cell, or None if it was not measured."""
    values = [sample[figure] for sample in _samples(cells, cell, who) if figure in sample]
    return Spread.of(values) if values else None


def ratio(cells: Cells, figure: str, over: tuple[str, str], under: tuple[str, str]) -> Spread | None:
    """One (cell, contestant) over another, repetition by repetition."""
    pairs = zip(_samples(cells, *over), _samples(cells, *under), strict=False)
    values = [a[figure] / b[figure] for a, b in pairs if figure in a and b.get(figure)]
    return Spread.of(values) if values else None


def _samples(cells: Cells, cell: str, who: str) -> Sequence[Mapping[str, float]]:
    found: Sequence[Mapping[str, float]] = cells.get(cell, {}).get(who, {}).get("samples", ())
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A promise about one figure, or about the ratio of two."""

    text: str
    section: str
    figure: str
    of: tuple[str, str]  # cell, contestant
    against: tuple[str, str] | None = None
    gate: float
    stretch: float | None = None
    is_floor: bool = False  # whether more is better
    unit: str = ""

    def measured(self, sections: Mapping[str, Any]) -> Spread | None:
        cells = sections.get(self.section, {}).get("cells", {})
        if self.against is not None:
            return ratio(cells, self.figure, self.of, self.against)
        return spread(cells, *self.of, self.figure)

    def verdict(self, found: Spread) -> str:
        if self.stretch is not None and self._reaches(found, self.stretch):
            return "stretch"
        return "met" if self._reaches(found, self.gate) else "missed"

    def _reaches(self, found: Spread, bound: float) -> bool:
        return found.median >= bound if self.is_floor else found.median <= bound

    @property
    def bounds(self) -> tuple[float, float | None]:
        return self.gate, self.stretch
