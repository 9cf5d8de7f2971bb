"""The promise: a lost connection is `store_unavailable`, whose remedy is to repeat the call, on every path and at
every moment of it, and the call after it works. It is never `invariant_broken`, and HTTP never answers 500 for it.
"""

import asyncio
import os
import signal
from collections import Counter

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest
from psycopg import errors

from holdfast.kernel.errors import Remedy, SessionMoved, StoreUnavailable
from holdfast.store.postgres import PostgresDatabase
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.database import RETRIES_MAX
from holdfast.store.postgres.pool import Pool
from holdfast.store.script import Call, many, one, rows, run
from tests.postgres.test_engine import TINY, keys, put
from tests.support.live import code_of, serve, until
from tests.support.servers import Dice, PostgresServer, fresh_schema, postgres_database

OTHERS = "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> $1"
OURS = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'holdfast' and pid <> $1"
ROUNDS = 60
CALLERS = 8


@pytest.fixture
async def schema(postgres_server):
    async with fresh_schema(postgres_server) as name:
        yield name


@pytest.fixture
async def db(postgres_server, schema):
    async with postgres_database(postgres_server, schema=schema, migrations=TINY) as database:
        yield database


@pytest.fixture
async def admin(postgres_server):
    connection = await asyncpg.connect(postgres_server.dsn)
    yield connection
    await connection.close()


# --- real terminations ----------------------------------------------------------------------------


async def terminate_all(admin):
    await admin.fetch(OURS, admin.get_server_pid())


async def outcomes(call, done, told):
    """Repeat the call until told to stop; count what it answered."""
    while not done.is_set():
        try:
            await call()
        except Exception as error:  # noqa: BLE001 - whatever it is, the test names it
            told[type(error).__name__] += 1
        else:
            told["ok"] += 1
        await asyncio.sleep(0)


async def test_a_storm_of_terminations_is_only_ever_unavailable(db, admin):
    def slowly():
        for n in range(4):
            yield from run("insert into thing (id, n) values (:id, 1) on conflict (id) do nothing", id=f"row {n}")
        yield from many("update thing set n = n + 1 where id = :id", [{"id": "row 1"}, {"id": "row 2"}])

    calls = [
        lambda: db.write(Call("slowly", slowly)),
        lambda: db.write(Call("named", slowly, lock="a name")),
        lambda: db.read(Call("keys", lambda: rows("select id from thing"))),
        db.hint,
        db.changed,
    ]
    told: Counter[str] = Counter()
    done = asyncio.Event()
    callers = [asyncio.create_task(outcomes(calls[n % len(calls)], done, told)) for n in range(CALLERS)]
    for _ in range(ROUNDS):
        before = told.total()
        await terminate_all(admin)
        await until(lambda: told.total() >= before + CALLERS)  # noqa: B023 - awaited before the next round
    done.set()
    await asyncio.gather(*callers)
    assert set(told) == {"ok", "StoreUnavailable"}
    assert await db.read(Call("one", lambda: one("select 1"))) == (1,)


async def test_closing_while_connections_are_terminated_ends(postgres_server, admin):
    for _ in range(10):
        async with fresh_schema(postgres_server) as schema:
            database = await PostgresDatabase.open(postgres_server.dsn, entropy=Dice(), schema=schema, migrations=TINY)
            await asyncio.gather(*(database.write(Call("put", put(f"{n}"))) for n in range(4)), database.changed())
            await asyncio.gather(terminate_all(admin), database.close())


