"""Migrates a schema to the version of this release.

Rule 1: each version is one transaction that takes the schema's advisory lock, reads the version and applies
        the next one; nodes that start together queue up, and the later ones find the work done.
Rule 2: a schema written by a newer Holdfast is left untouched.
Rule 3: version 0 is specific to PostgreSQL: the namespace, `holdfast_meta` and the clock. Versions 1, 2, ... are the
        files of `store/schema`, shared with SQLite.
Rule 4: a schema that is up to date needs no privilege to create anything.
Rule 5: Holdfast uses a schema exclusively. A schema with any content but no version in `holdfast_meta`, without a table
        of its version, or with a table of a later version is refused before any write.

`holdfast_now()` is `stable` and calls `statement_timestamp()`: PostgreSQL inlines it, uses it for index
ranges (`due_at <= :now`) and gives every row of a statement the same time. With a volatile function over
`clock_timestamp()` it would scan the whole table. The cost: a statement that waited for a lock uses its
start time, which errs towards treating a lease as alive.
"""

import asyncio
import re
from collections.abc import Sequence
from typing import Any, LiteralString, TypeAlias

import psycopg

from holdfast.kernel.errors import ConfigInvalid, StoreNewer, StorePathInvalid
from holdfast.store.postgres.dialect import translate_schema
from holdfast.store.script import Row

Session: TypeAlias = psycopg.AsyncConnection[Row]
Migrations: TypeAlias = tuple[str, ...]  # in the common subset; translated when they are applied

CONNECT_TIMEOUT_S = 10
TIMEOUT_S = 600
PREPARE = "select set_config('search_path', %s, false), set_config('lock_timeout', %s, false)"
SCHEMA_CHARS_MAX = 48  # PostgreSQL truncates names at 63; the hint channel and tests add a suffix
VERSION_KEY = "schema_version"

_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_COMMENT = re.compile(r"--[^\n]*")
_TABLE_STEP = re.compile(
    r"\bcreate\s+table\s+(?:if\s+not\s+exists\s+)?(?P<made>\w+)"
    r"|\bdrop\s+table\s+(?:if\s+exists\s+)?(?P<dropped>\w+)"
    r"|\balter\s+table\s+(?P<old>\w+)\s+rename\s+to\s+(?P<new>\w+)",
    re.IGNORECASE,
)

# Tables of an extension are ignored: an operator may install extensions in any schema.
RELATIONS = """
select cast(relname as text) from pg_class c
 where relnamespace = (select oid from pg_namespace where nspname = %s) and relkind <> 'i' and relkind <> 'I'
   and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and deptype = 'e')
"""
FUNCTIONS = """
select exists (
    select from pg_proc p
     where pronamespace = (select oid from pg_namespace where nspname = %s)
       and not exists (
           select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and deptype = 'e'))
"""
COLUMNS = """
select cast(attname as text) from pg_attribute
 where attnum > 0 and not attisdropped
   and attrelid = (select c.oid from pg_class c join pg_namespace n on n.oid = relnamespace
                    where nspname = %s and relname = 'holdfast_meta')
"""
FOREIGN_HINT = "Give Holdfast a database in which no other program has a schema of this name, or rename that schema."
PRELUDE = """
create table holdfast_meta (key text primary key, value text);
create function holdfast_now() returns int8 language sql stable parallel safe
    as $$ select floor(extract(epoch from statement_timestamp()) * 1000)::int8 $$;
"""
SET_VERSION = """
insert into holdfast_meta (key, value) values (%s, %s)
on conflict (key) do update set value = excluded.value
"""


def checked_schema(name: str) -> str:
    """Check the name of a namespace, so that SQL may contain it without quotes."""
    if not _SCHEMA_NAME.fullmatch(name) or len(name) > SCHEMA_CHARS_MAX or name.startswith("pg_"):
        raise ConfigInvalid(
            f"schema {name!r} must be 1 to {SCHEMA_CHARS_MAX} lower-case letters, digits and '_',"
            " and start with neither a digit nor 'pg_'"
        )
    return name


