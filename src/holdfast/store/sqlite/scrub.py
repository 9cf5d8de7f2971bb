"""Leave no byte of what was blanked in the files of a database.

SQLite leaves old bytes where rows were: in freed cells, in pages that were split, on the free list, in the log.
Overwriting as it deletes (`secure_delete`) does not reach copies that a page left behind when it was split, nor what
was freed before. Writing the database anew does: only what is there now is in the new pages. The log is then moved and
cut to nothing. It costs a copy of the database, so it is done for many requests at once.
"""

import apsw

from holdfast.kernel.errors import StoreUnavailable
from holdfast.store.sqlite.connection import pragma

IN_MEMORY_BYTES_MAX = 64 * 1024 * 1024  # a larger copy is made in a file that the system removes when it is closed
RECEIPT = "the database was written anew and its log emptied; backups and copies of the disk are yours to erase"


def scrub(db: apsw.Connection) -> str:
    """Write the database anew and empty its log; a sentence to keep as the receipt.

    Raises `StoreUnavailable` while a reader holds on to the log, and `apsw.Error`. It may be repeated at any time.
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