async def test_the_http_gateway_answers_503_while_connections_are_terminated(address):
    admin = await asyncpg.connect(address)
    told: Counter[str] = Counter()
    done = asyncio.Event()

    async with serve(address) as live:

        async def asking(chat):
            n = 0
            while not done.is_set():
                n += 1
                said = await live.say(f"message {n}", chat=chat, id=str(n))
                read = await live.get("/v1/sessions")
                told.update(f"{answer.status_code} {code_of(answer)}" for answer in (said, read) if answer.is_error)
                told["ok"] += said.is_success

        callers = [asyncio.create_task(asking(f"chat {n}")) for n in range(4)]
        for _ in range(ROUNDS // 2):
            before = told.total()
            await admin.fetch(OTHERS, admin.get_server_pid())
            await until(lambda: told.total() >= before + 4)  # noqa: B023 - awaited before the next round
        done.set()
        await asyncio.gather(*callers)
    await admin.close()
    assert set(told) <= {"ok", "503 store_unavailable"}
    assert told["ok"]


async def test_a_server_that_crashes_and_recovers_is_unavailable_meanwhile():
    """PostgreSQL restarts as a whole when one of its processes is killed."""
    server = PostgresServer()
    server.start()
    told: Counter[str] = Counter()
    try:
        async with postgres_database(server, migrations=TINY) as database:
            await database.write(Call("put", put("a")))
            [(pid,)] = await database.read(Call("pid", lambda: rows("select pg_backend_pid()")))
            os.kill(pid, signal.SIGKILL)
            while told["ok"] < CALLERS:
                for call in (lambda: keys(database), lambda: database.write(Call("prove", lambda: one("select 1")))):
                    try:
                        await call()
                    except StoreUnavailable:
                        told["unavailable"] += 1
                    else:
                        told["ok"] += 1
            assert await keys(database) == ["a"]
    finally:
        server.stop()
    assert told["unavailable"]


# --- injected, at each point of each path ----------------------------------------------------------

LOST = [
    psycopg.OperationalError("server closed the connection unexpectedly"),
    psycopg.InterfaceError("the connection is closed"),
    errors.AdminShutdown("terminating connection due to administrator command"),
    ConnectionResetError(104, "Connection reset by peer"),
    TimeoutError(),
]
# A write waits for the server where it needs rows and at its end; the begin, the name and the batch travel with these.
POINTS = {"acquire": (Pool, "acquire", 1), "rows": (Connection, "sync", 1), "commit": (Connection, "sync", 2)}


def fail_once(monkeypatch, point, error, *, after=False):
    """Let a call at the point fail, before its effect or after it. A connection that failed is closed."""
    owner, method, nth = POINTS[point]
    real = getattr(owner, method)
    calls = 0

    async def failing(self, *arguments, **options):
        nonlocal calls
        calls += 1
        if calls < nth:
            return await real(self, *arguments, **options)
        monkeypatch.setattr(owner, method, real)
        if after:
            await real(self, *arguments, **options)
        if isinstance(self, Connection):
            self.terminate()
        raise error

    monkeypatch.setattr(owner, method, failing)


def put_many(key):
    def script():
        yield from rows("select 1")
        yield from many("insert into thing (id, n) values (:id, 0) on conflict (id) do nothing", [{"id": key}])

    return script


@pytest.mark.parametrize(
    ("point", "after"),
    [(point, False) for point in POINTS] + [(point, True) for point in POINTS if point != "acquire"],
)
async def test_a_connection_lost_at_any_point_of_a_write_is_unavailable(db, monkeypatch, point, after):
    for n, error in enumerate(LOST):
        with monkeypatch.context() as patch:
            fail_once(patch, point, error, after=after)
            with pytest.raises(StoreUnavailable) as caught:
                await db.write(Call("put", put_many(f"{n}"), lock="a name"))
            assert caught.value.remedy is Remedy.RETRY
        await db.write(Call("put", put_many(f"{n}"), lock="a name"))
    assert await keys(db) == [f"{n}" for n in range(len(LOST))], "each repeated, none doubled"


@pytest.mark.parametrize("point", ["acquire", "rows"])
async def test_a_connection_lost_at_any_point_of_a_read_is_unavailable(db, monkeypatch, point):
    for error in LOST:
        with monkeypatch.context() as patch:
            fail_once(patch, point, error)
            with pytest.raises(StoreUnavailable):
                await keys(db)
        assert await keys(db) == []


async def test_a_refusal_stands_even_if_the_connection_is_lost_before_its_rollback(db, monkeypatch):
    def refused():
        yield from put("a")()
        yield from rows("select 1")
        raise SessionMoved("it has grown")

    def lost(self, _sql):
        self.terminate()

    monkeypatch.setattr(Connection, "finish", lost)
    with pytest.raises(SessionMoved):
        await db.write(Call("refused", refused))
    assert await keys(db) == []


async def test_a_broken_connection_does_not_go_back_to_the_pool(postgres_server, schema, monkeypatch):
    async with postgres_database(postgres_server, schema=schema, migrations=TINY, pool_size=1) as database:
        ask = lambda: one("select pg_backend_pid()")  # noqa: E731
        before = await database.read(Call("pid", ask))
        with monkeypatch.context() as patch:
            fail_once(patch, "rows", LOST[0])
            with pytest.raises(StoreUnavailable):
                await database.read(Call("pid", ask))
        assert await database.read(Call("pid", ask)) != before


@pytest.mark.parametrize("nth", range(1, 9))
async def test_a_connection_lost_while_a_schema_is_made_is_unavailable(postgres_server, monkeypatch, nth):
    monkeypatch.setitem(POINTS, "statement", (psycopg.AsyncConnection, "execute", nth))
    for error in LOST:
        async with fresh_schema(postgres_server) as schema:
            with monkeypatch.context() as patch:
                fail_once(patch, "statement", error)
                with pytest.raises(StoreUnavailable):
                    await PostgresDatabase.open(postgres_server.dsn, entropy=Dice(), schema=schema, migrations=TINY)
            async with postgres_database(postgres_server, schema=schema, migrations=TINY) as database:
                assert await keys(database) == []


async def test_a_connection_lost_while_hints_pass_is_unavailable(db, monkeypatch):
    monkeypatch.setitem(POINTS, "listen", (Connection, "listen", 1))
    for error in LOST:
        with monkeypatch.context() as patch:
            fail_once(patch, "rows", error)
            with pytest.raises(StoreUnavailable):
                await db.hint()
    for error in LOST:
        with monkeypatch.context() as patch:
            fail_once(patch, "listen", error)
            with pytest.raises(StoreUnavailable):
                await db.changed()
    assert await db.changed(), "no connection listened until now"


async def test_closing_a_database_whose_connections_do_not_come_back_ends(postgres_server, monkeypatch):
    monkeypatch.setattr("holdfast.store.postgres.database.CLOSE_TIMEOUT_S", 0)
    async with postgres_database(postgres_server, migrations=TINY) as database:
        assert isinstance(database, PostgresDatabase)
        lent = await database._pool.acquire()
        await database.close()
        assert lent.is_closed
        database._pool.release(lent)
        with pytest.raises(StoreUnavailable):
            await keys(database)


async def test_a_race_whose_rollback_is_lost_runs_again_on_another_connection(db, monkeypatch):
    runs = 0

    def script():
        nonlocal runs
        runs += 1
        yield from put("a" if runs == 1 else "b")()

    def lost(self, _sql):
        self.terminate()

    await db.write(Call("put", put("a")))
    monkeypatch.setattr(Connection, "finish", lost)
    await db.write(Call("put", script))
    assert await keys(db) == ["a", "b"]
    assert runs == 2 < RETRIES_MAX
