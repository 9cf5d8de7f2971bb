"""The promise: on PostgreSQL a script is one transaction, run again when it lost a race, and never half done.

Schedules are made with row locks, advisory locks and events: nothing here waits for time to pass.
"""

import asyncio
from contextlib import asynccontextmanager

import asyncpg  # type: ignore[import-untyped]
import pytest

from holdfast.kernel.errors import (
    ClaimLost,
    ConfigInvalid,
    InvariantBroken,
    StoreCorrupt,
    StoreNewer,
    StoreReadOnly,
    StoreUnavailable,
)
from holdfast.store.postgres import PostgresDatabase
from holdfast.store.postgres.database import RETRIES_MAX
from holdfast.store.schema import read_steps
from holdfast.store.script import Call, many, one, rows, run
from tests.support.servers import Dice, fresh_schema, postgres_database, set_now, use_test_clock

TINY = (
    """
    create table thing (id text primary key, n int8 not null check (n >= 0), body bytes) /*strict*/;
    create index thing_n on thing (n);
    """,
)
GATE = 4711
WAITERS = "select count(*) from pg_locks where locktype = 'advisory' and not granted"


@pytest.fixture
async def schema(postgres_server):
    async with fresh_schema(postgres_server) as name:
        yield name


@pytest.fixture
async def db(postgres_server, schema):
    async with postgres_database(postgres_server, schema=schema, migrations=TINY) as database:
        yield database


@pytest.fixture
async def rival(postgres_server, schema, db):
    """A bare connection to the same schema, for the other side of a schedule."""
    connection = await asyncpg.connect(postgres_server.dsn, server_settings={"search_path": schema})
    yield connection
    await connection.close()


def put(key, n=0):
    return lambda: run("insert into thing (id, n) values (:id, :n)", id=key, n=n)


async def keys(database):
    return [key for (key,) in await database.read(Call("keys", lambda: rows("select id from thing order by id")))]


@asynccontextmanager
async def closed_gate(connection):
    """While it lasts, scripts that ask for the gate wait in the database."""
    await connection.execute("select pg_advisory_lock($1)", GATE)
    try:
        yield
    finally:
        await connection.execute("select pg_advisory_unlock($1)", GATE)


def pass_gate():
    return run("select pg_advisory_xact_lock_shared(:gate)", gate=GATE)


# --- one transaction -----------------------------------------------------------------------------


async def test_rows_come_back_as_tuples_in_the_order_of_the_select(db):
    await db.write(Call("put", lambda: many("insert into thing (id, n) values (:id, :n)", [
        {"id": "a", "n": 1}, {"id": "b", "n": 2},
    ])))  # fmt: skip
    assert await db.read(Call("all", lambda: rows("select n, id from thing order by n"))) == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("sqlstate", ["XX001", "XX002"])
async def test_damage_that_the_server_tells_of_stands_until_the_end(db, sqlstate):
    """What the server raises for a damaged table or index, by its own SQLSTATE."""
    told = f"do $$ begin raise exception 'invalid page in block 7' using errcode = '{sqlstate}'; end $$"
    with pytest.raises(StoreCorrupt):
        await db.read(Call("damaged", lambda: run(told)))
    assert await db.read(Call("whole", lambda: rows("select 1"))) == [(1,)]
    assert "invalid page in block 7" in str(db.damage)


async def test_a_script_without_a_statement_is_answered(db):
    def script():
        return "done"
        yield

    assert await db.write(Call("nothing", script)) == "done"


async def test_a_script_that_raises_leaves_no_trace(db):
    def script():
        yield from put("a")()
        raise ClaimLost("a younger claim holds the mailbox")

    with pytest.raises(ClaimLost):
        await db.write(Call("put", script))
    assert await keys(db) == []


async def test_a_statement_that_fails_takes_the_whole_script_with_it(db):
    def script():
        yield from put("a")()
        yield from put("b", n=-1)()

    with pytest.raises(InvariantBroken, match="thing_n_check"):
        await db.write(Call("put", script))
    assert await keys(db) == []


async def test_a_script_that_forgets_a_parameter_is_our_bug(db):
    with pytest.raises(InvariantBroken, match="'n'"):
        await db.write(Call("put", lambda: run("insert into thing (id, n) values (:id, :n)", id="a")))


