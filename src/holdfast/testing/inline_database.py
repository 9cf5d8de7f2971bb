"""The SQLite engine without threads, for the simulator: it runs the same batches on the event loop.

Calls made in one tick of the loop form one batch, so group commits occur as on the writer thread. The probe
is called for every statement, each "commit" and each "committed"; a `BaseException` that it raises
simulates the death of the process: the connection is dropped, and no call returns.

A history opens many databases on one file, and a new connection reads the schema and compiles every statement again.
So the connection of a dead one may be kept as a spare for the next: rolled back, it sees what a new one would see.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from holdfast.kernel.errors import StoreBroken, StoreUnavailable
from holdfast.kernel.ports import Clock
from holdfast.store.script import Call, R
from holdfast.store.sqlite.batch import Outcome, Probe, roll_back, run_batch, run_read
from holdfast.store.sqlite.checkpointer import scrub
from holdfast.store.sqlite.connection import close_untouched
from holdfast.store.sqlite.faults import translate
from holdfast.store.sqlite.migrate import Migrations
from holdfast.store.sqlite.opening import open_ready
from holdfast.store.sqlite.path import FileIdentity
from holdfast.store.sqlite.thread_pool import Pending, refuse, settle
from holdfast.store.sqlite.writer import BATCH_MAX, data_version


class InlineDatabase:
    """Implements `Database` on the event loop that calls it."""

    def __init__(
        self,
        path: Path | str,
        clock: Clock,
        *,
        migrations: Migrations | None = None,
        before_statement: Probe | None = None,
        on_crash: Callable[[BaseException], None] | None = None,
        on_broken: Callable[[StoreBroken], None] | None = None,
        synchronous: str = "extra",
        vfs: str | None = None,
        exclusive: bool = False,
        spares: list[apsw.Connection] | None = None,
    ) -> None:
        """`spares` are connections of dead databases of the same file, opened in the same way."""
        self._clock = clock
        self._probe = before_statement
        self._on_crash = on_crash
        self._on_broken = on_broken
        self._writes: list[Pending] = []
        self._reads: list[Pending] = []
        self._data_version: int | None = None
        self.broken: StoreBroken | None = None
        self._closed = False
        self.dead = False
        self._spares = spares
        if spares:
            self._db = spares.pop()
        else:
            self._db = open_ready(path, migrations, vfs=vfs, synchronous=synchronous, exclusive=exclusive)
        self._file_identity = FileIdentity(Path(path))

    async def write(self, call: Call[R]) -> R:
        value: R = await self._submit(self._writes, call)
        return value

    async def read(self, call: Call[R]) -> R:
        value: R = await self._submit(self._reads, call)
        return value

    async def changed(self) -> bool:
        version, before = await self.write(Call("changed", data_version)), self._data_version
        self._data_version = version
        return version != before

    async def scrub(self) -> str:
        if self._closed:
            raise StoreUnavailable("scrub: the store is closed")
        self._flush()
        if self.dead:
            raise StoreUnavailable("scrub: the store died while it wrote what was waiting")
        if self.broken:
            raise type(self.broken)(str(self.broken))
        try:
            return scrub(self._db)
        except apsw.Error as error:
            raise translate(error, "scrub", self._db) from error

    def wal_bytes(self) -> int:
        return self._file_identity.wal_bytes()

    async def close(self) -> None:
        if self._closed or self.dead:
            return
        self._flush()
        self._closed = True
        if self.broken:
            close_untouched(self._db)
        elif not self.dead:
            self._close()

    def crash(self) -> None:
        """Simulate a crash: nothing further is written, and waiting calls never return."""
        if not self.dead and not self._closed:
            self.dead = True
            if self._spares is None:
                close_untouched(self._db)
            else:
                roll_back(self._db)
                self._spares.append(self._db)

    def checkpoint(self, *, truncate: bool = False) -> None:
        """Run one checkpoint, in place of the checkpointer."""
        mode = apsw.SQLITE_CHECKPOINT_TRUNCATE if truncate else apsw.SQLITE_CHECKPOINT_PASSIVE
        try:
            self._db.wal_checkpoint(mode=mode)
        except apsw.Error as error:
            raise translate(error, "checkpoint", self._db) from error

    def _submit(self, queue: list[Pending], call: Call[Any]) -> asyncio.Future[Any]:
        if self._closed:
            raise StoreUnavailable(f"{call.verb}: the store is closed")
        loop = asyncio.get_running_loop()
        if not self._writes and not self._reads:
            loop.call_soon(self._flush)
        pending = Pending(call, loop, loop.create_future())
        queue.append(pending)
        return pending.future

    def _flush(self) -> None:
        if self.dead or self._closed:
            return
        writes, self._writes = self._writes, []
        reads, self._reads = self._reads, []
        try:
            for start in range(0, len(writes), BATCH_MAX):
                self._write(writes[start : start + BATCH_MAX])
            self._read(reads)
        except BaseException as crash:  # the simulated crash of the process
            self.crash()
            if self._on_crash is None:
                raise
            self._on_crash(crash)

    def _write(self, calls: list[Pending]) -> None:
        waiting = [one.call for one in calls]
        outcomes = refuse(waiting, self.broken) if self.broken else self._run(waiting)
        settle(list(zip((one.future for one in calls), outcomes, strict=True)))

    def _run(self, calls: list[Call[Any]]) -> list[Any]:
        outcomes = run_batch(self._db, calls, self._clock, self._probe)
        last = outcomes[-1].error
        if isinstance(last, StoreBroken):
            self.broken = last
            if self._on_broken:
                self._on_broken(last)
        return outcomes

    def _read(self, calls: list[Pending]) -> None:
        # No `pragma query_only` around it: each one would make SQLite recompile every statement of the connection.
        settle([(one.future, self._run_read(one.call)) for one in calls])

    def _run_read(self, call: Call[Any]) -> Outcome:
        """The outcome of a read. A process that died during it has no connection any more, and nobody hears of it."""
        if not self.dead:
            try:
                return run_read(self._db, call, self._clock, self._probe)
            except BaseException:
                if not self.dead:
                    raise
        return Outcome(error=StoreUnavailable(f"{call.verb}: the process died"))

    def _close(self) -> None:
        try:
            self._db.close(True)
        except apsw.Error as error:  # from the last checkpoint, and only if a test replaced the files
            raise translate(error, "closing") from error
