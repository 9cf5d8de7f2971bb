"""Migrates a database's schema, one transaction per step. Any process may do so at any time.

The steps are `store/schema/NNN_*.sql`, written once for both engines with type names that each engine maps
to its own types. `user_version` counts the applied steps. A database with more steps than this release
knows is refused and unchanged.
"""

import re
from functools import cache
from pathlib import Path
from typing import TypeAlias

import apsw

from holdfast.kernel.errors import StoreNewer
from holdfast.store.schema import read_steps
from holdfast.store.sqlite.connection import APPLICATION_ID, close_untouched, open_connection, pragma

Migrations: TypeAlias = tuple[str, ...]

SQLITE_WORDS = {"int8": "integer", "bytes": "blob", "float8": "real"}


@cache
def load_migrations() -> Migrations:
    """The schema steps of this release, in order, in SQLite's dialect."""
    return tuple(map(in_sqlite_words, read_steps()))


def in_sqlite_words(sql: str) -> str:
    """Map `int8`, `bytes`, `float8` to SQLite's types outside comments; tables become strict, or WITHOUT ROWID too.

    The content of a comment `/*sqlite ... */` applies to this engine alone.
    """
    code = re.sub(r"--[^\n]*", "", sql)
    code = re.sub(r"/\*sqlite\s(.*?)\*/", r"\1", code, flags=re.DOTALL)
    for word, ours in SQLITE_WORDS.items():
        code = re.sub(rf"\b{word}\b", ours, code)
    return code.replace("/*strict*/ /*clustered*/", "strict, without rowid").replace("/*strict*/", "strict")


def migrate(db: apsw.Connection, path: Path | str, migrations: Migrations) -> None:
    """Apply the missing steps.

    Raises `StoreNewer` if the database has unknown steps; close it with `close_untouched` then.
    """
    refuse_newer(db, path, len(migrations))
    while (version := int(pragma(db, "user_version"))) < len(migrations):
        _take_step(db, version, migrations[version])


def is_migrated(path: Path, key: bytes | None = None) -> bool:
    """Whether a database has every step of this release. The check only reads."""
    db = open_connection(path, readonly=True, key=key)
    try:
        return int(pragma(db, "user_version")) >= len(load_migrations())
    finally:
        close_untouched(db)


def refuse_newer(db: apsw.Connection, path: Path | str, known: int) -> None:
    """Raise `StoreNewer` if the database has steps that this release does not know."""
    version = int(pragma(db, "user_version"))
    if version > known:
        raise StoreNewer(f"{path} has schema {version}; this release knows {known}", version=version)


def _take_step(db: apsw.Connection, version: int, step: str) -> None:
    """Apply one step in one transaction, unless another process applied it meanwhile."""
    db.execute("begin immediate")
    try:
        if pragma(db, "user_version") == version:
            db.execute(step)
            db.execute(f"pragma application_id={APPLICATION_ID}")
            db.execute(f"pragma user_version={version + 1}")
        db.execute("commit")
    except apsw.Error:
        if db.in_transaction:
            db.execute("rollback")
        raise
