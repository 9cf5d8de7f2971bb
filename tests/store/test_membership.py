"""The promise: a node that proves life within its lease keeps its claims; one that is silent for the whole of it loses
them, and not a moment before (D7). Messages are kept for thirty days after they came."""

import pytest

from holdfast.kernel.machine import AsyncTasks
from holdfast.store.membership import LEASE_MS, Member, PrunePolicy, Reaper
from holdfast.testing import ManualClock
from holdfast.testing.inline_database import InlineDatabase
from tests.support.driver import Driver
from tests.support.ports import make_ports


class Pauses(AsyncTasks):
    """Tasks whose pauses are noted and take no time."""

    def __init__(self):
        super().__init__()
        self.pauses_ms = []

    async def sleep(self, delay_ms):
        self.pauses_ms.append(delay_ms)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
async def two(tmp_path, clock):
    """Two nodes on one store: one that goes on, with its reaper, and one that has a claim and falls silent."""
    database = InlineDatabase(tmp_path / "store.db", clock, synchronous="off")
    db = database
    ports = make_ports(db, clock=clock, tasks=Pauses())
    members = [Member(ports, host=name) for name in ("busy", "silent")]
    for member in members:
        await member.join(sole=False)
    driver = Driver(db, clock)
    await driver.say("hello")
    claim = await driver.claim(node=members[1].node)
    yield driver, Reaper(ports, members[0]), claim
    await database.close()


async def steps_until(reaper, clock, end):
    """The reaper at its own pace, until so late."""
    while clock.now() < end:
        await reaper.step()
        await reaper.rest()
        clock.advance(min(int(reaper._tasks.pauses_ms[-1]), end - clock.now()))


@pytest.mark.parametrize("silent_ms", [LEASE_MS // 3 + 1, LEASE_MS // 2 + 1, LEASE_MS - 1])
async def test_a_node_that_is_silent_for_less_than_its_lease_keeps_its_claim(two, clock, silent_ms):
    driver, reaper, claim = two
    await steps_until(reaper, clock, clock.now() + silent_ms)
    for _ in range(2):  # it reaps at every second step
        await reaper.step()
    await driver.answer(claim, await driver.open(claim))


async def test_a_node_that_is_silent_for_its_lease_loses_its_claim(two, clock):
    driver, reaper, claim = two
    await steps_until(reaper, clock, clock.now() + LEASE_MS)
    for _ in range(2):
        await reaper.step()
    assert await driver.rows("select owner, fence from mailbox") == [(None, claim.fence + 1)]
    assert len(await driver.rows("select 1 from node")) == 1


async def test_a_node_proves_life_several_times_within_its_lease(two):
    _, reaper, _ = two
    await reaper.rest()
    assert 0 < reaper._tasks.pauses_ms[0] * 3 <= LEASE_MS


@pytest.mark.parametrize(("days", "kept"), [(29, 1), (31, 0)])
async def test_a_message_is_kept_for_thirty_days(two, clock, days, kept):
    driver, reaper, claim = two
    await driver.answer(claim, await driver.open(claim))
    clock.advance(days * 24 * 3_600_000)
    for _ in range(PrunePolicy().every_steps):
        await reaper.step()
    assert len(await driver.rows("select 1 from inbound")) == kept
