"""The health of a process: it serves, it just proved a write, and no damaged page of the store was seen (R41).

Rule 1: a write that succeeds proves the disk and the store. That the loops of a process work is proved by its lease,
        which one of them renews every few seconds.
Rule 2: concurrent callers share one write per second, so that a check costs little however often it is asked.
"""

import asyncio
from dataclasses import replace

from holdfast.kernel.errors import HoldfastError, StoreFull
from holdfast.kernel.files import FULL
from holdfast.kernel.ids import Instant
from holdfast.runtime.views import Health
from holdfast.store.damage import CheckedEngine, PageCheck
from holdfast.store.membership import LEASE_MS, Member
from holdfast.store.node_sql import read_heartbeat
from holdfast.store.ports import Ports
from holdfast.store.upkeep_sql import prove_write

PROVE_EVERY_MS = 1_000
PROVE_WAIT_MS = 5_000
FREE_BYTES_MIN = 1 << 20  # below it, the write of a check fits and a message does not
SILENT_MS = 2 * LEASE_MS  # a process whose lease was not renewed for so long does not work
NOT_RESPONDING = "not_responding"


class HealthCheck:
    def __init__(self, ports: Ports, member: Member, *, serves: bool) -> None:
        self._ports = ports
        self._member = member
        self._serves = serves
        self._proving = asyncio.Lock()
        self._proved: Health | None = None
        self._pages = PageCheck(ports)

    async def check(self) -> Health:
        async with self._proving:
            now = self._ports.clock.now()
            if self._proved is None or now - self._proved.at >= PROVE_EVERY_MS:
                self._proved = await self._prove(now)
        damage = await self._pages.damage()
        if damage is None or not self._proved.ok:
            return self._proved
        return replace(self._proved, ok=False, code=damage.code, why=str(damage))

    async def _prove(self, started: Instant) -> Health:
        try:
            async with asyncio.timeout(PROVE_WAIT_MS / 1000):
                wrote_at = await self._ports.db.write(prove_write())
                took_ms = self._ports.clock.now() - started
                # A process that serves nothing looks at whichever process serves.
                seen_at = await self._ports.db.read(read_heartbeat(self._member.node if self._serves else None))
        except TimeoutError:
            return Health(ok=False, at=started, code="store_unavailable", why=f"no write within {PROVE_WAIT_MS} ms")
        except HoldfastError as error:
            return Health(ok=False, at=started, code=error.code, why=str(error))
        found = Health(
            ok=True, at=started, proved_write_ms=took_ms, wal_bytes=self._ports.db.wal_bytes(), seen_at=seen_at
        )
        free_bytes = self._ports.db.free_bytes() if isinstance(self._ports.db, CheckedEngine) else None
        if free_bytes is not None and free_bytes < FREE_BYTES_MIN:
            why = f"{FULL}: {free_bytes // 1024} KiB are free, and a message may need {FREE_BYTES_MIN // 1024} KiB"
            return replace(found, ok=False, code=StoreFull.code, why=why)
        return silent(found, wrote_at) if self._serves else found


def silent(found: Health, now: Instant) -> Health:
    """Not healthy if the serving process gave no sign of life for too long."""
    if found.seen_at is None:
        return replace(found, ok=False, code=NOT_RESPONDING, why="the process holds no lease")
    silent_ms = now - found.seen_at
    if silent_ms < SILENT_MS:
        return found
    why = f"the process gave no sign of life for {silent_ms // 1_000} s"
    return replace(found, ok=False, code=NOT_RESPONDING, why=why)
