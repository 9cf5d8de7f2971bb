"""SQLite's errors in our words: the one place that knows what each of them means to a caller.

A fault of the disk or of the lock dooms the whole batch it happens in, since SQLite may have rolled all of
it back. Any other error is the script's own (a constraint it should have checked, SQL it should not have
written) and concerns that script alone.
"""

import apsw

from holdfast.core.errors import (
    HoldfastError,
    InvariantBroken,
    StoreBroken,
    StoreCorrupt,
    StoreFull,
    StorePathInvalid,
    StoreReadOnly,
    StoreUnavailable,
)

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
    (apsw.FullError, StoreFull, "no space is left on the disk"),
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


def translate(error: BaseException, doing: str) -> HoldfastError:
    """What an error met while `doing` something means; an error nobody foresaw is our bug."""
    for foreign, ours, sentence in MEANING:
        if isinstance(error, foreign):
            return _caused(ours(f"{doing}: {sentence} ({error})", doing=doing), error)
    return _caused(InvariantBroken(f"{doing}: {type(error).__name__}: {error}", doing=doing), error)


def broken_by(error: BaseException, doing: str) -> HoldfastError:
    """What a failed COMMIT means unless the disk was full: nobody can say whether it happened."""
    return _caused(StoreBroken(f"{doing}: the commit failed ({error})", doing=doing), error)


def _caused(ours: HoldfastError, error: BaseException) -> HoldfastError:
    ours.__cause__ = error  # as `raise ours from error` would; the raising happens in the caller's task
    return ours