async def test_a_cancelled_script_leaves_no_trace_and_gives_its_connection_back(postgres_server, schema, rival):
    async with postgres_database(postgres_server, schema=schema, migrations=TINY, pool_size=1) as database:
        waiting = asyncio.Event()

        def script():
            yield from put("a")()
            waiting.set()
            yield from pass_gate()

        async with closed_gate(rival):
            task = asyncio.create_task(database.write(Call("put", script)))
            await waiting.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await keys(database) == []


async def test_a_read_sees_one_moment(db, rival):
    def script():
        before = yield from rows("select id from thing")
        gap.set()
        yield from pass_gate()
        after = yield from rows("select id from thing")
        return before, after

    gap = asyncio.Event()
    async with closed_gate(rival):
        reading = asyncio.create_task(db.read(Call("twice", script)))
        await gap.wait()
        await rival.execute("insert into thing (id, n) values ('a', 0)")
    assert await reading == ([], [])


async def test_a_read_cannot_write(db):
    with pytest.raises(StoreReadOnly):
        await db.read(Call("put", put("a")))


async def test_sums_are_whole_numbers_and_averages_are_floats(db):
    await db.write(Call("put", put("a", n=1)))
    await db.write(Call("put", put("b", n=2)))
    found = await db.read(Call("sum", lambda: one("select sum(n), avg(n), count(*) from thing")))
    assert found == (3, 1.5, 2)
    assert [type(value) for value in found] == [int, float, int]


async def test_a_commit_is_durable_even_where_the_server_is_set_otherwise(db, rival):
    assert await rival.fetchval("show synchronous_commit") == "off"
    assert await db.read(Call("show", lambda: one("show synchronous_commit"))) == ("on",)


# --- races ---------------------------------------------------------------------------------------


async def test_a_lost_race_for_a_key_is_run_again_and_finds_the_winner(db, rival):
    runs = 0

    def script():
        nonlocal runs
        runs += 1
        if (yield from one("select id from thing where id = :id", id="a")):
            return "found"
        looked.set()
        yield from put("a")()
        return "made"

    looked = asyncio.Event()
    rivals = rival.transaction()
    await rivals.start()
    await rival.execute("insert into thing (id, n) values ('a', 0)")
    writing = asyncio.create_task(db.write(Call("put", script)))
    await looked.wait()  # it saw nothing, for the rival has not committed
    await rivals.commit()
    assert await writing == "found"
    assert runs == 2


async def test_a_deadlock_is_run_again(db, rival):
    await db.write(Call("put", put("a")))
    await db.write(Call("put", put("b")))
    runs = []

    def locking(first, second, holding):
        def script():
            runs.append(first)
            yield from one("select n from thing where id = :id /*lock*/", id=first)
            holding.set()
            yield from pass_gate()
            yield from run("update thing set n = n + 1 where id = :id", id=second)

        return script

    holding_a, holding_b = asyncio.Event(), asyncio.Event()
    async with closed_gate(rival):
        one_way = asyncio.create_task(db.write(Call("a then b", locking("a", "b", holding_a))))
        other_way = asyncio.create_task(db.write(Call("b then a", locking("b", "a", holding_b))))
        await holding_a.wait()
        await holding_b.wait()
    await asyncio.gather(one_way, other_way)
    # Twice is possible: a victim may take its row again before the survivor has woken up.
    assert len(runs) >= 3, "one of the two was the victim"
    assert await db.read(Call("sum", lambda: rows("select n from thing"))) == [(1,), (1,)]


async def test_a_race_that_is_lost_every_time_ends(db):
    await db.write(Call("put", put("a")))
    runs = 0

    def script():
        nonlocal runs
        runs += 1
        yield from put("a")()

    with pytest.raises(StoreUnavailable, match="thing_pkey"):
        await db.write(Call("put", script))
    assert runs == RETRIES_MAX + 1


async def test_locked_rows_are_passed_over(db, rival):
    await db.write(Call("put", put("a")))
    await db.write(Call("put", put("b")))
    async with rival.transaction():
        await rival.execute("select from thing where id = 'a' for update")
        found = await db.write(Call("claim", lambda: rows("select id from thing order by id /*skip locked*/")))
    assert found == [("b",)]


async def test_a_statement_prepared_before_a_migration_is_prepared_again(postgres_server, schema, rival):
    async with postgres_database(postgres_server, schema=schema, migrations=TINY, pool_size=1) as database:
        await database.write(Call("put", put("a")))
        everything = lambda: rows("select * from thing")  # noqa: E731
        assert await database.read(Call("all", everything)) == [("a", 0, None)]
        await rival.execute("alter table thing add column later int8")
        assert await database.read(Call("all", everything)) == [("a", 0, None, None)]


