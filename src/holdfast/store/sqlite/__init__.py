"""SQLite: scripts in group commits on a local file."""

from holdfast.store.sqlite.connection import open_connection
from holdfast.store.sqlite.migrate import migrate
from holdfast.store.sqlite.owner import OwnerLock
from holdfast.store.sqlite.writer import ThreadedDatabase

__all__ = ["OwnerLock", "ThreadedDatabase", "migrate", "open_connection"]
