"""Opens one connection: refuses unsafe engines and foreign files, then sets every pragma.

Rule 1: the order matters. `busy_timeout` is the first pragma; `synchronous=EXTRA` comes before
        `journal_mode=WAL`, so that the directory entry of the WAL is durable with its first commit.
Rule 2: only SQLite opens and closes a live database file: closing any descriptor of a file drops all POSIX
        locks that this process holds on it.
Rule 3: a foreign file is refused before the first pragma that could write to it.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from holdfast.kernel.errors import EngineUnsafe, StorePathInvalid, StoreReadOnly
from holdfast.store.encryption.databases import unlock
from holdfast.store.sqlite.faults import translate
from holdfast.store.sqlite.path import check_path, create_private

SQLITE_SAFE_FROM = (3, 51, 3)
SQLITE_SAFE_PATCHES = frozenset({(3, 50, 7), (3, 44, 6)})  # branches with the fix of the WAL-reset bug
APPLICATION_ID = 0x484F4C44  # "HOLD"
BUSY_TIMEOUT_MS = 5_000
PAGE_BYTES = 4_096
CACHE_KIB = 16_384
STATEMENTS_CACHED_MAX = 512

_opening = threading.Lock()  # a new file is created and closed before another thread can lock it (rule 2)


def open_connection(
    path: Path | str,
    *,
    vfs: str | None = None,
    readonly: bool = False,
    synchronous: str = "extra",
    exclusive: bool = False,
    key: bytes | None = None,
) -> apsw.Connection:
    """Open a connection to a file of Holdfast or to a new one, and set every pragma. A `key` encrypts the file.

    `readonly` refuses writes and never creates a file. `synchronous` may be weakened only where a power
    loss is not part of the model (the simulator). `exclusive` keeps the WAL index in memory, for a `vfs`
    without shared memory. Raises `EngineUnsafe`, `StorePathInvalid`, `StoreReadOnly`, `StoreFull`,
    `StoreCorrupt` or `StoreUnavailable`; the file is then unchanged.
    """
    refuse_unsafe_engine(apsw.sqlite_lib_version())
    db = connect(str(path), vfs, key) if vfs else _connect_to_file(Path(path), key, readonly=readonly)
    with closed_on_error(db, path):
        _prepare(db, str(path), synchronous, exclusive)
        if readonly:
            db.execute("pragma query_only=on")
    return db


@contextmanager
def closed_on_error(db: apsw.Connection, path: Path | str) -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        meant = translate(error, f"opening {path}", db)
        close_untouched(db)
        raise meant from error
    except BaseException:
        close_untouched(db)
        raise


def refuse_unsafe_engine(version: str) -> None:
    """Raise `EngineUnsafe` for a SQLite with the WAL-reset bug (3.7.0 to 3.51.2, with exceptions)."""
    parts = tuple(int(part) for part in version.split(".")[:3])
    if parts < SQLITE_SAFE_FROM and parts not in SQLITE_SAFE_PATCHES:
        raise EngineUnsafe(f"SQLite {version} can corrupt databases in WAL mode; 3.51.3 or later is needed")


def close_untouched(db: apsw.Connection) -> None:
    """Close without a checkpoint: the WAL and the main file keep their bytes."""
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    db.close(True)


def pragma(db: apsw.Connection, name: str) -> Any:  # noqa: ANN401
    """The value of a pragma."""
    return next(iter(db.execute(f"pragma {name}")))[0]


def _connect_to_file(path: Path, key: bytes | None, *, readonly: bool) -> apsw.Connection:
    with _opening:
        check_path(path, readonly=readonly)
        if not readonly:
            create_private(path)
        return connect(str(path), None, key)


def connect(name: str, vfs: str | None, key: bytes | None = None) -> apsw.Connection:
    """Open a connection with the key set and no pragma."""
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if vfs else 0)
    try:
        db = apsw.Connection(name, flags=flags, vfs=vfs, statementcachesize=STATEMENTS_CACHED_MAX)
    except apsw.Error as error:
        raise translate(error, f"opening {name}") from error
    if key is not None:
        unlock(db, key)
    return db


def _prepare(db: apsw.Connection, path: str, synchronous: str, exclusive: bool) -> None:
    db.execute(f"pragma busy_timeout={BUSY_TIMEOUT_MS}")
    # Query plans must not depend on bound values; otherwise SQLite recompiles a statement each time it runs.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    if db.readonly("main"):  # SQLite falls back to read-only access without write permission
        raise StoreReadOnly(f"{path} cannot be written", path=path)
    if exclusive:
        db.execute("pragma locking_mode=exclusive")
    _refuse_foreign(db, path)
    db.execute(f"pragma page_size={PAGE_BYTES}")
    db.execute(f"pragma synchronous={synchronous}")
    mode = pragma(db, "journal_mode=wal")
    if mode != "wal":
        raise StorePathInvalid(f"{path} is on a file system without shared memory ({mode})", path=path)
    db.execute("pragma wal_autocheckpoint=0")  # the checkpointer does it, off the commit path
    db.execute("pragma foreign_keys=off")
    db.execute("pragma trusted_schema=off")
    db.execute("pragma temp_store=memory")
    db.execute(f"pragma cache_size=-{CACHE_KIB}")
    if sys.platform == "darwin":
        db.execute("pragma fullfsync=on")
        db.execute("pragma checkpoint_fullfsync=on")


def _refuse_foreign(db: apsw.Connection, path: str) -> None:
    tables = db.execute("select count(*) from sqlite_schema").fetchall()[0][0]
    found = pragma(db, "application_id")
    if found != APPLICATION_ID and (found or tables):
        raise StorePathInvalid(f"{path} is not a Holdfast database", path=path, application_id=found)
