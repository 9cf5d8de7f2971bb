"""Rebuilding the index from the journal: one transaction over several calls.

Rule 1: an interrupted rebuild leaves the index, and its mark `needs_rebuild`, as they were.
Rule 2: no other connection writes during a rebuild, in this process or another: a parcel that is applied before the
        ones that it retracts, replaces or erases would do nothing, or too much.
Rule 3: each call runs in a thread, one at a time. A call whose caller was cancelled ends before the transaction is
        rolled back.
"""

import threading
from collections.abc import Sequence
from pathlib import Path

import apsw

from holdfast.memory.delivery import Parcel
from holdfast.providers.local.index_file import open_writer
from holdfast.providers.local.index_writer import apply, index_many_fresh

_EMPTY = """
delete from fresh; delete from posting; delete from scope_part; delete from scope; delete from body; delete from line;
delete from voice; delete from unit where not is_erased
"""
_WHOLE = "update state set value = 0 where name = 'needs_rebuild'"


class IndexRebuild:
    """Every method raises the errors of `open_writer`."""

    def __init__(self, folder: Path, key: bytes | None = None) -> None:
        self._folder = folder
        self._key = key
        self._lock = threading.Lock()
        self._db: apsw.Connection | None = None
        self._is_closed = False

    def begin(self) -> None:
        with self._lock:
            if not self._is_closed:
                self._db = open_writer(self._folder, self._key)
                self._db.execute("begin immediate")
                self._db.execute(_EMPTY)

    def add(self, parcels: Sequence[Parcel]) -> int:
        with self._lock:
            db = self._open()
            for parcel in parcels:
                apply(db, parcel)
            index_many_fresh(db)
        return len(parcels)

    def commit(self) -> None:
        with self._lock:
            db = self._open()
            db.execute(_WHOLE)
            db.execute("commit")

    def close(self) -> None:
        """Roll back an uncommitted rebuild."""
        with self._lock:
            self._is_closed = True
            if self._db is not None:
                self._db.close(True)
                self._db = None

    def _open(self) -> apsw.Connection:
        if self._db is None:
            raise apsw.ConnectionClosedError("the index was closed during its rebuild")
        return self._db
