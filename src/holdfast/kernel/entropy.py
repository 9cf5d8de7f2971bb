"""Chance, as a port: ids, jitter and tokens are drawn here and nowhere else."""

from typing import Protocol


class Entropy(Protocol):
    def bits(self, count: int) -> int:
        """An integer of `count` random bits."""
        ...

    def fraction(self) -> float:
        """A float in [0, 1)."""
        ...
