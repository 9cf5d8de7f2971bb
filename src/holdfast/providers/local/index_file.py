"""The index file: opened safely, set aside when it is damaged, refused when it is not ours.

Rule 1: what is acknowledged survives a power loss: `synchronous=EXTRA` comes before `journal_mode=WAL`. The courier's
        mark has moved past it, so a line that vanished here would never be sent again.
Rule 2: what is deleted is overwritten (`secure_delete`, and FTS5's own).
Rule 3: a file of another program, or of a newer release, keeps its bytes; one of an older release is brought up to
        date. A damaged one is kept under another name and an empty one takes its place. Every new one says that it has
        to be filled: whether something was delivered before, the journal knows.
Rule 4: a file that is moved or deleted while it is open is noticed before the next delivery.
"""

import os
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import apsw

from holdfast.kernel.disk_space import FULL, NO_SPACE, is_out_of_space
from holdfast.kernel.folders import make_private_folder
from holdfast.providers.local.upgrade import upgrade
from holdfast.store.encryption.databases import unlock

NAME = "recall.db"
APPLICATION_ID = 0x484F4C49  # "HOLI"
VERSION = 3  # of the schema, of how texts are cut into stems, and of what scopes.py makes of a line
SQLITE_SAFE_FROM = (3, 51, 3)  # earlier ones can lose a reset log
BUSY_TIMEOUT_MS = 5_000
CACHE_KIB = 16_384
DAMAGE = (apsw.CorruptError, apsw.NotADBError)


class NotOurs(Exception):
    """The file at the path is no index of ours, or of a newer release; it keeps its bytes."""


class Damaged(Exception):
    """The index cannot be used as it is, and may be made again."""


class Full(Exception):
    """No space is left on the disk for the index; the file keeps its bytes."""


def out_of_space(error: BaseException, db: apsw.Connection) -> Full | None:
    """`Full` where a full disk is behind an error that `db` met; to be asked while `db` is open.

    SQLite tells a full disk as an I/O error where it cannot make or grow the log's index.
    """
    is_full = isinstance(error, apsw.IOError | apsw.CantOpenError) and db.system_errno in NO_SPACE
    return Full(FULL) if is_full else None


def why(error: Exception, db: apsw.Connection | None = None) -> str:
    """What went wrong, for a reason. `db` is the connection that met the error, while it is open."""
    if isinstance(error, apsw.FullError) or is_out_of_space(error) or (db is not None and out_of_space(error, db)):
        return FULL
    return str(error)


def open_writer(folder: Path, key: bytes | None = None) -> apsw.Connection:
    """The index, made when there is none. Raises `NotOurs`, `Damaged`, `Full`, `apsw.Error`, `OSError`."""
    path = folder / NAME
    make_private_folder(folder)
    is_new = _create_private(path)
    db = _opened(path, key)
    try:
        db.execute("pragma synchronous=extra")
        db.execute("pragma secure_delete=on")
        db.execute("pragma journal_mode=wal")
        if is_new or not _version(db):
            _make(db, needs_rebuild=is_new)
        if _version(db) < VERSION:
            upgrade(db)
        if _version(db) < VERSION:
            raise Damaged("it was made by a release that is not known any more")  # noqa: TRY301 - closed below
    except BaseException as error:
        _close_failed(db, error)
        raise
    return db


def _close_failed(db: apsw.Connection, error: BaseException) -> None:
    """Close what could not be opened. Raises `Full` in place of the error where the disk is full."""
    full = out_of_space(error, db)
    db.close(True)
    if full is not None:
        raise full from error


def open_reader(folder: Path, key: bytes | None = None) -> apsw.Connection | None:
    """The index for questions, or None when there is none yet. Raises as `open_writer` does; makes nothing."""
    path = folder / NAME
    if not path.is_file():
        return None
    db = _opened(path, key)
    try:
        version = _version(db)
        db.execute("pragma query_only=on")
    except BaseException as error:
        _close_failed(db, error)
        raise
    if version < VERSION:
        db.close(True)
        return _brought_up_to_date(folder, key) if version else None  # without a version it is just being made
    return db


def _brought_up_to_date(folder: Path, key: bytes | None) -> apsw.Connection | None:
    try:
        open_writer(folder, key).close(True)
    except Damaged:
        return None  # whoever writes next sets it aside
    return open_reader(folder, key)


def rows(db: apsw.Connection, sql: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
    """All rows of a question."""
    return db.execute(sql, values).fetchall()


def set_aside(folder: Path, now: int) -> None:
    """Keep a damaged index under another name; an earlier one that was kept goes."""
    forget_set_aside(folder)
    for suffix in ("-shm", "-wal", ""):
        path = folder / f"{NAME}{suffix}"
        if path.exists():
            path.rename(folder / f"{NAME}.damaged-{now}{suffix}")


def forget_set_aside(folder: Path) -> None:
    """Delete what was set aside: it holds people's words."""
    for path in folder.glob(f"{NAME}.damaged-*"):
        path.unlink(missing_ok=True)


def identity(folder: Path) -> tuple[int, int] | None:
    """Which file the path leads to."""
    try:
        found = (folder / NAME).stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _opened(path: Path, key: bytes | None) -> apsw.Connection:
    version = apsw.sqlite_lib_version()
    if tuple(int(part) for part in version.split(".")[:3]) < SQLITE_SAFE_FROM:
        raise NotOurs(f"SQLite {version} can corrupt databases; 3.51.3 or later is needed")
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        unlock(db, key)
        _prepare(db, path)
    except DAMAGE as error:
        db.close(True)
        raise Damaged(str(error)) from error
    except BaseException as error:
        _close_failed(db, error)
        raise
    return db


def _prepare(db: apsw.Connection, path: Path) -> None:
    db.execute(f"pragma busy_timeout={BUSY_TIMEOUT_MS}")
    tables = rows(db, "select count(*) from sqlite_schema")[0][0]
    found = db.pragma("application_id")
    if found != APPLICATION_ID and (found or tables):
        raise NotOurs(f"{path} is a database of another program")
    if _version(db) > VERSION:
        raise NotOurs(f"{path} was written by a newer Holdfast")
    db.execute("pragma trusted_schema=off")
    db.execute("pragma temp_store=memory")
    db.execute(f"pragma cache_size=-{CACHE_KIB}")
    if sys.platform == "darwin":
        db.execute("pragma fullfsync=on")
        db.execute("pragma checkpoint_fullfsync=on")


def _make(db: apsw.Connection, *, needs_rebuild: bool) -> None:
    schema = files("holdfast.providers.local").joinpath("schema.sql").read_text(encoding="utf-8")
    db.execute("begin immediate")
    try:
        if not _version(db):  # another process may have made it meanwhile
            db.execute(schema)
            db.execute("insert into state values ('needs_rebuild', ?)", (int(needs_rebuild),))
            db.execute(f"pragma application_id={APPLICATION_ID}")
            db.execute(f"pragma user_version={VERSION}")
        db.execute("commit")
    except apsw.Error:
        if db.in_transaction:
            db.execute("rollback")
        raise


def _version(db: apsw.Connection) -> int:
    return int(db.pragma("user_version"))


def _create_private(path: Path) -> bool:
    """Make an empty file that only its owner can read, unless there is one; whether it was made."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return False  # it may be live: opening it here would drop the locks of this process
    return True
