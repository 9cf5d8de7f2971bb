"""From a plan that fails to a small plan that fails: delta debugging (ddmin, Zeller 2002) over its parts.

Halves are left out first, then quarters, down to single parts. The result is minimal in this sense: if
the limit was not reached, leaving out any single part makes the failure go away. Each run is one whole
history, so the number of runs is limited, and the best plan so far is returned at the limit.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Protocol, Self, TypeVar

RUNS_MAX = 400


class Plan(Protocol):
    """Anything made of parts that can be left out; `FaultPlan` is one."""

    @property
    def parts(self) -> tuple[Any, ...]: ...

    def only(self, kept: Iterable[Any], /) -> Self: ...


P = TypeVar("P", bound=Plan)


class OutOfRuns(Exception):
    """The limit is reached; caught by `shrink`, which then returns the best plan so far."""


def shrink(plan: P, fails: Callable[[P], bool], *, runs_max: int = RUNS_MAX) -> P:
    """The smallest plan found that still fails. The given plan has to fail: it is run first."""
    search = _Search(plan, fails, runs_max)
    if not search.fails(plan.parts):
        raise ValueError("the plan does not fail, so there is nothing to shrink")
    with suppress(OutOfRuns):
        search.narrow()
    return plan.only(search.best)


class _Search:
    def __init__(self, plan: Any, fails: Callable[[Any], bool], runs_max: int) -> None:  # noqa: ANN401
        self.best: tuple[Any, ...] = plan.parts
        self._plan = plan
        self._fails = fails
        self._runs_left = runs_max
        self._known: dict[tuple[Any, ...], bool] = {}

    def narrow(self) -> None:
        """Leave out one chunk after another; use smaller chunks once none can be left out."""
        if self.fails(()):
            self.best = ()
        size = len(self.best) // 2
        while size >= 1:
            if not self._spare_chunks(size):
                size //= 2

    def _spare_chunks(self, size: int) -> bool:
        """Try once to leave out each chunk of the best plan; True if one could be left out."""
        spared = False
        for chunk in _chunks(self.best, size):
            rest = tuple(part for part in self.best if part not in chunk)
            if self.fails(rest):
                self.best = rest
                spared = True
        return spared

    def fails(self, parts: tuple[Any, ...]) -> bool:
        if parts not in self._known:
            if self._runs_left <= 0:
                raise OutOfRuns
            self._runs_left -= 1
            self._known[parts] = self._fails(self._plan.only(parts))
        return self._known[parts]


def _chunks(parts: Sequence[Any], size: int) -> list[tuple[Any, ...]]:
    return [tuple(parts[start : start + size]) for start in range(0, len(parts), size)]
