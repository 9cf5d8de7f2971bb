"""The parts of a plan: contestants, cells of one size each, and sections of cells that are shown together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.work import Load

OURS, PEERS, HERMES = "development", "peers", "hermes"  # environments
QUICK_SECONDS = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One way of doing a section's work: where its code is, and what of the work is its own."""

    name: str
    target: str  # module:name
    environment: str = OURS
    does: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    name: str
    load: Load
    contestants: tuple[Contestant, ...]
    is_prepared: bool = False  # whether a folder is prepared before the repetitions
    is_copied: bool = False  # whether each repetition gets its own copy of that folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    name: str
    title: str
    work: str  # what is measured, and what is equal
    figures: tuple[str, ...]  # the columns; the first is compared
    cells: tuple[Cell, ...]
    quick_cells: tuple[Cell, ...]
    versions: tuple[str, ...] = ()  # packages of the peers
    needs_postgres: bool = False
    compares_cells: bool = False  # whether the cells alternate within a repetition too
