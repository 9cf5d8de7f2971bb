"""Checkpoints the WAL, off the commit path, and scrubs the files of a database.

Rule 1: a PASSIVE checkpoint follows commits after a short delay and blocks no connection. After a complete
        checkpoint the writer reuses the WAL from its start, which is faster than a new file.
Rule 2: a WAL above its limit is truncated. That needs the write lock briefly, so the writer pauses; a reader
        with an old snapshot may prevent it, and then a later checkpoint tries again.
Rule 3: a failed checkpoint loses nothing, since the WAL is intact. The next commit triggers another one; the WAL
        grows meanwhile, which health reports.
Rule 4: a scrub removes every byte of blanked content. SQLite leaves old bytes in freed cells, in split pages, on the
        free list and in the WAL. `secure_delete` overwrites deleted cells, but not the copies left by a page split, nor
        cells freed before it was set. VACUUM does: the new pages contain only present rows. A checkpoint then truncates
        the WAL. A scrub copies the whole database, so one scrub serves many forget requests.
"""

import threading
from collections.abc import Callable
from contextlib import suppress

import apsw

from holdfast.kernel.errors import StoreUnavailable
from holdfast.store.sqlite.connection import close_untouched, pragma
from holdfast.store.sqlite.thread_pool import WorkerThread

CHECKPOINT_AFTER_S = 0.5  # a page that many turns change is copied once, not once per turn
WAL_BYTES_MAX = 64 * 1024 * 1024
TRUNCATE_BUSY_MS = 200  # readers hold no snapshot for longer
TRUNCATE_AGAIN_CHECKPOINTS = 20  # after a failed truncation, the number of checkpoints until the next attempt
SCRUB_IN_MEMORY_BYTES_MAX = 64 * 1024 * 1024  # a larger copy goes to a temporary file, which the system removes
RECEIPT = "the database was written anew and its log emptied; backups and copies of the disk are yours to erase"


class Checkpointer:
    def __init__(self, db: apsw.Connection, wal_bytes: Callable[[], int]) -> None:
        db.set_busy_timeout(TRUNCATE_BUSY_MS)
        self._db = db
        self._wal_bytes = wal_bytes
        self._dirty = threading.Event()
        self._stopping = threading.Event()
        self._clear = threading.Event()  # cleared while the writer should pause
        self._clear.set()
        self._truncate_not_before = 0  # remaining checkpoints
        self.moving = threading.Lock()  # held during a checkpoint; SQLite has no busy wait for this
        self._untouched = False
        self._thread = WorkerThread("holdfast-checkpointer", self._work)

    def committed(self) -> None:
        """Schedule a checkpoint after a commit."""
        if not self._dirty.is_set():
            self._dirty.set()

    def stand_back(self) -> None:
        """Pause the writer between batches while the WAL is being truncated; otherwise return at once."""
        if not self._clear.is_set():
            self._clear.wait(2 * TRUNCATE_BUSY_MS / 1000)

    async def close(self, timeout_s: float, *, untouched: bool) -> None:
        """End the thread and close its connection; `untouched` skips the last checkpoint."""
        self._untouched = untouched
        self._stopping.set()
        self._dirty.set()
        await self._thread.ended(timeout_s)

    def _work(self) -> None:
        while self._dirty.wait() and not self._stopping.wait(CHECKPOINT_AFTER_S):
            self._dirty.clear()
            with suppress(apsw.Error), self.moving:
                self._checkpoint()
        if self._untouched:
            close_untouched(self._db)
        else:
            self._db.close(True)

    def _checkpoint(self) -> None:
        self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        if self._truncate_not_before:
            self._truncate_not_before -= 1
        elif self._wal_bytes() > WAL_BYTES_MAX:
            self._truncate()

    def _truncate(self) -> None:
        self._truncate_not_before = TRUNCATE_AGAIN_CHECKPOINTS
        self._clear.clear()
        try:
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._truncate_not_before = 0
        finally:
            self._clear.set()


def scrub(db: apsw.Connection) -> str:
    """Vacuum the database and truncate its WAL; returns the receipt.

    Raises `StoreUnavailable` while a reader pins the WAL, and `apsw.Error`. It may be repeated at any time.
    """
    size = int(pragma(db, "page_count")) * int(pragma(db, "page_size"))
    db.execute(f"pragma temp_store={'memory' if size <= SCRUB_IN_MEMORY_BYTES_MAX else 'file'}")
    try:
        db.execute("vacuum")
    finally:
        db.execute("pragma temp_store=memory")
    try:
        busy = db.execute("pragma wal_checkpoint(truncate)").fetchall()[0][0]
    except apsw.BusyError as error:
        raise StoreUnavailable("scrub: another process moves the log") from error
    if busy:
        raise StoreUnavailable("scrub: somebody still reads from the log")
    return RECEIPT
