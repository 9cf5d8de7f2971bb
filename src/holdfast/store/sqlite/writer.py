"""The SQLite engine of a running process: one writer thread, a few readers, a checkpointer.

Rule 1: one thread writes. It takes all queued calls and makes them durable in one commit, so calls share the
        cost of a sync and none waits for a timer.
Rule 2: after a commit whose outcome is unknown, or whose files are no longer at the path, the engine is
        broken: it refuses every later write with `StoreBroken`. A restart recovers.
Rule 3: other processes may write the same file. The writer polls for the lock every millisecond, and
        leaves a gap between batches while it observes another writer.

The engine does not interpret the scripts.
"""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw

from holdfast.kernel.errors import InvariantBroken, StoreBroken, StoreCorrupt, StoreUnavailable
from holdfast.kernel.ports import Clock
from holdfast.store.damage import CheckedEngine, StoreMeasures
from holdfast.store.script import Call, R, Script, rows
from holdfast.store.sqlite.batch import Outcome, roll_back, run_batch, run_read
from holdfast.store.sqlite.checkpointer import Checkpointer, scrub
from holdfast.store.sqlite.connection import close_untouched, open_connection
from holdfast.store.sqlite.faults import translate
from holdfast.store.sqlite.migrate import Migrations
from holdfast.store.sqlite.opening import open_ready
from holdfast.store.sqlite.path import FileIdentity
from holdfast.store.sqlite.thread_pool import PoolWorker, ThreadPool, refuse

BATCH_MAX = 512  # calls in one commit
READERS = 2
READ_BATCH_MAX = 8  # reads per batch, each over its own snapshot, to save wake-ups
WRITE_LOCK_POLL_S = 0.001
WRITE_LOCK_POLLS_MAX = 5_000  # then the call fails with StoreUnavailable
GAP_S = 0.001  # long enough for another process to poll the lock
CLOSE_TIMEOUT_S = 10.0
CHECKED_BYTES_MAX = 4_000_000_000  # page checks are skipped for larger databases


class ThreadedDatabase(CheckedEngine):
    """Implements `Database`. Created by `open`, which blocks; every other method is safe on any event loop."""

    def __init__(
        self,
        writing: "WriterWorker",
        reading: Sequence["ReaderWorker"],
        checkpointer: Checkpointer,
        on_close: Callable[[], None] | None,
    ) -> None:
        self._checkpointer = checkpointer
        self._writer = writing
        self._on_close = on_close
        self._writers = ThreadPool("holdfast-writer", [writing], take_max=BATCH_MAX)
        self._readers = ThreadPool("holdfast-reader", reading, take_max=READ_BATCH_MAX)
        self._data_version: int | None = None
        self.measures = writing.measures

    @classmethod
    def open(
        cls,
        path: Path,
        clock: Clock,
        *,
        migrations: Migrations | None = None,
        shared: bool = False,
        on_broken: Callable[[StoreBroken], None] | None = None,
        on_close: Callable[[], None] | None = None,
        key: bytes | None = None,
    ) -> "ThreadedDatabase":
        """Open the file, migrate its schema and start the threads. A `key` encrypts the file.

        `shared` means that other processes write too, so a gap follows every batch. `on_broken` is called once, on the
        writer thread, when the process must stop; `on_close` at the end of `close`.
        """
        db = open_ready(path, migrations, key=key)
        try:
            readers = [ReaderWorker(open_connection(path, readonly=True, key=key), clock) for _ in range(READERS)]
            file_identity = FileIdentity(path)
            checkpointer = Checkpointer(open_connection(path, key=key), file_identity.wal_bytes)
        except BaseException:
            close_untouched(db)
            raise
        writer = WriterWorker(db, clock, file_identity, checkpointer, shared=shared, on_broken=on_broken)
        return cls(writer, readers, checkpointer, on_close)

    async def write(self, call: Call[R]) -> R:
        try:
            value: R = await self._writers.submit(call)
        except StoreCorrupt as error:
            self.note_damage(error)
            raise
        return value

    async def read(self, call: Call[R]) -> R:
        try:
            value: R = await self._readers.submit(call)
        except StoreCorrupt as error:
            self.note_damage(error)
            raise
        return value

    async def scrub(self) -> str:
        receipt: str = await self._writers.submit(SCRUB)
        return receipt

    async def changed(self) -> bool:
        # Read on the writer's connection, whose own commits do not change the value.
        version, before = await self.write(Call("changed", data_version)), self._data_version
        self._data_version = version
        return version != before

    def wal_bytes(self) -> int:
        return self._writer.file_identity.wal_bytes()

    def free_bytes(self) -> int | None:
        return self._writer.file_identity.free_bytes()

    async def tables(self) -> Sequence[str]:
        """Empty if a check would block a reader for too long; backups and `holdfast audit` check pages then."""
        return await self.read(Call("tables", checkable))

    async def check_table(self, table: str) -> None:
        """Read every page of the table and of its indexes, without cross-checking them."""
        await self.read(Call("check_table", lambda: quick_check(table)))

    async def close(self) -> None:
        await self._writers.close(CLOSE_TIMEOUT_S)
        await self._readers.close(CLOSE_TIMEOUT_S)
        await self._checkpointer.close(CLOSE_TIMEOUT_S, untouched=self._writer.broken is not None)
        if self._on_close is not None:
            self._on_close()


