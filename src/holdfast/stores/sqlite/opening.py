"""From a path to a connection that may be written: checked, its log trusted, its schema up to date."""

from pathlib import Path

import apsw

from holdfast.stores.sqlite.connection import close_untouched, open_connection
from holdfast.stores.sqlite.faults import translate
from holdfast.stores.sqlite.migrate import Migrations, load_migrations, migrate, refuse_newer
from holdfast.stores.sqlite.relog import rewrite_log


def open_ready(
    path: Path | str,
    migrations: Migrations | None = None,
    *,
    vfs: str | None = None,
    synchronous: str = "extra",
    exclusive: bool = False,
) -> apsw.Connection:
    """The first connection of a process. What it refuses keeps its bytes; see `open_connection`, `migrate`."""
    db = open_connection(path, vfs=vfs, synchronous=synchronous, exclusive=exclusive)
    steps = load_migrations() if migrations is None else migrations
    try:
        refuse_newer(db, path, len(steps))
        if synchronous != "off":  # where a power loss is not part of the model no pages are lost
            rewrite_log(db)
        migrate(db, path, steps)
    except apsw.Error as error:
        close_untouched(db)
        raise translate(error, f"opening {path}") from error
    except BaseException:
        close_untouched(db)
        raise
    return db
