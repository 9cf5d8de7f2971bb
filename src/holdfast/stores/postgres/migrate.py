"""Bring a schema to the version this code was written for.

Rule 1: each version is one transaction that takes the schema's advisory lock, looks at the version and
        applies the next one; nodes starting together queue up, and the later ones find the work done.
Rule 2: a schema that a newer Holdfast wrote is left untouched.
Rule 3: version 0 is ours alone: the namespace, `holdfast_meta` and the clock. Versions 1, 2, ... are the
        files of `stores/schema`, shared with SQLite.
Rule 4: a schema that is up to date needs no privilege to create anything.

`holdfast_now()` is `stable` and made of `statement_timestamp()`: PostgreSQL inlines it, uses it for index
ranges (`due_at <= :now`) and gives every row of a statement the same time. A volatile function over
`clock_timestamp()` would read the whole table instead. The price: a statement that waited for a lock
judges by the time it arrived, which takes a lease for alive rather than for dead.
"""

import re
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from holdfast.core.errors import ConfigInvalid, InvariantBroken, StoreNewer
from holdfast.stores.postgres.dialect import translate_schema

SCHEMA_CHARS_MAX = 48  # PostgreSQL cuts names at 63; the hint channel and tests add a few
VERSION_KEY = "schema_version"

_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_FILE_NAME = re.compile(r"(\d{3})_\w+\.sql")

PRELUDE = """
create table if not exists holdfast_meta (key text primary key, value text);
create function holdfast_now() returns int8 language sql stable parallel safe
    as $$ select floor(extract(epoch from statement_timestamp()) * 1000)::int8 $$;
"""
SET_VERSION = """
insert into holdfast_meta (key, value) values ($1, $2)
on conflict (key) do update set value = excluded.value
"""


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    sql: str  # in the common subset; PostgreSQL's words are put in when it is applied


def known_migrations(folder: Traversable | None = None) -> tuple[Migration, ...]:
    """The files `NNN_*.sql`, in order. A gap in their numbers is our bug."""
    folder = folder if folder is not None else files("holdfast.stores") / "schema"
    found = sorted(
        (int(named[1]), file.read_text("utf-8"))
        for file in folder.iterdir()
        if (named := _FILE_NAME.fullmatch(file.name))
    )
    if [version for version, _ in found] != list(range(1, len(found) + 1)):
        raise InvariantBroken(f"schema versions are not 1, 2, ...: {[version for version, _ in found]}")
    return tuple(Migration(version, sql) for version, sql in found)


def checked_schema(name: str) -> str:
    """The name of a namespace, safe to write into SQL without quotes."""
    if not _SCHEMA_NAME.fullmatch(name) or len(name) > SCHEMA_CHARS_MAX or name.startswith("pg_"):
        raise ConfigInvalid(
            f"schema {name!r} must be 1 to {SCHEMA_CHARS_MAX} lower-case letters, digits and '_',"
            " and start with neither a digit nor 'pg_'"
        )
    return name


async def migrate(connection: Any, schema: str, migrations: tuple[Migration, ...]) -> int:  # noqa: ANN401
    """Apply what is missing; returns how many versions were applied. Raises `StoreNewer`.

    `connection` is asyncpg's, with `schema` as its search path and a lock timeout longer than a migration.
    """
    applied = 0
    while await _apply_next(connection, schema, migrations):
        applied += 1
    return applied


async def _apply_next(connection: Any, schema: str, migrations: tuple[Migration, ...]) -> bool:  # noqa: ANN401
    async with connection.transaction():
        # A statement of its own: the next one must see what the former holder committed.
        await connection.execute("select pg_advisory_xact_lock(hashtextextended($1, 0))", f"holdfast:{schema}")
        version = await _version(connection, schema)
        if version is None:
            await _lay_ground(connection, schema)
            return True
        if version > len(migrations):
            raise StoreNewer(
                f"schema {schema} has version {version}; this Holdfast knows {len(migrations)}",
                version=version,
            )
        if version == len(migrations):
            return False
        following = migrations[version]
        # Without arguments asyncpg sends the text as it is, so one call carries all its statements.
        await connection.execute(translate_schema(following.sql))
        await connection.execute(SET_VERSION, VERSION_KEY, str(following.version))
        return True


async def _version(connection: Any, schema: str) -> int | None:  # noqa: ANN401
    if await connection.fetchval("select to_regclass($1)", f"{schema}.holdfast_meta") is None:
        return None
    value = await connection.fetchval("select value from holdfast_meta where key = $1", VERSION_KEY)
    return None if value is None else int(value)


async def _lay_ground(connection: Any, schema: str) -> None:  # noqa: ANN401
    # `create schema if not exists` asks for the privilege even when the schema exists.
    if not await connection.fetchval("select exists (select from pg_namespace where nspname = $1)", schema):
        await connection.execute(f"create schema {schema}")
    await connection.execute(PRELUDE)
    await connection.execute(SET_VERSION, VERSION_KEY, "0")
