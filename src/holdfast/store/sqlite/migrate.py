"""Bring a database's schema up to date, one transaction per step, from any process at any time.

The steps are `store/schema/NNN_*.sql`, written once for both engines in words that each of them maps to
its own types. `user_version` counts the steps taken. A database that has taken more of them than this
release knows is refused and keeps its bytes.
"""

import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

import apsw

from holdfast.kernel.errors import InvariantBroken, StoreNewer
from holdfast.store.sqlite.connection import APPLICATION_ID, close_untouched, open_connection, pragma

Migrations: TypeAlias = tuple[str, ...]

SCHEMA_PACKAGE = "holdfast.store.schema"
SQLITE_WORDS = {"int8": "integer", "bytes": "blob", "float8": "real"}


@cache
def load_migrations() -> Migrations:
    """The schema of this release, in order, in SQLite's words."""
    scripts = [file for file in files(SCHEMA_PACKAGE).iterdir() if file.name.endswith(".sql")]
    found = sorted(scripts, key=lambda file: file.name)
    numbers = [int(file.name.split("_")[0]) for file in found]
    if not numbers or numbers != list(range(1, len(found) + 1)):
        raise InvariantBroken(f"the schema files are not numbered 1, 2, 3, …: {numbers}")
    return tuple(in_sqlite_words(file.read_text(encoding="utf-8")) for file in found)


def in_sqlite_words(sql: str) -> str:
    """`int8`, `bytes`, `float8` become SQLite's types outside comments; tables become strict, or WITHOUT ROWID too.

    What stands in a comment `/*sqlite ... */` is for this engine alone.
    """
    code = re.sub(r"--[^\n]*", "", sql)
    code = re.sub(r"/\*sqlite\s(.*?)\*/", r"\1", code, flags=re.DOTALL)
    for word, ours in SQLITE_WORDS.items():
        code = re.sub(rf"\b{word}\b", ours, code)
    return code.replace("/*strict*/ /*clustered*/", "strict, without rowid").replace("/*strict*/", "strict")


def migrate(
    db: apsw.Connection, path: Path | str, migrations: Migrations, *, application_id: int = APPLICATION_ID
) -> None:
    """Take the steps that are missing.

    Raises `StoreNewer` when the database has taken unknown ones; close it with `close_untouched` then.
    """
    refuse_newer(db, path, len(migrations))
    while (version := int(pragma(db, "user_version"))) < len(migrations):
        _take_step(db, version, migrations[version], application_id)


def is_migrated(path: Path, key: bytes | None = None) -> bool:
    """Whether a database has taken every step of this release. It is only read."""
    db = open_connection(path, readonly=True, key=key)
    try:
        return int(pragma(db, "user_version")) >= len(load_migrations())
    finally:
        close_untouched(db)


def refuse_newer(db: apsw.Connection, path: Path | str, known: int) -> None:
    """Raise `StoreNewer` when the database has taken steps this release does not know."""
    version = int(pragma(db, "user_version"))
    if version > known:
        raise StoreNewer(f"{path} has schema {version}; this release knows {known}", version=version)


def _take_step(db: apsw.Connection, version: int, step: str, application_id: int) -> None:
    """One step in one transaction, unless another process has taken it meanwhile."""
    db.execute("begin immediate")
    try:
        if pragma(db, "user_version") == version:
            db.execute(step)
            db.execute(f"pragma application_id={application_id}")
            db.execute(f"pragma user_version={version + 1}")
        db.execute("commit")
    except apsw.Error:
        if db.in_transaction:
            db.execute("rollback")
        raise
