"""Opens a writable connection at a path: checks the file, rewrites a leftover WAL and migrates the schema."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import apsw

from holdfast.store.sqlite.connection import close_untouched, open_connection
from holdfast.store.sqlite.faults import translate
from holdfast.store.sqlite.migrate import Migrations, load_migrations, migrate, refuse_newer
from holdfast.store.sqlite.wal_rewrite import log_bytes, rewrite_log


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
    with _closed_on_error(db, path):
        refuse_newer(db, path, len(steps))
        log_found = synchronous != "off" and log_bytes(db) > 0  # with "off" a power loss is not part of the model
    if log_found:
        close_untouched(db)  # so that only another process can have the file open
        rewrite_log(path, vfs, key)
        db = start()
    with _closed_on_error(db, path):
        migrate(db, path, steps)
    return db


@contextmanager
def _closed_on_error(db: apsw.Connection, path: Path | str) -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        meant = translate(error, f"opening {path}", db)
        close_untouched(db)
        raise meant from error
    except BaseException:
        close_untouched(db)
        raise
