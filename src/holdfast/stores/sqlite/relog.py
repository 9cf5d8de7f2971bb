"""Write a log that is found at start once more, before anything is committed behind it.

A sync that failed may have dropped pages from the disk while the system still shows them: the next process
reads a log that looks whole, commits behind the hole, and a power loss then ends the log at the hole. No
later sync repairs it, since the pages count as clean. Writing the same bytes again makes them dirty again.

It happens under the write lock, so no other process adds to the log or begins it anew meanwhile. After a
clean end there is no log and nothing to do.
"""

import apsw

CHUNK_BYTES = (
    1 << 16
)  # SQLite's unix layer takes no more than 131,071 bytes in one write, and calls the rest a full disk


def rewrite_log(db: apsw.Connection) -> None:
    """Make every byte of the log durable that this process may come to rely on."""
    db.execute("begin immediate")
    try:
        _rewrite(db.open_vfs, db.filename_wal)
    finally:
        db.execute("rollback")


def _rewrite(vfs: str, name: str) -> None:
    # Through SQLite's own file layer. It holds no locks on the log, so closing this handle drops none.
    log = apsw.VFSFile(vfs, name, [apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_WAL, 0])
    try:
        size = log.xFileSize()
        for offset in range(0, size, CHUNK_BYTES):
            log.xWrite(log.xRead(min(CHUNK_BYTES, size - offset), offset), offset)
        if size:
            log.xSync(apsw.SQLITE_SYNC_FULL)
    finally:
        log.xClose()