# --- the server goes away ------------------------------------------------------------------------


async def test_a_killed_backend_is_unavailable_and_the_next_script_works(db, rival):
    def script():
        yield from put("a")()
        backend.set_result((yield from rows("select pg_backend_pid()"))[0][0])
        yield from pass_gate()

    backend = asyncio.get_running_loop().create_future()
    async with closed_gate(rival):
        writing = asyncio.create_task(db.write(Call("put", script)))
        assert await rival.fetchval("select pg_terminate_backend($1)", await backend)
        with pytest.raises(StoreUnavailable):
            await writing
    assert await keys(db) == []
    await db.write(Call("put", put("a")))
    assert await keys(db) == ["a"]


async def test_an_unreachable_server_is_unavailable(tmp_path):
    with pytest.raises(StoreUnavailable):
        await PostgresDatabase.open(f"postgresql://x@/x?host={tmp_path}", entropy=Dice())


async def test_a_missing_database_is_the_operators_to_correct(postgres_server):
    with pytest.raises(ConfigInvalid, match="nowhere"):
        await PostgresDatabase.open(postgres_server.dsn.replace("/postgres?", "/nowhere?"), entropy=Dice())


async def test_a_closed_database_is_unavailable(db):
    await db.close()
    with pytest.raises(StoreUnavailable):
        await db.write(Call("put", put("a")))


# --- migrations ----------------------------------------------------------------------------------


async def test_nodes_that_start_together_migrate_once(postgres_server, schema):
    admin = await asyncpg.connect(postgres_server.dsn)
    async with admin.transaction():
        await admin.execute("select pg_advisory_xact_lock(hashtextextended($1, 0))", f"holdfast:{schema}")
        opening = [
            asyncio.create_task(
                PostgresDatabase.open(postgres_server.dsn, entropy=Dice(n), schema=schema, migrations=TINY)
            )
            for n in range(2)
        ]
        while await admin.fetchval(WAITERS) < len(opening):
            pass  # each question gives them time to arrive at the lock
    first, second = await asyncio.gather(*opening)  # `create table` a second time would fail
    await first.write(Call("put", put("a")))
    assert await keys(second) == ["a"]
    for database in (first, second):
        await database.close()
    await admin.close()


async def test_a_newer_schema_is_refused_and_left_untouched(postgres_server, schema, db, rival):
    await rival.execute("update holdfast_meta set value = '2' where key = 'schema_version'")
    with pytest.raises(StoreNewer):
        await PostgresDatabase.open(postgres_server.dsn, entropy=Dice(), schema=schema, migrations=TINY)
    assert await rival.fetchval("select value from holdfast_meta where key = 'schema_version'") == "2"


async def test_a_migration_that_fails_leaves_the_version_before_it(postgres_server, schema, db, rival):
    broken = (*TINY, "create table other (id text); create table thing (id text);")
    with pytest.raises(InvariantBroken, match="thing"):
        await PostgresDatabase.open(postgres_server.dsn, entropy=Dice(), schema=schema, migrations=broken)
    assert await rival.fetchval("select value from holdfast_meta where key = 'schema_version'") == "1"
    assert await rival.fetchval("select to_regclass('other')") is None


@pytest.fixture
async def humble(postgres_server, schema):
    """A role that may not create schemas, and the way in for it."""
    role = f"{schema}_app"
    admin = await asyncpg.connect(postgres_server.dsn)
    await admin.execute(f"create role {role} login")
    yield admin, role, postgres_server.dsn.replace("postgres@", f"{role}@")
    await admin.execute(f"drop owned by {role} cascade")
    await admin.execute(f"drop role {role}")
    await admin.close()


async def test_a_schema_that_the_operator_made_is_filled(schema, humble):
    admin, role, dsn = humble
    await admin.execute(f"create schema {schema} authorization {role}")
    database = await PostgresDatabase.open(dsn, entropy=Dice(), schema=schema, migrations=TINY)
    await database.write(Call("put", put("a")))
    await database.close()


