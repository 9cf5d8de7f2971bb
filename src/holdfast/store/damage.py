"""What an engine knows of its own condition: damage, the space that is left, and how long commits take.

Damage is remembered until the process ends, and searched for in the background.

Writes can succeed for a long time beside damaged pages, so a successful write proves nothing about other pages. An
engine remembers the first `StoreCorrupt` that a verb meets. The page check reads pages that no verb has read yet, one
table at a time, all tables once per hour.
"""

import asyncio
from collections.abc import Sequence

from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError, StoreCorrupt
from holdfast.kernel.ids import Instant
from holdfast.kernel.notifier import is_set_within
from holdfast.store.measures import StoreMeasures
from holdfast.store.ports import Ports

EVERY_MS = 3_600_000
WAIT_MS = 250


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
