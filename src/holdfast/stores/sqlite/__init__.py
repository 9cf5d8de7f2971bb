"""SQLite: scripts in group commits on a local file."""

from holdfast.stores.sqlite.connection import open_connection
from holdfast.stores.sqlite.inline import InlineDatabase
from holdfast.stores.sqlite.migrate import migrate
from holdfast.stores.sqlite.owner import OwnerLock
from holdfast.stores.sqlite.writer import ThreadedDatabase

__all__ = ["InlineDatabase", "OwnerLock", "ThreadedDatabase", "migrate", "open_connection"]
