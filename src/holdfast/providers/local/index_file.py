"""The index file: opening it safely, setting it aside if it is damaged, refusing it if it is not ours.

Rule 1: an acknowledged line survives a power loss: `synchronous=EXTRA` is set before `journal_mode=WAL`. The cursor of
        the delivery has moved past the line, so a lost line would never be sent again.
Rule 2: deleted text is overwritten (`secure_delete`).
Rule 3: a file of another program, or of a newer release, stays unchanged; one of an older release is upgraded. A
        damaged file is renamed and replaced by an empty one. Every new file is marked `needs_rebuild`: only the journal
        knows whether there were deliveries before.
Rule 4: a file that is moved or deleted while it is open is detected before the next delivery.
Rule 5: an upgrade is one transaction, in place: the old index holds everything that the new version needs. An
        interrupted upgrade leaves the old index.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import apsw

from holdfast.kernel.files import FULL, NO_SPACE, is_out_of_space, make_private_folder
from holdfast.providers.local.index_writer import index_fresh, likeness
from holdfast.store.encryption.databases import unlock
from holdfast.store.sqlite.connection import refuse_unsafe_engine

NAME = "recall.db"
APPLICATION_ID = 0x484F4C49  # "HOLI"
VERSION = 5  # of the schema, of the tokenizer and stemmer, and of the scopes
BUSY_TIMEOUT_MS = 5_000
CACHE_KIB = 16_384
DAMAGE = (apsw.CorruptError, apsw.NotADBError)


class ForeignIndex(Exception):
    """The file is not an index of ours, or is of a newer release; it stays unchanged."""


class IndexDamaged(Exception):
    """The index is damaged, and may be rebuilt."""


class IndexDiskFull(Exception):
    """The disk has no space left for the index; the file stays unchanged."""


def out_of_space(error: BaseException, db: apsw.Connection) -> IndexDiskFull | None:
    """`IndexDiskFull` if a full disk caused an error of `db`, which must still be open.

    SQLite reports a full disk as an I/O error if it cannot create or grow the log's index.
    """
    is_full = isinstance(error, apsw.IOError | apsw.CantOpenError) and db.system_errno in NO_SPACE
    return IndexDiskFull(FULL) if is_full else None


def why(error: Exception, db: apsw.Connection | None = None) -> str:
    """The reason of an error. `db` is the connection that raised it, if it is still open."""
    if isinstance(error, apsw.FullError) or is_out_of_space(error) or (db is not None and out_of_space(error, db)):
        return FULL
    return str(error)


def open_writer(folder: Path, key: bytes | None = None) -> apsw.Connection:
    """The index, created if it does not exist.

    Raises `EngineUnsafe`, `ForeignIndex`, `IndexDamaged`, `IndexDiskFull`, `apsw.Error`, `OSError`.
    """
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
            _upgrade(db)
        if _version(db) < VERSION:
            raise IndexDamaged("it was made by a release that is no longer supported")  # noqa: TRY301 - closed below
    except BaseException as error:
        _close_failed(db, error)
        raise
    return db


def _close_failed(db: apsw.Connection, error: BaseException) -> None:
    """Close a connection that failed to open. Raises `IndexDiskFull` instead of the error if the disk is full."""
    full = out_of_space(error, db)
    db.close(True)
    if full is not None:
        raise full from error


def open_reader(folder: Path, key: bytes | None = None) -> apsw.Connection | None:
    """The index for queries, or None if it does not exist yet. Raises the errors of `open_writer`; creates nothing."""
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
        return _upgraded(folder, key) if version else None  # another process is creating a file without a version
    return db


def _upgraded(folder: Path, key: bytes | None) -> apsw.Connection | None:
    try:
        open_writer(folder, key).close(True)
    except IndexDamaged:
        return None  # the next delivery sets it aside
    return open_reader(folder, key)


def set_aside(folder: Path, now: int) -> None:
    """Rename a damaged index, and delete an earlier one that was set aside."""
    forget_set_aside(folder)
    for suffix in ("-shm", "-wal", ""):
        path = folder / f"{NAME}{suffix}"
        if path.exists():
            path.rename(folder / f"{NAME}.damaged-{now}{suffix}")


def forget_set_aside(folder: Path) -> None:
    """Delete indexes that were set aside: they hold people's words."""
    for path in folder.glob(f"{NAME}.damaged-*"):
        path.unlink(missing_ok=True)


