"""Opens a writable connection at a path: checks the file, rewrites a leftover WAL and migrates the schema.

A failed sync may have dropped pages from the disk while the system's cache still shows them: the next process
reads a WAL that looks complete and commits after the hole, and a power loss then ends the WAL at the hole. No
later sync repairs it, since the pages count as clean. So a WAL found at start is written again, before any commit
appends to it: writing the same bytes makes them dirty.

Only the first process to open the file rewrites the WAL: it reads the WAL from the disk, while later processes share
the state of a live one. After a clean shutdown there is no WAL.
"""

from functools import partial
from pathlib import Path

import apsw

from holdfast.store.encryption.databases import CIPHER_LAYER
from holdfast.store.sqlite.connection import close_untouched, closed_on_error, connect, open_connection
from holdfast.store.sqlite.faults import translate
from holdfast.store.sqlite.migrate import Migrations, load_migrations, migrate, refuse_newer

CHUNK_BYTES = 1 << 16  # SQLite's VFS writes at most 131,071 bytes at a time


def open_ready(
    path: Path | str,
    migrations: Migrations | None = None,
    *,
    vfs: str | None = None,
    synchronous: str = "extra",
    exclusive: bool = False,
    key: bytes | None = None,
) -> apsw.Connection:
    """Open the first connection of a process. A refused file is unchanged; see `open_connection` and `migrate`."""
    steps = load_migrations() if migrations is None else migrations
    start = partial(open_connection, path, vfs=vfs, synchronous=synchronous, exclusive=exclusive, key=key)
    db = start()
    with closed_on_error(db, path):
        refuse_newer(db, path, len(steps))
        log_found = synchronous != "off" and log_bytes(db) > 0  # with "off" a power loss is not part of the model
    if log_found:
        close_untouched(db)  # so that only another process can have the file open
        rewrite_log(path, vfs, key)
        db = start()
    with closed_on_error(db, path):
        migrate(db, path, steps)
    return db


def log_bytes(db: apsw.Connection) -> int:
    """The size of the WAL at start."""
    log = _open_log(db)
    try:
        return log.xFileSize()
    finally:
        log.xClose()


def rewrite_log(path: Path | str, vfs: str | None = None, key: bytes | None = None) -> None:
    """Make every byte of the WAL durable, unless another process has the database open.

    An exclusive lock proves that no other process has it open, and blocks others until the rewrite is done.
    """
    db = connect(str(path), vfs, key)
    try:
        db.set_busy_timeout(0)
        db.execute("pragma locking_mode=exclusive")
        db.execute("begin immediate")
        _rewrite(db)
    except apsw.BusyError:
        return
    except apsw.Error as error:
        raise translate(error, f"opening {path}", db) from error
    finally:
        close_untouched(db)


def _rewrite(db: apsw.Connection) -> None:
    log = _open_log(db)
    try:
        size = log.xFileSize()
        for offset in range(0, size, CHUNK_BYTES):
            log.xWrite(log.xRead(min(CHUNK_BYTES, size - offset), offset), offset)
        log.xSync(apsw.SQLITE_SYNC_FULL)
    finally:
        log.xClose()


def _open_log(db: apsw.Connection) -> apsw.VFSFile:
    # Through SQLite's VFS, which holds no locks on the WAL, so closing this handle drops none. The VFS is the one below
    # the encrypting layer, so the bytes are written back unchanged.
    layer = db.open_vfs.removeprefix(CIPHER_LAYER)
    return apsw.VFSFile(layer, db.filename_wal, [apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_WAL, 0])
