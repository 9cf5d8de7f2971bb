"""Move the log into the database, off the commit path.

Rule 1: a PASSIVE checkpoint follows commits after a moment and waits for nobody. Once all of the log is
        moved the writer starts it again from the front, which is faster than a new one.
Rule 2: a log above its limit is truncated. That needs the write lock for a moment, so the writer is asked
        to stand back; a reader that holds an old snapshot may prevent it, and then it is tried again later.
Rule 3: a checkpoint that fails loses nothing, since the log is intact. It is tried again after the next commit; the
        log grows meanwhile, which health shows.
"""

import threading
from collections.abc import Callable
from contextlib import suppress

import apsw

from holdfast.store.sqlite.connection import close_untouched
from holdfast.store.sqlite.thread import WorkerThread

CHECKPOINT_AFTER_S = 0.5  # a page that many turns touch is moved once, not once per turn
WAL_BYTES_MAX = 64 * 1024 * 1024
TRUNCATE_BUSY_MS = 200  # readers hold no snapshot longer than this
TRUNCATE_AGAIN_CHECKPOINTS = 20  # a log that could not be truncated is left alone for so many checkpoints


class Checkpointer:
    def __init__(self, db: apsw.Connection, wal_bytes: Callable[[], int]) -> None:
        db.set_busy_timeout(TRUNCATE_BUSY_MS)
        self._db = db
        self._wal_bytes = wal_bytes
        self._dirty = threading.Event()
        self._stopping = threading.Event()
        self._clear = threading.Event()  # unset while the writer should stand back
        self._clear.set()
        self._truncate_not_before = 0  # counts down checkpoints
        self.moving = threading.Lock()  # held while the log is moved; SQLite lets nobody wait for that
        self._untouched = False
        self._hand = WorkerThread("holdfast-checkpointer", self._work)

    def committed(self) -> None:
        """Something was committed: a checkpoint is due in a moment."""
        if not self._dirty.is_set():
            self._dirty.set()

    def stand_back(self) -> None:
        """Called by the writer between batches; returns at once unless the log is being truncated."""
        if not self._clear.is_set():
            self._clear.wait(2 * TRUNCATE_BUSY_MS / 1000)

    async def close(self, timeout_s: float, *, untouched: bool) -> None:
        """End the thread and its connection; `untouched` leaves the log as it is."""
        self._untouched = untouched
        self._stopping.set()
        self._dirty.set()
        await self._hand.ended(timeout_s)

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
