"""SQLite's errors in our words: the one place that knows what each of them means to a caller.

A fault of the disk or of the lock dooms the whole batch it happens in, since SQLite may have rolled all of
it back. Any other error is the script's own (a constraint it should have checked, SQL it should not have
written) and concerns that script alone.

SQLite tells a full disk as FULL when it writes to the database or its log. When it cannot make or grow the log's index,
or a file that it needs beside the database, it tells an I/O error or a file that cannot be opened: the connection then
knows what the system said.
"""

from pathlib import Path

import apsw

from holdfast.kernel.disk_space import FULL, NO_SPACE
from holdfast.kernel.errors import (
    HoldfastError,
    InvariantBroken,
    StoreBroken,
    StoreCorrupt,
    StoreFull,
    StorePathInvalid,
    StoreReadOnly,
    StoreUnavailable,
)
from holdfast.store.sqlite.path import has_space

STORAGE_FAULTS = (
    apsw.AbortError,
    apsw.BusyError,
    apsw.CantOpenError,
    apsw.CorruptError,
    apsw.FullError,
    apsw.InterruptError,
    apsw.IOError,
    apsw.LockedError,
    apsw.NoMemError,
    apsw.NotADBError,
    apsw.ProtocolError,
    apsw.ReadOnlyError,
)

MEANING: tuple[tuple[type[apsw.Error], type[HoldfastError], str], ...] = (
    (apsw.BusyError, StoreUnavailable, "another process held the database for too long"),
    (apsw.LockedError, StoreUnavailable, "another connection held the database for too long"),
    (apsw.ProtocolError, StoreUnavailable, "other processes kept the database's lock from us"),
    (apsw.ReadOnlyError, StoreReadOnly, "the database cannot be written"),
    (apsw.PermissionsError, StoreReadOnly, "the database may not be accessed"),
    (apsw.CantOpenError, StorePathInvalid, "a file of the database could not be opened"),
    (apsw.CorruptError, StoreCorrupt, "the database is damaged"),
    (apsw.NotADBError, StoreCorrupt, "the file is no SQLite database, or its first page is damaged"),
    (apsw.IOError, StoreUnavailable, "the disk reported an error"),
    (apsw.AbortError, StoreUnavailable, "SQLite ended the transaction"),
    (apsw.NoMemError, StoreUnavailable, "memory ran out"),
    (apsw.InterruptError, StoreUnavailable, "the statement was interrupted"),
)


def is_full(error: BaseException, db: apsw.Connection | None) -> bool:
    """Whether the disk is full. `db` is the connection that met the error.

    Where SQLite cannot make a log and its index it may tell no more than that a file cannot be opened, without what the
    system said: the disk itself is asked then.
    """
    if not isinstance(error, apsw.IOError | apsw.CantOpenError) or db is None:
        return isinstance(error, apsw.FullError)
    if db.system_errno in NO_SPACE:
        return True
    return isinstance(error, apsw.CantOpenError) and not has_space(Path(db.filename).parent)


def translate(error: BaseException, doing: str, db: apsw.Connection | None = None) -> HoldfastError:
    """What an error that `db` met while `doing` something means; an error of any other kind is our bug."""
    if is_full(error, db):
        return _caused(StoreFull(f"{doing}: {FULL} ({error})", doing=doing), error)
    for foreign, ours, sentence in MEANING:
        if isinstance(error, foreign):
            return _caused(ours(f"{doing}: {sentence} ({error})", doing=doing), error)
    return _caused(InvariantBroken(f"{doing}: {type(error).__name__}: {error}", doing=doing), error)


def broken_by(error: BaseException, doing: str, db: apsw.Connection | None = None) -> HoldfastError:
    """What a failed COMMIT means unless SQLite told FULL and rolled it back: its outcome is unknown.

    A disk that is full is named here too: the log may hold the whole transaction while its index could not grow.
    """
    why = f"{FULL}, {error}" if is_full(error, db) else str(error)
    return _caused(StoreBroken(f"{doing}: the commit failed ({why})", doing=doing), error)


def _caused(ours: HoldfastError, error: BaseException) -> HoldfastError:
    ours.__cause__ = error  # as `raise ours from error` would; the raising happens in the caller's task
    return ours
