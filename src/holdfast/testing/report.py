"""The findings of the checkers."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """An invariant that a history broke, and how. `what` names ids and numbers."""

    invariant: str
    what: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.what}"


def describe(seed: int | str, violations: Iterable[Violation]) -> str:
    """All violations of one history, headed by the seed that repeats it."""
    lines = [f"  {violation}" for violation in violations]
    return "\n".join([f"seed {seed}: {len(lines)} violation{'s' if len(lines) != 1 else ''}", *lines])
