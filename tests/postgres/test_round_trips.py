"""How often a script waits for PostgreSQL, counted on the connection.

A no-tool turn waits at most 6 times, an accept at most 2 times: rows that do not depend on each other are asked for at
once, and statements without rows travel with the next ones or with COMMIT.

Rules: D31.
"""

from collections import Counter

import pytest

from holdfast.kernel.errors import ClaimLost
from holdfast.kernel.ids import AgentName
from holdfast.store.postgres.database import Transaction
from holdfast.store.script import Call, Query, many, one, rows, run, together
from holdfast.testing import ManualClock
from tests.runtime.test_cost import serving
from tests.support.engines import open_engine

TURN_MAX = 6
ACCEPT_MAX = 2
STEP_MAX = 3


@pytest.fixture
async def database(postgres_server, tmp_path):
    async with open_engine("postgres", tmp_path, ManualClock(), postgres_server) as opened:
        yield opened


@pytest.fixture
def trips(monkeypatch):
    """The round trips of each verb."""
    counted: Counter[str] = Counter()
    honest = Transaction.run

    async def run_counted(self):
        before = self._connection.round_trips
        try:
            return await honest(self)
        finally:
            counted[self._call.verb] += self._connection.round_trips - before

    monkeypatch.setattr(Transaction, "run", run_counted)
    return counted


async def test_a_turn_without_tools_waits_at_most_six_times_and_an_accept_twice(database, tmp_path, trips):
    agent = AgentName("main")
    async with serving(database, database._clock, tmp_path, [agent]) as node:
        for _ in range(3):
            await node.ask(agent)
        await node.warm()
        trips.clear()
        await node.ask(agent)
    assert trips["accept_message"] <= ACCEPT_MAX
    assert trips["claim_work"] + trips["end_turn"] <= TURN_MAX
    assert trips["take_step"] <= STEP_MAX, "a recall is one more step"


def only_changes():
    yield from run("insert into node (id, host, started_at, heartbeat_at) values (:id, 'here', 0, 0)", id="a")
    yield from many("update node set host = :host where id = 'a'", [{"host": "there"}, {"host": "elsewhere"}])


def looks():
    yield from run("update node set host = :host where id = 'a'", host="at last")
    first, second = yield from together(Query("select host from node", {}), Query("select :n + 1", {"n": 1}))
    return first, second


@pytest.mark.parametrize(
    ("write", "script", "waits"),
    [
        (True, only_changes, 1),
        (True, looks, 2),
        (False, lambda: rows("select host from node"), 1),
        (True, lambda: one("select 1"), 2),
    ],
)
async def test_a_script_waits_once_for_each_time_it_looks_and_a_write_once_more(database, trips, write, script, waits):
    await database.write(Call("prepare", only_changes if script is looks else lambda: run("select 1")))
    await (database.write if write else database.read)(Call("script", script))
    assert trips["script"] == waits


async def test_a_change_is_seen_by_the_look_that_follows_it(database):
    await database.write(Call("prepare", only_changes))
    assert await database.write(Call("looks", looks)) == ([("at last",)], [(2,)])


async def test_a_connection_keeps_one_prepared_statement_for_each_text(database):
    for _ in range(20):
        await database.read(Call("look", lambda: rows("select host from node")))
        await database.write(Call("note", lambda: run("select 1")))
        with pytest.raises(ClaimLost):
            await database.write(Call("refused", refused))
    kept = await database.read(
        Call("kept", lambda: rows("select statement, count(*) from pg_prepared_statements group by 1"))
    )
    assert {count for _, count in kept} == {1}


def refused():
    yield from rows("select 1")
    raise ClaimLost("a younger claim")