async def migrate(dsn: str, schema: str, migrations: Migrations) -> int:
    """Apply the missing versions and return their number. Raises `StoreNewer` and `StorePathInvalid`."""
    applied = 0
    async with asyncio.timeout(TIMEOUT_S):
        session = await psycopg.AsyncConnection.connect(dsn, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S)
        async with session:
            await session.execute(PREPARE, (schema, f"{TIMEOUT_S}s"))
            while await _apply_next(session, schema, migrations):
                applied += 1
    return applied


async def _apply_next(session: Session, schema: str, migrations: Migrations) -> bool:
    async with session.transaction():
        # A separate statement, so that the next one sees what the previous lock holder committed.
        await session.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"holdfast:{schema}",))
        version = await _version(session, schema)
        if version is None:
            await _create_base(session, schema)
            return True
        if version > len(migrations):
            raise StoreNewer(
                f"schema {schema} has version {version}; this Holdfast knows {len(migrations)}",
                version=version,
            )
        await _check_tables(session, schema, version, migrations)
        if version == len(migrations):
            return False
        # Without parameters psycopg sends the text unchanged, so one call runs all its statements.
        await session.execute(translate_schema(migrations[version]).encode())
        await session.execute(SET_VERSION, (VERSION_KEY, str(version + 1)))
        return True


async def _version(session: Session, schema: str) -> int | None:
    """The version of a Holdfast schema, or None for an empty one. Raises `StorePathInvalid` for any other."""
    found = await _relations(session, schema)
    if "holdfast_meta" not in found:
        if found or await _value(session, FUNCTIONS, schema):
            raise _foreign(schema, "holds tables or functions, and none of them is Holdfast's")
        return None
    columns = {name for (name,) in await _rows(session, COLUMNS, schema)}
    if not {"key", "value"} <= columns:
        raise _foreign(schema, "has a table holdfast_meta that Holdfast did not make")
    value = await _value(session, "select cast(value as text) from holdfast_meta where key = %s", VERSION_KEY)
    if value is None or not (value.isascii() and value.isdigit()):
        raise _foreign(schema, "has a table holdfast_meta without the version of a Holdfast schema")
    return int(value)


async def _check_tables(session: Session, schema: str, version: int, migrations: Migrations) -> None:
    found = await _relations(session, schema)
    present = tables_after(migrations[:version])
    if missing := sorted(present - found):
        raise _foreign(schema, f"says it has version {version} and lacks {', '.join(missing)}")
    if early := sorted((made_by(migrations[version:]) - present) & found):
        raise _foreign(schema, f"says it has version {version} and already holds {', '.join(early)}")


def tables_after(migrations: Migrations) -> set[str]:
    """The tables that exist after these versions."""
    tables: set[str] = set()
    for migration in migrations:
        for step in _TABLE_STEP.finditer(_COMMENT.sub("", migration)):
            tables -= {step["dropped"], step["old"]}
            tables |= {name for name in (step["made"], step["new"]) if name}
    return tables


def made_by(migrations: Migrations) -> set[str]:
    """Every table that one of these versions creates, including tables that a later version drops."""
    steps = [step for one in migrations for step in _TABLE_STEP.finditer(_COMMENT.sub("", one))]
    return {name for step in steps for name in (step["made"], step["new"]) if name}


async def _relations(session: Session, schema: str) -> set[str]:
    return {name for (name,) in await _rows(session, RELATIONS, schema)}


def _foreign(schema: str, why: str) -> StorePathInvalid:
    return StorePathInvalid(f"the schema {schema} of this database {why}; it was left untouched", hint=FOREIGN_HINT)


async def _create_base(session: Session, schema: str) -> None:
    # `create schema if not exists` requires the privilege even if the schema exists.
    if not await _value(session, "select exists (select from pg_namespace where nspname = %s)", schema):
        await session.execute(f"create schema {schema}".encode())
    await session.execute(PRELUDE.encode())
    await session.execute(SET_VERSION, (VERSION_KEY, "0"))


async def _rows(session: Session, sql: LiteralString, *params: str) -> Sequence[Row]:
    return await (await session.execute(sql, params)).fetchall()


async def _value(session: Session, sql: LiteralString, *params: str) -> Any:  # noqa: ANN401
    found = await _rows(session, sql, *params)
    return found[0][0] if found else None