async def test_an_up_to_date_schema_opens_without_the_right_to_create(schema, db, humble):
    admin, role, dsn = humble
    await admin.execute(f"grant usage on schema {schema} to {role}")
    await admin.execute(f"grant all on all tables in schema {schema} to {role}")
    database = await PostgresDatabase.open(dsn, entropy=Dice(), schema=schema, migrations=TINY)
    await database.write(Call("put", put("a")))
    await database.close()


async def test_a_role_without_rights_is_the_operators_to_repair(schema, humble):
    _, _, dsn = humble
    with pytest.raises(StoreReadOnly):
        await PostgresDatabase.open(dsn, entropy=Dice(), schema=schema, migrations=TINY)


@pytest.mark.parametrize("name", ["", "Holdfast", "a-b", "1a", "pg_mine", 'x"; drop', "x" * 49])
async def test_a_schema_name_that_needs_quoting_is_refused(postgres_server, name):
    with pytest.raises(ConfigInvalid):
        await PostgresDatabase.open(postgres_server.dsn, entropy=Dice(), schema=name)


async def test_the_shipped_schema_applies(postgres_server):
    async with postgres_database(postgres_server) as database:
        found = await database.read(Call("version", lambda: one("select value from holdfast_meta")))
        assert found == (str(len(read_steps())),)


# --- time ----------------------------------------------------------------------------------------


def ask_now():
    return one("select :now")


async def test_the_store_tells_time_by_its_own_clock(db, rival):
    seconds = await rival.fetchval("select extract(epoch from clock_timestamp())::float8")
    (now,) = await db.read(Call("now", ask_now))
    assert abs(now - seconds * 1_000) < 60_000


async def test_a_due_time_is_found_through_the_index(db):
    def script():
        yield from run("set local enable_seqscan = off")
        return (yield from rows("explain select id from thing where n <= :now"))

    plan = "\n".join(line for (line,) in await db.write(Call("explain", script)))
    assert "Index Cond" in plan
    assert "holdfast_now" not in plan, "the call is inlined"


async def test_a_set_clock_is_seen_by_every_node(postgres_server, schema, db):
    async with postgres_database(postgres_server, schema=schema, migrations=TINY) as other:
        await other.read(Call("now", ask_now))  # a plan with the real clock in it is already prepared
        await use_test_clock(db)
        await set_now(db, 1_000)
        assert await other.read(Call("now", ask_now)) == (1_000,)
        await set_now(other, 500)  # time may be set back
        assert await db.read(Call("now", ask_now)) == (500,)


async def test_a_database_follows_a_simulated_clock(postgres_server):
    class Stopped:
        ms = 42

        def now(self):
            return self.ms

    clock = Stopped()
    async with postgres_database(postgres_server, clock, migrations=TINY) as database:
        assert await database.read(Call("now", ask_now)) == (42,)
        clock.ms = 43
        assert await database.write(Call("now", ask_now)) == (43,)


# --- hints ---------------------------------------------------------------------------------------


async def heard(database):
    """Ask until it has arrived; a hint that never does runs into the suite's time limit."""
    while not await database.changed():
        await database.read(Call("tick", ask_now))
    return True


async def test_a_hint_reaches_the_other_node_and_not_the_one_that_gave_it(postgres_server, schema, db):
    async with postgres_database(postgres_server, schema=schema, migrations=TINY) as other:
        for database in (db, other):
            assert await database.changed(), "no connection listened until now, so anything may have changed"
            assert not await database.changed()
        await db.hint()
        assert await heard(other)
        await db._hints._listener.fetch("select 1", timeout_s=10)  # its own hint, sent before this, has arrived with it
        assert not await db.changed()


async def test_many_hints_become_few(db, schema, rival):
    sent = []
    await rival.add_listener(f"{schema}_hint", lambda *args: sent.append(args))
    await asyncio.gather(*(db.hint() for _ in range(100)))
    await rival.execute("select 1")  # what was sent before has arrived
    assert len(sent) == 2, "one at once and one for all that came meanwhile"


async def test_a_lost_listener_listens_again_and_says_so(db, rival):
    await db.changed()
    assert not await db.changed()
    await rival.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name = 'holdfast' and query ilike 'listen%'"
    )
    assert await heard(db)


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
async def test_a_text_that_cannot_be_stored_whole_is_refused_and_not_cut_off(db, text):
    with pytest.raises(InvariantBroken) as caught:
        await db.write(Call("put", put(text)))
    assert "a" + "b" not in str(caught.value)
    assert await keys(db) == []
    await db.write(Call("put", put("whole")))
    assert await keys(db) == ["whole"]
