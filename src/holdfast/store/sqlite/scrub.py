"""Removes every byte of blanked content from the files of a database.

SQLite leaves old bytes in freed cells, in split pages, on the free list and in the WAL. `secure_delete` overwrites
deleted cells, but not the copies left by a page split, nor cells freed before it was set. VACUUM does remove them: the
new pages contain only present rows. A checkpoint then truncates the WAL. A scrub copies the whole database, so one
scrub serves many forget requests.
"""

import apsw

from holdfast.kernel.errors import StoreUnavailable
from holdfast.store.sqlite.connection import pragma

IN_MEMORY_BYTES_MAX = 64 * 1024 * 1024  # a larger copy goes to a temporary file, which the system removes on close
RECEIPT = "the database was written anew and its log emptied; backups and copies of the disk are yours to erase"


def scrub(db: apsw.Connection) -> str:
    """Vacuum the database and truncate its WAL; returns the receipt.

    Raises `StoreUnavailable` while a reader pins the WAL, and `apsw.Error`. It may be repeated at any time.
    """
    size = int(pragma(db, "page_count")) * int(pragma(db, "page_size"))
    db.execute(f"pragma temp_store={'memory' if size <= IN_MEMORY_BYTES_MAX else 'file'}")
    try:
        db.execute("vacuum")
    finally:
        db.execute("pragma temp_store=memory")
    try:
        busy = db.execute("pragma wal_checkpoint(truncate)").fetchall()[0][0]
    except apsw.BusyError as error:
        raise StoreUnavailable("scrub: another process moves the log") from error
    if busy:
        raise StoreUnavailable("scrub: somebody still reads from the log")
    return RECEIPT
