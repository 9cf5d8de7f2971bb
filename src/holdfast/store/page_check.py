"""The page check: searches for damaged pages in the background, one table at a time, all tables once per hour.

A health check starts a round, which runs in its own task; the health check waits only briefly. Damage that was found
is reported until the process ends.
"""

import asyncio

from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError, StoreCorrupt
from holdfast.kernel.ids import Instant
from holdfast.store.damage import WatchedDatabase
from holdfast.store.ports import Ports

EVERY_MS = 3_600_000
WAIT_MS = 250


class PageCheck:
    def __init__(self, ports: Ports) -> None:
        self._pages = ports.db if isinstance(ports.db, WatchedDatabase) else None
        self._ports = ports
        self._began_at: Instant | None = None
        self._ended = asyncio.Event()

    async def damage(self) -> StoreCorrupt | None:
        """The known damage. Starts a round if the last one started an hour ago."""
        if self._pages is None:
            return None
        now = self._ports.clock.now()
        if self._began_at is None or (self._ended.is_set() and now - self._began_at >= EVERY_MS):
            self._began_at, self._ended = now, asyncio.Event()
            self._ports.tasks.start(self._round(self._pages), name="page-check")
        if self._pages.damage is None and not self._ended.is_set():
            try:
                async with asyncio.timeout(WAIT_MS / 1000):
                    await self._ended.wait()
            except TimeoutError:
                return self._pages.damage
        return self._pages.damage

    async def _round(self, pages: WatchedDatabase) -> None:
        try:
            for table in await pages.tables():
                await pages.check_table(table)
        except HoldfastError as error:  # the store is unavailable; the next round checks again
            log.warning("store.unchecked", code=error.code)
        finally:
            self._ended.set()
