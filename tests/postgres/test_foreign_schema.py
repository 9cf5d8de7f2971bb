"""The promise: a schema of another program or of a newer Holdfast is refused before anything is written into it.

The catalog and the rows are compared before and after: every relation, column, function, constraint and privilege.
"""

import asyncpg  # type: ignore[import-untyped]
import pytest

from holdfast.kernel.errors import StoreNewer, StorePathInvalid
from holdfast.store.postgres import PostgresDatabase
from holdfast.store.postgres.migrate import tables_after
from holdfast.store.schema import read_steps
from tests.support.servers import Dice, fresh_schema, postgres_database

CATALOG = [
    "select c.relname, c.relkind, c.relfilenode, c.relacl::text from pg_class c where relnamespace = $1::regnamespace",
    "select relname, attname from pg_attribute, pg_class c where c.oid = attrelid and relnamespace = $1::regnamespace",
    "select proname, prosrc from pg_proc where pronamespace = $1::regnamespace",
    "select conname, contype from pg_constraint where connamespace = $1::regnamespace",
    "select typname from pg_type where typnamespace = $1::regnamespace",
]
META = "create table {0}.holdfast_meta (key text primary key, value text);"
VERSION = "insert into {0}.holdfast_meta values ('schema_version', '%s');"
FOREIGN = {
    "a table of our name": "create table {0}.session (id int, cookie text); insert into {0}.session values (1, 'c');",
    "a table of no name of ours": "create table {0}.orders (id int);",
    "a view": "create view {0}.report as select 1 as one;",
    "a sequence": "create sequence {0}.numbers;",
    "a function": "create function {0}.holdfast_now() returns int8 language sql as 'select 1::int8';",
    "a meta table of other columns": "create table {0}.holdfast_meta (version int);",
    "a meta table without our version": META + "insert into {0}.holdfast_meta values ('owner', 'somebody');",
    "a version that is no number": META + VERSION % "v2",
    "a version below zero": META + VERSION % "-1",
    "a null version": META + "insert into {0}.holdfast_meta values ('schema_version', null);",
    "our version without our tables": META + VERSION % len(read_steps()),
    "ground that was laid, and a table of our name": META + VERSION % 0 + "create table {0}.session (id int);",
    "an old version with tables of a newer one": META + VERSION % 0 + "create table {0}.draft (id int);",
}


@pytest.fixture
async def admin(postgres_server):
    connection = await asyncpg.connect(postgres_server.dsn)
    yield connection
    await connection.close()


async def everything(admin, schema):
    """All that the catalog says of the schema, and all rows in it."""
    catalog = [sorted(map(str, await admin.fetch(question, schema))) for question in CATALOG]
    tables = await admin.fetch("select tablename from pg_tables where schemaname = $1", schema)
    rows = [str(await admin.fetch(f"select * from {schema}.{name} order by 1")) for (name,) in sorted(tables)]
    return catalog, rows


async def refused(admin, dsn, schema, kind):
    before = await everything(admin, schema)
    with pytest.raises(kind) as caught:
        await PostgresDatabase.open(dsn, entropy=Dice(), schema=schema)
    assert await everything(admin, schema) == before
    return caught.value


@pytest.mark.parametrize("what", FOREIGN)
async def test_a_schema_of_somebody_else_is_refused_and_left_as_it_is(postgres_server, admin, what):
    async with fresh_schema(postgres_server) as schema:
        await admin.execute(f"create schema {schema}; {FOREIGN[what].format(schema)}")
        error = await refused(admin, postgres_server.dsn, schema, StorePathInvalid)
    assert schema in str(error)
    assert "folder" not in error.hint


async def test_a_newer_schema_is_refused_and_left_as_it_is(postgres_server, admin):
    newer = len(read_steps()) + 1
    async with fresh_schema(postgres_server) as schema:
        async with postgres_database(postgres_server, schema=schema):
            pass
        await admin.execute(f"update {schema}.holdfast_meta set value = '{newer}'")
        await refused(admin, postgres_server.dsn, schema, StoreNewer)


async def test_a_schema_that_lost_a_table_is_refused(postgres_server, admin):
    async with fresh_schema(postgres_server) as schema:
        async with postgres_database(postgres_server, schema=schema):
            pass
        await admin.execute(f"drop table {schema}.draft cascade")
        error = await refused(admin, postgres_server.dsn, schema, StorePathInvalid)
    assert "draft" in str(error)


async def test_an_extension_in_the_schema_is_not_foreign_data(postgres_server, admin):
    async with fresh_schema(postgres_server) as schema:
        found = await admin.fetchval("select name from pg_available_extensions where name not in ('plpgsql') limit 1")
        await admin.execute(f"create schema {schema}")
        await admin.execute(f'create extension "{found}" with schema {schema} cascade')
        async with postgres_database(postgres_server, schema=schema) as database:
            await database.changed()


async def test_a_schema_that_is_upgraded_step_by_step_is_ours_at_each(postgres_server, admin):
    async with fresh_schema(postgres_server) as schema:
        for steps in range(len(read_steps()) + 1):
            async with postgres_database(postgres_server, schema=schema, migrations=read_steps()[:steps]):
                found = await admin.fetch("select tablename from pg_tables where schemaname = $1", schema)
            assert {name for (name,) in found} - {"holdfast_meta"} == tables_after(read_steps()[:steps])
