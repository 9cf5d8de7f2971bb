"""Translates SQLite's errors. No other module interprets them.

A fault of the disk or of the lock fails its whole batch, since SQLite may have rolled back the transaction. Damaged
pages fail the scripts that read them.
Any other error is a bug of the script (a constraint it should have checked, invalid SQL) and fails that
script alone.

SQLite reports a full disk as FULL when it writes to the database or its WAL. When it cannot create or grow the WAL
index or a temporary file, it reports IOERR or CANTOPEN; the connection then has the system's error number.
"""

from pathlib import Path

import apsw

from holdfast.kernel import errors
from holdfast.kernel.files import FULL, NO_SPACE
from holdfast.store.sqlite.path import has_space

MEANING: tuple[tuple[type[apsw.Error], type[errors.HoldfastError], str], ...] = (
    (apsw.BusyError, errors.StoreUnavailable, "another process held the database for too long"),
    (apsw.LockedError, errors.StoreUnavailable, "another connection held the database for too long"),
    (apsw.ProtocolError, errors.StoreUnavailable, "other processes kept the database's lock from us"),
    (apsw.ReadOnlyError, errors.StoreReadOnly, "the database cannot be written"),
    (apsw.PermissionsError, errors.StoreReadOnly, "the database may not be accessed"),
    (apsw.CantOpenError, errors.StorePathInvalid, "a file of the database could not be opened"),
    (apsw.CorruptError, errors.StoreCorrupt, "the database is damaged"),
    (apsw.NotADBError, errors.StoreCorrupt, "the file is no SQLite database, or its first page is damaged"),
    (apsw.IOError, errors.StoreUnavailable, "the disk reported an error"),
    (apsw.AbortError, errors.StoreUnavailable, "SQLite ended the transaction"),
    (apsw.NoMemError, errors.StoreUnavailable, "memory ran out"),
    (apsw.InterruptError, errors.StoreUnavailable, "the statement was interrupted"),
)
STORAGE_FAULTS: tuple[type[apsw.Error], ...] = (apsw.FullError, *(foreign for foreign, _, _ in MEANING))


def is_full(error: BaseException, db: apsw.Connection | None) -> bool:
    """Whether the disk is full. `db` is the connection that raised the error.

    If SQLite cannot create a WAL and its index, it may report CANTOPEN without a system error number; then this probes
    the disk.
    """
    if not isinstance(error, apsw.IOError | apsw.CantOpenError) or db is None:
        return isinstance(error, apsw.FullError)
    if db.system_errno in NO_SPACE:
        return True
    return isinstance(error, apsw.CantOpenError) and not has_space(Path(db.filename).parent)


def translate(error: BaseException, doing: str, db: apsw.Connection | None = None) -> errors.HoldfastError:
    """Translate an error that `db` raised while `doing` something; an unknown kind of error is a bug."""
    if is_full(error, db):
        return _caused(errors.StoreFull(f"{doing}: {FULL} ({error})", doing=doing), error)
    for foreign, ours, sentence in MEANING:
        if isinstance(error, foreign):
            return _caused(ours(f"{doing}: {sentence} ({error})", doing=doing), error)
    return _caused(errors.InvariantBroken(f"{doing}: {type(error).__name__}: {error}", doing=doing), error)


def broken_by(error: BaseException, doing: str, db: apsw.Connection | None = None) -> errors.HoldfastError:
    """Translate the error of a failed COMMIT, whose outcome is unknown unless SQLite reported FULL and rolled back.

    A full disk is also reported here: the WAL may hold the whole transaction although its index could not grow.
    """
    why = f"{FULL}, {error}" if is_full(error, db) else str(error)
    return _caused(errors.StoreBroken(f"{doing}: the commit failed ({why})", doing=doing), error)


def _caused(ours: errors.HoldfastError, error: BaseException) -> errors.HoldfastError:
    ours.__cause__ = error  # as `raise ours from error` would; the caller's task raises it
    return ours
