"""Filling the index anew from the journal: one transaction, over as many visits as it takes.

Rule 1: whoever is stopped in the middle finds the index as it was, and its mark with it.
Rule 2: nobody else writes meanwhile, in this process or another. A parcel that came before what it undoes, replaces or
        forgets would do nothing, or too much: the order of the journal holds only while nobody comes in between.
Rule 3: each visit is made in a thread, one at a time. A visit that nobody waits for any more runs to its end before the
        transaction is given up.
"""

import threading
from collections.abc import Sequence
from pathlib import Path

import apsw

from holdfast.memory.delivery import Parcel
from holdfast.providers.local.index_file import open_writer
from holdfast.providers.local.writing import apply

_EMPTY = "delete from words; delete from line; delete from voice; delete from unit where not is_erased"
_WHOLE = "update state set value = 0 where name = 'needs_rebuild'"


class Filling:
    """Every method raises as `open_writer` does."""

    def __init__(self, folder: Path, key: bytes | None = None) -> None:
        self._folder = folder
        self._key = key
        self._visiting = threading.Lock()
        self._db: apsw.Connection | None = None
        self._is_over = False

    def begin(self) -> None:
        with self._visiting:
            if not self._is_over:
                self._db = open_writer(self._folder, self._key)
                self._db.execute("begin immediate")
                self._db.execute(_EMPTY)

    def take(self, parcels: Sequence[Parcel]) -> int:
        with self._visiting:
            db = self._open()
            for parcel in parcels:
                apply(db, parcel)
        return len(parcels)

    def commit(self) -> None:
        with self._visiting:
            db = self._open()
            db.execute(_WHOLE)
            db.execute("commit")

    def close(self) -> None:
        """Give up what is not committed."""
        with self._visiting:
            self._is_over = True
            if self._db is not None:
                self._db.close(True)
                self._db = None

    def _open(self) -> apsw.Connection:
        if self._db is None:
            raise apsw.ConnectionClosedError("it was closed while it was filled again")
        return self._db
