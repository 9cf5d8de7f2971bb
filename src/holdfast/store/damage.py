"""What an engine knows of its own condition: damage, the space that is left, and how long commits take.

Damage is remembered until the process ends, and searched for in the background. The commits since the newest reading
are kept as they came, so that measuring one costs a call of `append`: the writer thread appends, and a reader counts.

Writes can succeed for a long time beside damaged pages, so a successful write proves nothing about other pages. An
engine remembers the first `StoreCorrupt` that a verb meets. The page check reads pages that no verb has read yet, one
table at a time, all tables once per hour.
"""

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence

from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError, StoreCorrupt
from holdfast.kernel.ids import Instant
from holdfast.kernel.notifier import is_set_within
from holdfast.store.ports import Ports

EVERY_MS = 3_600_000
WAIT_MS = 250
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


class CheckedEngine:
    """An engine that remembers its damage. One that can check its own pages says which tables it has."""

    damage: StoreCorrupt | None = None
    measures: StoreMeasures | None = None  # None if the engine measures nothing

    def note_damage(self, error: StoreCorrupt) -> None:
        if self.damage is None:
            self.damage = error
            log.error("store.damaged", why=str(error))

    def free_bytes(self) -> int | None:
        """The space that is left on the disk of the store; None if it is not known."""
        return None

    async def tables(self) -> Sequence[str]:
        """The tables to check, one after another; empty if a check would take too long."""
        return ()

    async def check_table(self, table: str) -> None:
        """Read the pages of the table and its indexes. Raises `StoreCorrupt` for damaged ones."""


class PageCheck:
    """A health check starts a round, which runs in its own task. That check waits briefly, and later ones do not."""

    def __init__(self, ports: Ports) -> None:
        self._engine = ports.db if isinstance(ports.db, CheckedEngine) else None
        self._ports = ports
        self._began_at: Instant | None = None
        self._ended = asyncio.Event()

    async def damage(self) -> StoreCorrupt | None:
        """The known damage. Starts a round if the last one started an hour ago."""
        if self._engine is None:
            return None
        now = self._ports.clock.now()
        if self._began_at is None or (self._ended.is_set() and now - self._began_at >= EVERY_MS):
            self._began_at, self._ended = now, asyncio.Event()
            self._ports.tasks.start(self._round(self._engine), name="page-check")
            await is_set_within(self._ended, WAIT_MS)
        return self._engine.damage

    async def _round(self, engine: CheckedEngine) -> None:
        try:
            for table in await engine.tables():
                await engine.check_table(table)
        except StoreCorrupt as error:
            engine.note_damage(error)
        except HoldfastError as error:  # the store is unavailable; the next round checks again
            log.warning("store.unchecked", code=error.code)
        finally:
            self._ended.set()
