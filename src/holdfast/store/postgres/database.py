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

A database is bound to the event loop that opened it, as asyncpg's pool is: open one per loop and never
share it between threads. It needs its own sessions (prepared statements, session settings), so a
PgBouncer in front of it must pool by session. It does not know any verb.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal, Self

import asyncpg  # type: ignore[import-untyped]

from holdfast.kernel.entropy import Entropy
from holdfast.kernel.errors import InvariantBroken, StoreUnavailable
from holdfast.store.postgres.dialect import translate
from holdfast.store.postgres.faults import DRIVER_ERRORS, RACES, translated
from holdfast.store.postgres.hints import Hints
from holdfast.store.postgres.migrate import Migration, checked_schema, known_migrations, migrate
from holdfast.store.script import Call, Many, Params, Query, R, Row, Script, Statement

Isolation = Literal["read_committed", "repeatable_read"]

POOL_SIZE = 10
RETRIES_MAX = 8  # consecutive lost races of one script; beyond that it fails with StoreUnavailable
RETRY_PAUSE_MS = 5.0  # longest pause before the first retry; each further retry adds as much
CONNECT_TIMEOUT_S = 10.0
ACQUIRE_TIMEOUT_S = 10.0
COMMAND_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 5.0
SCRUB_RECEIPT = "the rows are blanked; VACUUM, the archived log and backups of PostgreSQL are the operator's to see to"
MIGRATION_TIMEOUT_S = 600.0
STATEMENTS_PREPARED_MAX = 512  # per connection

# Session settings. lock_timeout exceeds the server's deadlock_timeout (1 s), so that a deadlock is distinguished from
# a long wait. The idle limit releases the row locks of a paused process.
ONE_AFTER_ANOTHER = "select pg_advisory_xact_lock(hashtextextended($1, 0))"
SETTINGS = {
    "application_name": "holdfast",
    "synchronous_commit": "on",  # a server with `off` would acknowledge commits that a crash loses
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "10s",
    "jit": "off",  # our statements finish sooner than a compilation
    "enable_seqscan": "off",  # a plan made while a table was small is kept after it has grown
}
MIGRATION_SETTINGS = SETTINGS | {"lock_timeout": "600s"}


class PostgresDatabase:
    """Scripts on one schema of one PostgreSQL database."""

    def __init__(self, pool: Any, hints: Hints, entropy: Entropy) -> None:  # noqa: ANN401
        self._pool = pool
        self._hints = hints
        self._entropy = entropy

    @classmethod
    async def open(
        cls,
        dsn: str,
        *,
        entropy: Entropy,
        schema: str = "holdfast",
        pool_size: int = POOL_SIZE,
        migrations: Sequence[Migration] | None = None,
    ) -> Self:
        """Connect and migrate.

        Raises `StoreNewer`, `StorePathInvalid`, `ConfigInvalid`, `StoreReadOnly`, `StoreUnavailable`.
        """
        schema = checked_schema(schema)
        known = known_migrations() if migrations is None else tuple(migrations)

        async def connect(settings: dict[str, str] = SETTINGS, timeout_s: float = COMMAND_TIMEOUT_S) -> Any:  # noqa: ANN401
            return await asyncpg.connect(
                dsn,
                timeout=CONNECT_TIMEOUT_S,
                command_timeout=timeout_s,
                server_settings=settings | {"search_path": schema},
            )

        with translated("open"):
            await _migrate(await connect(MIGRATION_SETTINGS, MIGRATION_TIMEOUT_S), schema, known)
            pool = await asyncpg.create_pool(
                dsn,
                min_size=1,
                max_size=pool_size,
                timeout=CONNECT_TIMEOUT_S,
                command_timeout=COMMAND_TIMEOUT_S,
                statement_cache_size=STATEMENTS_PREPARED_MAX,
                max_cached_statement_lifetime=0,
                server_settings=SETTINGS | {"search_path": schema},
                init=_plain_numbers,
                reset=_nothing_to_reset,
            )
        node = f"{entropy.bits(64):016x}"
        return cls(pool, Hints(f"{schema}_hint", node, pool, connect), entropy)

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
        try:
            await asyncio.wait_for(self._pool.close(), CLOSE_TIMEOUT_S)
        except (asyncpg.PostgresError, *DRIVER_ERRORS):  # a timeout, or the server disconnected
            self._pool.terminate()

    async def _persist(self, call: Call[R], *, readonly: bool = False) -> R:
        for retry in range(RETRIES_MAX + 1):
            if retry:
                await asyncio.sleep(self._entropy.fraction() * retry * RETRY_PAUSE_MS / 1_000)
            try:
                with translated(call.verb):
                    return await self._transact(iter(call.script()), call.lock, readonly)
            except RACES as error:
                lost = error
        raise StoreUnavailable(
            f"{call.verb}: lost {RETRIES_MAX + 1} races in a row, the last one to {_rival(lost)}", verb=call.verb
        ) from lost

    async def _transact(self, script: Script[R], lock: str, readonly: bool) -> R:
        isolation: Isolation = "repeatable_read" if readonly else "read_committed"
        try:
            async with (
                self._pool.acquire(timeout=ACQUIRE_TIMEOUT_S) as connection,
                _dropped_when_broken(connection),
                connection.transaction(isolation=isolation, readonly=readonly),
            ):
                if lock:
                    await connection.execute(ONE_AFTER_ANOTHER, lock)
                return await _drive(connection, script)
        finally:
            script.close()


@asynccontextmanager
async def _dropped_when_broken(connection: Any) -> AsyncIterator[None]:  # noqa: ANN401
    """Close a connection whose state the driver does not know, so that the pool does not reuse it."""
    try:
        yield
    except DRIVER_ERRORS:
        with suppress(asyncpg.InterfaceError):  # the pool has already released it
            connection.terminate()
        raise


async def _drive(connection: Any, script: Script[R]) -> R:  # noqa: ANN401
    try:
        statement = next(script)
        while True:
            statement = script.send(await _answer(connection, statement))
    except StopIteration as done:
        result: R = done.value
        return result


async def _answer(connection: Any, statement: Statement) -> list[Row]:  # noqa: ANN401
    sql, names = translate(statement.sql)
    match statement:
        case Query(params=params):
            return [tuple(record) for record in await connection.fetch(sql, *_arguments(names, params))]
        case Many(rows=batch):
            await connection.executemany(sql, [_arguments(names, params) for params in batch])
            return []


def _arguments(names: tuple[str, ...], params: Params) -> list[Any]:
    try:
        return [params[name] for name in names]
    except KeyError as missing:
        raise InvariantBroken(f"a script does not give its parameter {missing}") from missing


async def _migrate(connection: Any, schema: str, migrations: tuple[Migration, ...]) -> None:  # noqa: ANN401
    try:
        await migrate(connection, schema, migrations)
    finally:
        await connection.close(timeout=CLOSE_TIMEOUT_S)


async def _plain_numbers(connection: Any) -> None:  # noqa: ANN401
    """Decode `sum(int8)` as an int, as SQLite does; PostgreSQL returns numeric, asyncpg Decimal."""
    await connection.set_type_codec("numeric", schema="pg_catalog", encoder=str, decoder=_number)


def _number(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        return float(digits)


async def _nothing_to_reset(_connection: object) -> None:
    """Saves a round trip per script: scripts leave no session state, and asyncpg ends open transactions."""


def _rival(error: Exception) -> str:
    constraint = getattr(error, "constraint_name", None)
    return f"{type(error).__name__} ({constraint})" if constraint else type(error).__name__
