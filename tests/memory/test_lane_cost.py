"""What a delivery costs the store does not depend on how many deliveries wait behind it, nor on how many lanes wait.

Counted in rows that PostgreSQL reads and in steps of SQLite's machine, so that it is the same on every machine.
"""

from typing import cast

import pytest

from holdfast.kernel.ids import AgentName
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.memory.delivery import DeliveryState
from holdfast.memory.lane import LaneKey, Settlement
from holdfast.memory.lane_sql import claim_lanes, settle_lanes
from holdfast.store.node_sql import register_node
from holdfast.store.script import Call, many, rows, run
from holdfast.testing import ManualClock
from holdfast.testing.inline_database import InlineDatabase
from tests.support.counting import CountingDatabase
from tests.support.driver import Driver, retain
from tests.support.engines import open_engine

KEY = LaneKey(AgentName("fern"), ProviderName("mem"))
GROWS_BY_MAX = 1.5  # trees get deeper
READ = "select coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0) from pg_stat_xact_user_tables"
WAITING = """
insert into delivery (id, agent, provider, place, stream, from_seq, through_seq, from_turn, through_turn, op, principal,
                      state, due_at, at)
values (:id, 'fern', 'mem', :place, :stream, :seq, :seq, 1, 1, 'retain', 'ada', 'scheduled', :now, :now)"""


def more(place, stream, first, last):
    yield from many(
        WAITING,
        [{"id": f"mem:{stream}:{n}", "place": place, "stream": stream, "seq": n} for n in range(first, last)],
    )


def taken_and_settled(node):
    claims = yield from claim_lanes(node, KEY, name="c", lanes=1, units=1, renderer="r")
    done = [Settlement(n=package.n, state=DeliveryState.DELIVERED) for package in claims[0].packages]
    yield from settle_lanes([(claims[0], done)])
    return len(claims)


def counted(node):
    ((before,),) = yield from rows(READ)
    yield from taken_and_settled(node)
    ((after,),) = yield from rows(READ)
    return after - before


@pytest.mark.parametrize("engine", ["inline", "postgres"])
async def test_a_delivery_of_a_long_lane_costs_what_one_of_a_short_lane_does(engine, tmp_path, request):
    clock, steps = ManualClock(), 0
    server = request.getfixturevalue("postgres_server") if engine == "postgres" else None
    async with open_engine(engine, tmp_path, clock, server) as database:
        driver = Driver(database, clock)
        await database.write(register_node(driver.node, "here", sole=False))
        driver.policies = (retain(),)
        session = await driver.chat("one")
        ((place,),) = await driver.rows("select place from lane")

        async def cost():
            nonlocal steps
            if engine == "postgres":
                return await database.write(Call("cost", lambda: counted(driver.node)))
            steps = 0
            cast("InlineDatabase", database)._db.set_progress_handler(step, 1)
            await database.write(Call("cost", lambda: taken_and_settled(driver.node)))
            cast("InlineDatabase", database)._db.set_progress_handler(None)
            return steps

        def step():
            nonlocal steps
            steps += 1
            return False

        await cost()
        if engine == "postgres":  # plans that are made while the table is small and kept
            await database.write(Call("analyze", lambda: run("analyze delivery")))
            for word in ("two", "three", "four", "five", "six", "seven", "eight"):
                await driver.talk(word)
                await cost()
        await driver.talk("nine")
        await database.write(Call("more", lambda: more(place, session, 1_000, 1_010)))
        short = await cost()
        await database.write(Call("more", lambda: more(place, session, 2_000, 12_000)))
        long = await cost()
    assert long <= GROWS_BY_MAX * short


async def test_the_statements_of_a_claim_do_not_depend_on_the_lane(driver):
    driver.policies = (retain(),)
    await driver.chat("one", "two", "three")
    db = CountingDatabase(driver.db)
    costs = []
    for n in range(3):
        with db.measured() as found:
            (claim,) = await db.write(claim_lanes(driver.node, KEY, name=f"c{n}", lanes=1, units=1, renderer="r"))
            done = [Settlement(n=package.n, state=DeliveryState.DELIVERED) for package in claim.packages]
            due_in_ms = await db.write(settle_lanes([(claim, done)]))
        costs.append((found.transaction_count, found.statement_count))
        assert due_in_ms == (0 if n < 2 else None), "a settlement says when the lane is due again"
    assert costs == [(2, 11)] * 3
