"""The engines that the contract runs over, each opened for one test with a clock that the test owns.

Creating the tables takes longer than most tests. So PostgreSQL gets one schema per process, emptied before every test,
and SQLite a copy of one empty database. The schema is migrated once and emptied over one connection, because a new
session plans each statement anew, which takes ten times as long. For the same reason a test hands its idle connections
on to the next one (`hand_on`).
"""

import asyncio
import atexit
import os
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

from holdfast.store.ports import Database
from holdfast.store.postgres import PostgresDatabase
from holdfast.store.postgres.connection import PipelineConnection
from holdfast.store.postgres.pool import Pool
from holdfast.store.script import Call, R
from holdfast.store.sqlite import ThreadedDatabase
from holdfast.store.sqlite.opening import open_ready
from holdfast.testing import ManualClock
from holdfast.testing.inline_database import InlineDatabase
from tests.support.servers import Clocked, Dice, PostgresServer, set_now, use_test_clock

SCHEMA = "contract"
DRAIN_TIMEOUT_S = 5.0
TABLES = "select tablename from pg_tables where schemaname = current_schema() and tablename not like 'holdfast%'"
ENGINES = ("inline", "threaded", "postgres")
# Both SQLite engines run the same batches of the same scripts (store/sqlite/batch.py). They differ in how calls become
# batches, and on which thread. So the engine that users have runs the whole contract; `inline` runs what depends on
# batches and on callers at the same time (store/test_atomic.py, store/test_concurrency.py) and the conformance checks.
SERVING = ("threaded", "postgres")


class Timed(Clocked):
    """Like `Clocked`, but PostgreSQL is told the time only when it changed."""

    def __init__(self, database: PostgresDatabase, clock: ManualClock) -> None:
        super().__init__(database, clock)
        self._told = -1

    async def write(self, call: Call[R]) -> R:
        await self._tell()
        return await self._database.write(call)

    async def read(self, call: Call[R]) -> R:
        await self._tell()
        return await self._database.read(call)

    def restarted(self, clock: ManualClock) -> "Timed":
        """The same connections with a clock of another test."""
        return Timed(self._database, clock)

    async def _tell(self) -> None:
        if self._told != self._clock.now():
            self._told = self._clock.now()
            await set_now(self._database, self._told)


@cache
def _nothing_yet() -> bytes:
    with TemporaryDirectory() as folder:
        open_ready(Path(folder) / "store.db").close()
        return (Path(folder) / "store.db").read_bytes()


@asynccontextmanager
async def open_engine(
    name: str, folder: Path, clock: ManualClock, server: PostgresServer | None = None
) -> AsyncIterator[Database]:
    """An empty database of the named engine."""
    if server is not None:
        async with open_postgres(server, clock) as timed:
            empty_schema(server)
            yield timed
        return
    path = folder / "store.db"
    path.write_bytes(_nothing_yet())
    database = InlineDatabase(path, clock) if name == "inline" else ThreadedDatabase.open(path, clock)
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def open_postgres(server: PostgresServer, clock: ManualClock) -> AsyncIterator[Timed]:
    """The contract's schema as it is; a second one is a second node."""
    if server.dsn not in _emptying:
        async with contract_database(server) as database:
            await use_test_clock(database)
        _emptying[server.dsn] = _prepare_to_empty(server.dsn)
    database = PostgresDatabase.over(server.dsn, entropy=Dice(7), schema=SCHEMA, pool_size=10)
    pool = database._pool
    connect = pool._connect

    async def connect_again() -> PipelineConnection:
        return _handed_on(server.dsn) or await connect()

    pool._connect = connect_again
    try:
        yield Timed(database, clock)
    finally:
        await hand_on(server.dsn, pool)
        await database.close()


# By server: the idle connections of tests that are over.
_idle: dict[str, list[PipelineConnection]] = {}


@atexit.register
def _disconnect() -> None:
    for connection in (one for kept in _idle.values() for one in kept):
        connection.is_closed = True
        os.close(connection._socket)
        connection._libpq.finish()


async def hand_on(dsn: str, pool: Pool) -> None:
    """Keep the pool's idle connections for another test: they leave the loop of this one."""
    idle, pool._idle = pool._idle, []
    for connection in idle:
        with suppress(psycopg.Error, TimeoutError):
            await connection.sync(DRAIN_TIMEOUT_S)  # reads what nobody waited for
        if not connection.is_closed:
            connection._loop.remove_reader(connection._socket)
            _idle.setdefault(dsn, []).append(connection)


def _handed_on(dsn: str) -> PipelineConnection | None:
    """A connection of an earlier test, if there is one that the server has not closed meanwhile."""
    while _idle.get(dsn):
        connection = _idle[dsn].pop()
        connection._loop = asyncio.get_running_loop()
        connection._arrived, connection.round_trips = None, 0
        if not select.select([connection._socket], [], [], 0)[0]:
            connection._loop.add_reader(connection._socket, connection._on_input)
            return connection
        connection.terminate()  # the server said something although it was asked nothing
    return None


@asynccontextmanager
async def contract_database(server: PostgresServer) -> AsyncIterator[PostgresDatabase]:
    """The contract's schema, created if it is missing."""
    database = await PostgresDatabase.open(server.dsn, entropy=Dice(7), schema=SCHEMA, pool_size=10)
    try:
        yield database
    finally:
        await database.close()


def empty_schema(server: PostgresServer) -> None:
    """Delete every row of the contract's schema."""
    _emptying[server.dsn].execute("select pg_temp.empty_contract()")


# By server: the connection that empties the contract's schema.
_emptying: dict[str, psycopg.Connection[tuple[object, ...]]] = {}


def _prepare_to_empty(dsn: str) -> psycopg.Connection[tuple[object, ...]]:
    # The audit trail is append-only, except for a replica.
    settings = f"-c search_path={SCHEMA} -c session_replication_role=replica -c lock_timeout=5s"
    connection = psycopg.connect(dsn, autocommit=True, options=settings)
    deletes = " ".join(f"delete from {table};" for (table,) in connection.execute(TABLES))
    body = f"begin {deletes} end"
    connection.execute(f"create function pg_temp.empty_contract() returns void language plpgsql as $${body}$$".encode())
    atexit.register(connection.close)
    return connection