class WriterWorker(PoolWorker):
    """Owns the writing connection; runs on the writer thread."""

    def __init__(
        self,
        db: apsw.Connection,
        clock: Clock,
        file_identity: FileIdentity,
        checkpointer: Checkpointer,
        *,
        shared: bool,
        on_broken: Callable[[StoreBroken], None] | None,
    ) -> None:
        self._db = db
        self._clock = clock
        self.file_identity = file_identity
        self._checkpointer = checkpointer
        self._shared = shared
        self._on_broken = on_broken
        self.broken: StoreBroken | None = None
        self.measures = StoreMeasures()
        self._contended = False
        self._pause = threading.Event()
        db.set_busy_handler(self._poll)

    def serve(self, calls: Sequence[Call[Any]]) -> list[Outcome]:
        writes = [call for call in calls if call is not SCRUB]
        outcomes = self._commit(writes) if writes else []
        if len(writes) == len(calls):
            return outcomes
        scrubbed, written = self._scrub(), iter(outcomes)
        return [scrubbed if call is SCRUB else next(written) for call in calls]

    def _commit(self, calls: Sequence[Call[Any]]) -> list[Outcome]:
        if self.broken:
            return refuse(calls, self.broken)
        self._contended = False
        try:
            outcomes = run_batch(self._db, calls, self._clock, measures=self.measures)
        except BaseException:  # a script raised an unexpected exception; the next batch needs a clean transaction
            roll_back(self._db)
            raise
        if not self.file_identity.holds():
            outcomes = refuse(calls, StoreBroken("the database was moved, replaced or deleted while in use"))
        last = outcomes[-1].error
        if isinstance(last, StoreBroken):  # the calls after it in the batch have failed with it
            self.broken = last
            if self._on_broken:
                self._on_broken(last)
        self._checkpointer.committed()
        return outcomes

    def _scrub(self) -> Outcome:
        """Scrub after the writes of the same batch. All other calls wait, because no transaction may be open."""
        if self.broken:
            return refuse([SCRUB], self.broken)[0]
        try:
            with self._checkpointer.moving:
                return Outcome(scrub(self._db))
        except StoreUnavailable as error:
            return Outcome(error=error)
        except apsw.Error as error:
            return Outcome(error=translate(error, "scrub", self._db))

    def rest(self) -> None:
        self._checkpointer.stand_back()
        if self._shared or self._contended:
            self._pause.wait(GAP_S)

    def leave(self) -> None:
        if self.broken:
            close_untouched(self._db)
        else:
            self._db.close(True)

    def _poll(self, polls: int) -> bool:
        """SQLite's busy handler: True to retry the lock."""
        self._contended = True
        self._pause.wait(WRITE_LOCK_POLL_S)
        return polls < WRITE_LOCK_POLLS_MAX


class ReaderWorker(PoolWorker):
    """Owns one read connection."""

    def __init__(self, db: apsw.Connection, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    def serve(self, calls: Sequence[Call[Any]]) -> list[Outcome]:
        return [run_read(self._db, call, self._clock) for call in calls]

    def leave(self) -> None:
        self._db.close(True)


def scrubbing() -> Script[str]:
    """Marks a scrub in the writer's queue. The writer runs the scrub outside a transaction and never this script."""
    yield from ()
    raise InvariantBroken("a scrub was run as a script")


SCRUB = Call("scrub", scrubbing)


def checkable() -> Script[list[str]]:
    ((pages,),) = yield from rows("pragma page_count")
    ((size,),) = yield from rows("pragma page_size")
    if pages * size > CHECKED_BYTES_MAX:
        return []
    found = yield from rows("select name from sqlite_schema where type = 'table' order by name")
    return [str(row[0]) for row in found]


def quick_check(table: str) -> Script[None]:
    quoted = table.replace('"', '""')
    ((wrong,), *_) = yield from rows(f'pragma quick_check("{quoted}")')
    if wrong != "ok":
        raise StoreCorrupt(f"the pages of {table} are damaged ({wrong})", table=table)


def data_version() -> Script[int]:
    """Changes when another connection commits."""
    found = yield from rows("pragma data_version")
    return int(found[0][0])
