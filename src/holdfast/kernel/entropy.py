"""The entropy port: the only source of random ids, jitter and tokens."""

from typing import Protocol


class Entropy(Protocol):
    def bits(self, count: int) -> int:
        """An integer of `count` random bits."""
        ...

    def fraction(self) -> float:
        """A float in [0, 1)."""
        ...
