"""Write a log that is found at start once more, before anything is committed behind it.

A sync that failed may have dropped pages from the disk while the system still shows them: the next process
reads a log that looks whole, commits behind the hole, and a power loss then ends the log at the hole. No
later sync repairs it, since the pages count as clean. Writing the same bytes again makes them dirty again.

Only the first process to open the file needs to: it reads the log from the disk, while others share what a
living process knows to be committed. After a clean end there is no log and nothing to do.
"""

from pathlib import Path

import apsw

from holdfast.store.encryption.databases import CIPHER_LAYER
from holdfast.store.sqlite.connection import close_untouched, connect
from holdfast.store.sqlite.faults import translate

CHUNK_BYTES = 1 << 16  # SQLite's own file layer writes at most 131,071 bytes at a time


def log_bytes(db: apsw.Connection) -> int:
    """The size of the log as it is found."""
    log = _open_log(db)
    try:
        return log.xFileSize()
    finally:
        log.xClose()


def rewrite_log(path: Path | str, vfs: str | None = None, key: bytes | None = None) -> None:
    """Make every byte of the log durable, unless somebody else has the database open.

    The exclusive lock is what shows that nobody has, and keeps others waiting until it is done.
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
    # Through SQLite's own file layer. It holds no locks on the log, so closing this handle drops none.
    # Below the layer that encrypts: the bytes are written again as they are.
    layer = db.open_vfs.removeprefix(CIPHER_LAYER)
    return apsw.VFSFile(layer, db.filename_wal, [apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_WAL, 0])
