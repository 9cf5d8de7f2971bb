"""Randomness from a seed: the same ids, jitter and tokens in every run."""

import random


class SeededEntropy:
    """Give each node a seed of its own (`f"{seed}/{node}"`): with a shared seed, a fault of
    one node would change the ids of the other."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed)

    def bits(self, count: int) -> int:
        return self._random.getrandbits(count)

    def fraction(self) -> float:
        return self._random.random()
