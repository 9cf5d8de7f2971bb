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

import re
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Any

from holdfast.kernel.errors import ConfigInvalid, StoreNewer, StorePathInvalid
from holdfast.store.postgres.dialect import translate_schema
from holdfast.store.schema import read_steps

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
 where relnamespace = (select oid from pg_namespace where nspname = $1) and relkind <> 'i' and relkind <> 'I'
   and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and deptype = 'e')
"""
FUNCTIONS = """
select exists (
    select from pg_proc p
     where pronamespace = (select oid from pg_namespace where nspname = $1)
       and not exists (
           select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and deptype = 'e'))
"""
COLUMNS = """
select cast(attname as text) from pg_attribute
 where attnum > 0 and not attisdropped
   and attrelid = (select c.oid from pg_class c join pg_namespace n on n.oid = relnamespace
                    where nspname = $1 and relname = 'holdfast_meta')
"""
FOREIGN_HINT = "Give Holdfast a database in which no other program has a schema of this name, or rename that schema."
PRELUDE = """
create table holdfast_meta (key text primary key, value text);
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
    sql: str  # in the common subset; translated when it is applied


def known_migrations(folder: Traversable | None = None) -> tuple[Migration, ...]:
    return tuple(Migration(version, sql) for version, sql in enumerate(read_steps(folder), 1))


def checked_schema(name: str) -> str:
    """Check the name of a namespace, so that SQL may contain it without quotes."""
    if not _SCHEMA_NAME.fullmatch(name) or len(name) > SCHEMA_CHARS_MAX or name.startswith("pg_"):
        raise ConfigInvalid(
            f"schema {name!r} must be 1 to {SCHEMA_CHARS_MAX} lower-case letters, digits and '_',"
            " and start with neither a digit nor 'pg_'"
        )
    return name


async def migrate(connection: Any, schema: str, migrations: tuple[Migration, ...]) -> int:  # noqa: ANN401
    """Apply the missing versions and return their number. Raises `StoreNewer` and `StorePathInvalid`.

    `connection` is an asyncpg connection with `schema` as its search path and a lock timeout longer than a migration.
    """
    applied = 0
    while await _apply_next(connection, schema, migrations):
        applied += 1
    return applied


async def _apply_next(connection: Any, schema: str, migrations: tuple[Migration, ...]) -> bool:  # noqa: ANN401
    async with connection.transaction():
        # A separate statement, so that the next one sees what the previous lock holder committed.
        await connection.execute("select pg_advisory_xact_lock(hashtextextended($1, 0))", f"holdfast:{schema}")
        version = await _version(connection, schema)
        if version is None:
            await _create_base(connection, schema)
            return True
        if version > len(migrations):
            raise StoreNewer(
                f"schema {schema} has version {version}; this Holdfast knows {len(migrations)}",
                version=version,
            )
        await _check_tables(connection, schema, version, migrations)
        if version == len(migrations):
            return False
        following = migrations[version]
        # Without arguments asyncpg sends the text unchanged, so one call runs all its statements.
        await connection.execute(translate_schema(following.sql))
        await connection.execute(SET_VERSION, VERSION_KEY, str(following.version))
        return True


async def _version(connection: Any, schema: str) -> int | None:  # noqa: ANN401
    """The version of a Holdfast schema, or None for an empty one. Raises `StorePathInvalid` for any other."""
    found = await _relations(connection, schema)
    if "holdfast_meta" not in found:
        if found or await connection.fetchval(FUNCTIONS, schema):
            raise _foreign(schema, "holds tables or functions, and none of them is Holdfast's")
        return None
    columns = {name for (name,) in await connection.fetch(COLUMNS, schema)}
    if not {"key", "value"} <= columns:
        raise _foreign(schema, "has a table holdfast_meta that Holdfast did not make")
    value = await connection.fetchval("select cast(value as text) from holdfast_meta where key = $1", VERSION_KEY)
    if value is None or not (value.isascii() and value.isdigit()):
        raise _foreign(schema, "has a table holdfast_meta without the version of a Holdfast schema")
    return int(value)


async def _check_tables(connection: Any, schema: str, version: int, migrations: tuple[Migration, ...]) -> None:  # noqa: ANN401
    found = await _relations(connection, schema)
    present = tables_after(migrations[:version])
    if missing := sorted(present - found):
        raise _foreign(schema, f"says it has version {version} and lacks {', '.join(missing)}")
    if early := sorted((made_by(migrations[version:]) - present) & found):
        raise _foreign(schema, f"says it has version {version} and already holds {', '.join(early)}")


def tables_after(migrations: tuple[Migration, ...]) -> set[str]:
    """The tables that exist after these versions."""
    tables: set[str] = set()
    for migration in migrations:
        for step in _TABLE_STEP.finditer(_COMMENT.sub("", migration.sql)):
            tables -= {step["dropped"], step["old"]}
            tables |= {name for name in (step["made"], step["new"]) if name}
    return tables


def made_by(migrations: tuple[Migration, ...]) -> set[str]:
    """Every table that one of these versions creates, including tables that a later version drops."""
    steps = [step for one in migrations for step in _TABLE_STEP.finditer(_COMMENT.sub("", one.sql))]
    return {name for step in steps for name in (step["made"], step["new"]) if name}


async def _relations(connection: Any, schema: str) -> set[str]:  # noqa: ANN401
    return {name for (name,) in await connection.fetch(RELATIONS, schema)}


def _foreign(schema: str, why: str) -> StorePathInvalid:
    return StorePathInvalid(f"the schema {schema} of this database {why}; it was left untouched", hint=FOREIGN_HINT)


async def _create_base(connection: Any, schema: str) -> None:  # noqa: ANN401
    # `create schema if not exists` requires the privilege even if the schema exists.
    if not await connection.fetchval("select exists (select from pg_namespace where nspname = $1)", schema):
        await connection.execute(f"create schema {schema}")
    await connection.execute(PRELUDE)
    await connection.execute(SET_VERSION, VERSION_KEY, "0")