def identity(folder: Path) -> tuple[int, int] | None:
    """Device and inode of the file at the path."""
    try:
        found = (folder / NAME).stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _opened(path: Path, key: bytes | None) -> apsw.Connection:
    refuse_unsafe_engine(apsw.sqlite_lib_version())
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        if key is not None:
            unlock(db, key)
        _prepare(db, path)
    except DAMAGE as error:
        db.close(True)
        raise IndexDamaged(str(error)) from error
    except BaseException as error:
        _close_failed(db, error)
        raise
    return db


def _prepare(db: apsw.Connection, path: Path) -> None:
    db.execute(f"pragma busy_timeout={BUSY_TIMEOUT_MS}")
    (tables,) = next(db.execute("select count(*) from sqlite_schema"))
    found = db.pragma("application_id")
    if found != APPLICATION_ID and (found or tables):
        raise ForeignIndex(f"{path} is a database of another program")
    if _version(db) > VERSION:
        raise ForeignIndex(f"{path} was written by a newer Holdfast")
    db.execute("pragma trusted_schema=off")
    db.execute("pragma temp_store=memory")
    db.execute(f"pragma cache_size=-{CACHE_KIB}")
    if sys.platform == "darwin":
        db.execute("pragma fullfsync=on")
        db.execute("pragma checkpoint_fullfsync=on")


@contextmanager
def _transaction(db: apsw.Connection) -> Iterator[None]:
    db.execute("begin immediate")
    try:
        yield
        db.execute("commit")
    except apsw.Error:
        if db.in_transaction:
            db.execute("rollback")
        raise


def _make(db: apsw.Connection, *, needs_rebuild: bool) -> None:
    with _transaction(db):
        if not _version(db):  # another process may have created it meanwhile
            db.execute(_schema())
            db.execute("insert into state values ('needs_rebuild', ?)", (int(needs_rebuild),))
            db.execute(f"pragma application_id={APPLICATION_ID}")
            db.execute(f"pragma user_version={VERSION}")


def _schema() -> str:
    return files("holdfast.providers.local").joinpath("schema.sql").read_text(encoding="utf-8")


def _version(db: apsw.Connection) -> int:
    return int(db.pragma("user_version"))


def _create_private(path: Path) -> bool:
    """Create an empty file that only its owner can read; False if a file exists."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return False  # opening a file in use here would drop the locks of this process
    return True


# --- upgrades ---------------------------------------------------------------------------------------

# Notes were stored without their owner, which the journal knows. They are deleted, and the index is rebuilt from it.
_BEFORE_3 = """
update state set value = 1 where name = 'needs_rebuild' and exists (select 1 from line where kind = 'note');
delete from words where rowid in (select id from line where kind = 'note');
delete from line where kind = 'note';
"""
# Lines were numbered one by one, and FTS5 kept their words. Scenes keep their numbers.
_ASIDE = """
drop index if exists line_by_scene;
drop index if exists line_by_session;
drop index if exists line_by_principal;
drop index if exists line_by_voice;
drop index if exists voice_by_speaker;
alter table line rename to line_3;
alter table voice rename to voice_3;
alter table unit rename to unit_3;
alter table state rename to state_3;
alter table words rename to words_3;
"""
_TO_4 = """
insert into line
  select scene << 7 | position, delivery, seq, kind, agent, session, address, in_group, principal, speaker, target,
         turn, at, size, asks, dated, ' ' || words_3.stems || ' ', 0
    from line_3 join words_3 on words_3.rowid = line_3.id;
insert into body select scene << 7 | position, body from line_3;
insert into voice select * from voice_3;
insert into unit select * from unit_3;
insert into state select * from state_3;
insert into fresh select id from line;
drop table line_3;
drop table voice_3;
drop table unit_3;
drop table state_3;
drop table words_3;
"""
_TO_5 = """
alter table line add column likeness integer not null default 0;
create index line_likeness on line (id, likeness);
"""


def _upgrade(db: apsw.Connection) -> None:
    """From every earlier version; a second process finds it done. An `apsw.Error` leaves the index unchanged."""
    with _transaction(db):
        version = _version(db)
        if version in (1, 2):
            db.execute(_BEFORE_3)
        if version in (1, 2, 3):
            db.execute(_ASIDE)
            db.execute(_schema())
            db.execute(_TO_4)
            index_fresh(db)
        if version == 4:
            db.execute(_TO_5)
        if version in (1, 2, 3, 4):
            db.create_scalar_function("likeness", cast("Any", likeness), 3, deterministic=True)
            db.execute("update line set likeness = likeness(stems, asks, speaker)")
            db.execute(f"pragma user_version={VERSION}")
