"""What an engine measures of itself: how many calls share a commit, and how long a commit takes with its sync.

One thread writes a distribution. Others read it without a lock, so that a reader may see an observation half counted.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from holdfast.kernel.machine import stopwatch

BATCH_CALLS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
COMMIT_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class Distribution:
    """Counts of observations by their size: `counts[n]` up to and including `bounds[n]`, the last one above all."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, size: float) -> None:
        self.counts[bisect_left(self.bounds, size)] += 1
        self.total += size


class StoreMeasures:
    def __init__(self) -> None:
        self.batch_calls = Distribution(BATCH_CALLS)
        self.commit_seconds = Distribution(COMMIT_SECONDS)

    @contextmanager
    def commit(self, calls: int) -> Iterator[None]:
        """Measure a commit. One that fails is not counted."""
        began_s = stopwatch()
        yield
        self.commit_seconds.observe(stopwatch() - began_s)
        self.batch_calls.observe(calls)
