"""What an engine measures of itself: how many calls share a commit, and how long a commit takes with its sync.

The commits since the newest reading are kept as they came, so that measuring one costs a call of `append`. The writer
thread appends, and a reader counts them.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence

BATCH_CALLS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
UNREAD_MAX = 20_000  # commits between two readings
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
        self.commits: deque[tuple[int, float]] = deque(maxlen=UNREAD_MAX)  # calls and seconds of each, not counted yet
        self.batch_calls = Distribution(BATCH_CALLS)
        self.commit_seconds = Distribution(COMMIT_SECONDS)

    def count(self) -> None:
        """Count the commits since the last call; of very many, the newest."""
        while self.commits:
            calls, seconds = self.commits.popleft()
            self.batch_calls.observe(calls)
            self.commit_seconds.observe(seconds)
