"""The forgetter: completes all open requests to forget, including those of other processes and of earlier runs.

The dispatcher delivers the erasures. The forgetter scrubs the store's files, blanks the copies that recall made before
the providers erased the words, and clears the caches of this process, which may not have received the request.
"""

from holdfast.kernel import log
from holdfast.kernel.ids import ForgetId
from holdfast.kernel.loop import Loop
from holdfast.kernel.notifier import Topic
from holdfast.memory import forget_sql
from holdfast.memory.recaller import Recaller
from holdfast.store.ports import Database, Ports
from holdfast.turns.context_cache import Briefing

POLL_MS = 15_000  # another process may have received a request or delivered the last erasure
QUIET_MS = 10_000  # a recall that ran during the last erasure is journaled within this time, or never


async def scrub_forgotten(db: Database) -> int:
    """Remove all forgotten bytes from the store's files and record that; the number of requests.

    Raises `StoreUnavailable` if the scrub fails; it may be repeated at any time.
    """
    waiting = await db.read(forget_sql.list_unscrubbed())
    if waiting:
        receipt = await db.scrub()
        await db.write(forget_sql.mark_scrubbed(waiting, receipt))
    return len(waiting)


class Forgetter(Loop):
    name = "forgetter"

    def __init__(self, ports: Ports, *, recaller: Recaller, briefing: Briefing, quiet_ms: int = QUIET_MS) -> None:
        super().__init__(ports.tasks, ports.entropy)
        self._ports = ports
        self._recaller = recaller
        self._briefing = briefing
        self._quiet_ms = quiet_ms
        self._newest: ForgetId | None = None

    async def step(self) -> bool:
        newest = await self._ports.db.read(forget_sql.find_newest_forgetting())
        if newest != self._newest:
            self._newest = newest
            self._briefing.clear()
        if newest is None or not await self._ports.db.read(forget_sql.list_open_forgettings()):
            return False
        self._recaller.close()  # drops prefetched results; the next turn queries again
        await self._ports.db.write(forget_sql.sweep_forgotten(quiet_ms=self._quiet_ms))
        scrubbed = await scrub_forgotten(self._ports.db)
        if scrubbed:
            log.info("forget.scrubbed", requests=scrubbed)
        return False

    async def rest(self) -> None:
        await self._ports.notifier.wait(Topic.FORGET, timeout_ms=POLL_MS)
