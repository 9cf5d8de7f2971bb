"""A claim whose answer was lost is returned again under its name, also when its COMMIT ends only after the repeat was
requested. A repeat that missed it would leave work claimed and never done.
"""

import asyncio
from typing import cast

import asyncpg  # type: ignore[import-untyped]
import pytest

from holdfast.inbox.mailbox_sql import claim_mailbox, claim_mailboxes, release_claim
from holdfast.kernel.ids import AgentName, Instant, Provider
from holdfast.memory.lane import LaneKey
from holdfast.memory.lane_sql import claim_lanes
from holdfast.outbox.reply_sql import claim_replies
from holdfast.sessions.finalisation import Ending
from holdfast.sessions.finalisation_sql import begin_finalisation, claim_finalisation
from holdfast.store.node_sql import register_node
from holdfast.store.ports import Database
from holdfast.store.script import Call, run
from holdfast.testing import ManualClock
from holdfast.turns.turn_sql import commit_turn
from tests.support.driver import Driver, retain
from tests.support.servers import fresh_schema, postgres_database

GATE = 4713
SECRET = b"a secret of the tests"
KEY = LaneKey(AgentName("fern"), Provider("mem"))
WAITING = """select count(*) from pg_locks where locktype = 'advisory' and not granted
and pid in (select pid from pg_stat_activity where application_name = 'holdfast')"""


class Late:
    """A database whose commits wait at a gate."""

    def __init__(self, database):
        self._database = database
        self.written = asyncio.Event()

    async def write(self, call):
        def held():
            value = yield from call
            self.written.set()
            yield from run("select pg_advisory_xact_lock_shared(:gate)", gate=GATE)
            return value

        return await self._database.write(Call(call.verb, held, call.lock))


async def waits_for_mail(driver):
    await driver.say("hello")


async def waits_for_memory(driver):
    driver.policies = (retain(),)
    await driver.chat("one")


async def waits_for_its_channel(driver):
    await driver.accept(driver.arrival("hello", channel="telegram"))
    claim = await driver.db.write(claim_mailbox(driver.node))
    await driver.db.write(commit_turn(claim, await driver.open(claim), driver.commit("hi")))
    await driver.db.write(release_claim(claim))


async def waits_for_its_end(driver):
    session, before = await driver.chat("one"), Instant(1 << 60)
    await driver.db.write(begin_finalisation(Ending(session=session, epoch=1, cause="idle", active_before=before)))


async def lanes_of(db, node):
    return [(claim.place, claim.fence) for claim in await db.write(claim_lanes(node, KEY, name="n1"))]


@pytest.mark.parametrize(
    ("prepare", "claim"),
    [
        (waits_for_mail, lambda db, node: db.write(claim_mailbox(node, name="n1"))),
        (waits_for_mail, lambda db, node: db.write(claim_mailboxes(node, name="n1", limit=4))),
        (waits_for_memory, lanes_of),
        (
            waits_for_its_channel,
            lambda db, node: db.write(claim_replies(node, KEY.agent, "telegram", name="n1", limit=4)),
        ),
        (waits_for_its_end, lambda db, node: db.write(claim_finalisation(node, name="n1"))),
    ],
    ids=["mailbox", "mailboxes", "lanes", "replies", "finalisation"],
)
async def test_a_repeat_waits_for_the_commit_that_is_under_way(postgres_server, prepare, claim):
    clock = ManualClock()
    async with (
        fresh_schema(postgres_server) as schema,
        postgres_database(postgres_server, schema=schema, clock=clock) as db,
    ):
        driver = Driver(db, clock)
        await driver.db.write(register_node(driver.node, "here", sole=False))
        await prepare(driver)
        watch, late = await asyncpg.connect(postgres_server.dsn), Late(db)
        await watch.execute("select pg_advisory_lock($1)", GATE)
        first = asyncio.create_task(claim(cast("Database", late), driver.node))
        await late.written.wait()
        again = asyncio.create_task(claim(driver.db, driver.node))
        while not again.done() and await watch.fetchval(WAITING) < 2:  # the commit, and who waits for it
            pass
        await watch.close()
        claimed = await first
        assert claimed
        assert await again == claimed
