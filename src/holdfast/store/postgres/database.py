"""The engine that runs scripts on PostgreSQL: one script, one transaction.

Rule 1: a write is READ COMMITTED and takes its row locks itself (`/*lock*/`); a read is REPEATABLE READ
        and READ ONLY, so that all its statements see one snapshot.
Rule 2: a script that lost a race (a unique key, a deadlock, a serialisation failure) runs again from the
        start, at most RETRIES_MAX times, after a short pause of random length.
Rule 3: no result is returned before COMMIT has succeeded. If the connection is lost before that, the
        outcome is unknown and the caller repeats the verb, which is idempotent.
Rule 4: calls with the same lock name hold an advisory lock from their first statement to the end of their transaction.
        A claim takes any free row, so without the lock a repeated claim would skip the rows of an unfinished COMMIT.
Rule 5: every wait has a limit, here or on the server.
Rule 6: a script waits for the server only where it needs rows. Statements without, BEGIN and COMMIT travel with the
        next query. So a script costs one round trip for each query or group of queries, and a write one more.

A database is bound to the event loop that opened it: open one per loop and never share it between threads. It needs
its own sessions (prepared statements, session settings), so a PgBouncer in front of it must pool by session. It does
not know any verb.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Generic, Self

import psycopg
from psycopg.pq.abc import PGresult

from holdfast.kernel.errors import InvariantBroken, StoreCorrupt, StoreUnavailable
from holdfast.kernel.machine import stopwatch
from holdfast.kernel.ports import Entropy
from holdfast.store.damage import CheckedEngine, StoreMeasures
from holdfast.store.postgres.connection import PipelineConnection
from holdfast.store.postgres.dialect import translate
from holdfast.store.postgres.faults import RACES, STALE, translated
from holdfast.store.postgres.hints import Hints
from holdfast.store.postgres.migrate import checked_schema, migrate
from holdfast.store.postgres.pool import Pool
from holdfast.store.schema import read_steps
from holdfast.store.script import Call, Change, Group, Many, Params, Query, R, Row, Script, Statement

POOL_SIZE = 10
RETRIES_MAX = 8  # consecutive lost races of one script; beyond that it fails with StoreUnavailable
RETRY_PAUSE_MS = 5.0  # longest pause before the first retry; each further retry adds as much
COMMAND_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 5.0
SCRUB_RECEIPT = "the rows are blanked; VACUUM, the archived log and backups of PostgreSQL are the operator's to see to"

BEGIN = "begin isolation level read committed"
BEGIN_READ = "begin isolation level repeatable read, read only"
ONE_AFTER_ANOTHER = "select pg_advisory_xact_lock(hashtextextended($1, 0))"
# Session settings. lock_timeout exceeds the server's deadlock_timeout (1 s), so that a deadlock is distinguished from
# a long wait. The idle limit releases the row locks of a paused process.
SETTINGS = {
    "application_name": "holdfast",
    "synchronous_commit": "on",  # a server with `off` would acknowledge commits that a crash loses
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "10s",
    "jit": "off",  # our statements finish sooner than a compilation
    "enable_seqscan": "off",  # a plan made while a table was small is kept after it has grown
}


class PostgresDatabase(CheckedEngine):
    """Scripts on one schema of one PostgreSQL database."""

    def __init__(self, pool: Pool, hints: Hints, entropy: Entropy) -> None:
        self._pool = pool
        self._hints = hints
        self._entropy = entropy
        self.measures = StoreMeasures()

    @classmethod
    async def open(
        cls,
        dsn: str,
        *,
        entropy: Entropy,
        schema: str = "holdfast",
        pool_size: int = POOL_SIZE,
        migrations: Sequence[str] | None = None,
    ) -> Self:
        """Connect and migrate.

        Raises `StoreNewer`, `StorePathInvalid`, `ConfigInvalid`, `StoreReadOnly`, `StoreUnavailable`.
        """
        schema = checked_schema(schema)
        known = read_steps() if migrations is None else tuple(migrations)
        with translated("open"):
            await migrate(dsn, schema, known)
        return cls.over(dsn, entropy=entropy, schema=schema, pool_size=pool_size)

    @classmethod
    def over(cls, dsn: str, *, entropy: Entropy, schema: str, pool_size: int = POOL_SIZE) -> Self:
        """Use a schema that is known to be of this version. A connection is opened when it is needed."""

        async def connect() -> PipelineConnection:
            return await PipelineConnection.open(dsn, SETTINGS | {"search_path": schema})

        pool = Pool(connect, pool_size)
        return cls(pool, Hints(f"{schema}_hint", f"{entropy.bits(64):016x}", pool, connect), entropy)

    async def write(self, call: Call[R]) -> R:
        """Run a script in one transaction. If the script raises, nothing is changed."""
        return await self._persist(call)

    async def read(self, call: Call[R]) -> R:
        """Run a read-only script over one snapshot."""
        return await self._persist(call, readonly=True)

    async def changed(self) -> bool:
        """Whether another node sent a hint since the last call, or may have while this node was not listening.

        This is weaker than SQLite's answer: a node that dies between commit and hint sends none, so idle loops
        also poll every few seconds.
        """
        with translated("changed"):
            return await self._hints.heard()

    async def hint(self) -> None:
        """Wake other nodes; calls are coalesced. This returns after a delay: await it in a task."""
        with translated("hint"):
            await self._hints.send()

    async def scrub(self) -> str:
        """Does nothing: the server owns its files."""
        return SCRUB_RECEIPT

    def wal_bytes(self) -> int:
        """Always 0: PostgreSQL manages its own log."""
        return 0

    async def close(self) -> None:
        """Let running scripts finish, then disconnect; scripts that exceed the time limit are aborted."""
        await self._hints.close()
        await self._pool.close(CLOSE_TIMEOUT_S)

    async def _persist(self, call: Call[R], *, readonly: bool = False) -> R:
        for retry in range(RETRIES_MAX + 1):
            if retry:
                await asyncio.sleep(self._entropy.fraction() * retry * RETRY_PAUSE_MS / 1_000)
            try:
                with translated(call.verb):
                    return await self._transact(call, readonly=readonly)
            except RACES as error:
                lost = error
            except StoreCorrupt as error:
                self.note_damage(error)
                raise
        raise StoreUnavailable(
            f"{call.verb}: lost {RETRIES_MAX + 1} races in a row, the last one to {_rival(lost)}", verb=call.verb
        ) from lost

    async def _transact(self, call: Call[R], *, readonly: bool) -> R:
        connection = await self._pool.acquire()
        try:
            measures = None if readonly else self.measures
            transaction = Transaction(connection, call, readonly=readonly, measures=measures)
            return await transaction.run()
        finally:
            await self._pool.release(connection)


class Transaction(Generic[R]):
    """One script between BEGIN and COMMIT on a connection."""

    def __init__(
        self, connection: PipelineConnection, call: Call[R], *, readonly: bool, measures: StoreMeasures | None
    ) -> None:
        self._connection = connection
        self._measures = measures
        self._call = call
        self._readonly = readonly
        self._is_begun = False  # at the server

    async def run(self) -> R:
        self._connection.send(BEGIN_READ if self._readonly else BEGIN)
        if self._call.lock:
            self._connection.send(ONE_AFTER_ANOTHER, (self._call.lock,))
        script = self._call.script()
        try:
            value = await self._drive(script)
        except BaseException as error:
            self._roll_back(error)
            raise
        finally:
            script.close()
        return value

    async def _drive(self, script: Script[R]) -> R:
        try:
            statement = next(script)
            while True:
                statement = script.send(await self._answer(statement))
        except StopIteration as done:
            value: R = done.value
        await self._commit()
        return value

    async def _answer(self, statement: Statement) -> list[Any]:
        match statement:
            case Change(sql, params):
                self._send(sql, params)
                return []
            case Query(sql, params):
                self._send(sql, params)
                return (await self._sync(1))[0]
            case Many(sql, batch):
                for params in batch:
                    self._send(sql, params)
                return []
            case Group(queries):
                for query in queries:
                    self._send(query.sql, query.params)
                return await self._sync(len(queries))

    def _send(self, sql: str, params: Params) -> None:
        text, names = translate(sql)
        try:
            self._connection.send(text, [params[name] for name in names])
        except KeyError as missing:
            raise InvariantBroken(f"a script does not give its parameter {missing}") from missing

    async def _sync(self, last: int) -> list[list[Row]]:
        """Send what is queued; returns the rows of its last statements."""
        results = await self._flush()
        return [self._connection.rows(result) for result in results[-last:]]

    async def _flush(self) -> list[PGresult]:
        self._is_begun = True
        return await self._connection.sync(COMMAND_TIMEOUT_S)

    async def _commit(self) -> None:
        """Commit. A read has nothing to commit: its end is sent and not waited for."""
        if self._readonly and self._is_begun and self._connection.is_queue_empty:
            self._connection.finish("commit")
            return
        self._connection.send("commit")
        began_s = stopwatch()
        results = await self._flush()
        if self._measures is not None:
            self._measures.commits.append((1, stopwatch() - began_s))
        if results[-1].command_status != b"COMMIT":
            raise InvariantBroken(f"{self._call.verb}: the server answered COMMIT with {results[-1].command_status!r}")

    def _roll_back(self, error: BaseException) -> None:
        """End a transaction that failed or was refused; nothing depends on when the server does it."""
        self._connection.forget_queue()
        if isinstance(error, STALE):
            self._connection.terminate()
        elif self._is_begun and not self._connection.is_closed:
            self._connection.finish("rollback")


def _rival(error: psycopg.Error) -> str:
    constraint = error.diag.constraint_name
    return f"{type(error).__name__} ({constraint})" if constraint else type(error).__name__
