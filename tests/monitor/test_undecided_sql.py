"""What waits at providers and platforms is listed by its lane, and a replay says what it would do before it does it."""

import pytest

from holdfast.kernel.errors import DeliveryNotFound
from holdfast.kernel.ids import DeliveryId
from holdfast.memory.delivery import DeliveryState
from holdfast.memory.replay_sql import replay_delivery
from holdfast.monitor.undecided_sql import list_lanes, list_parked, list_undecided_replies, plan_replay
from holdfast.outbox.post import ReplyState
from tests.monitor.stories import Story, retain


async def test_lanes_are_listed_by_their_oldest_delivery_with_the_head_and_what_waits_behind_it(driver):
    driver.policies = retain("local", "honcho")
    story = Story(driver)
    for text in ("one", "two"):
        await driver.talk(text)
        story.passes(10)
    found = await driver.db.read(list_lanes())
    assert found.count == 2
    assert [(one.waiting, one.from_turn, one.through_turn) for one in found.lanes] == [(2, 1, 2)] * 2
    assert {one.provider for one in found.lanes} == {"honcho", "local"}
    assert [one.state for one in found.lanes] == ["scheduled", "scheduled"]
    assert len((await driver.db.read(list_lanes(limit=1))).lanes) == 1


async def test_a_replay_is_planned_without_changing_anything(driver):
    driver.policies = retain("local")
    story = Story(driver)
    await driver.talk("one")
    await story.delivers("local", DeliveryState.PARKED, reason="too large")
    (parked,) = await driver.db.read(list_parked())
    await driver.talk("two")
    plan = await driver.db.read(plan_replay(DeliveryId(parked.id)))
    assert (plan.delivery.state, plan.asks_first, plan.waiting, plan.newer) == ("parked", False, 1, 0)
    await story.delivers("local", DeliveryState.DELIVERED)
    assert (await driver.db.read(plan_replay(DeliveryId(parked.id)))).newer == 1
    assert (await driver.db.read(list_parked())) == [parked]
    assert await driver.db.write(replay_delivery(DeliveryId(parked.id))) == "scheduled"
    assert await driver.db.read(list_parked()) == []
    with pytest.raises(DeliveryNotFound):
        await driver.db.read(plan_replay(DeliveryId("local:ses_nothing:1")))


async def test_replies_that_a_person_decides_are_listed_newest_first(driver):
    story = Story(driver)
    for state in (ReplyState.UNCERTAIN, ReplyState.FAILED, ReplyState.DELIVERED):
        await driver.talk("hello", channel="telegram")
        await story.sends(state, reason="who knows")
    found = await driver.db.read(list_undecided_replies())
    assert [one.state for one in found] == ["failed", "uncertain"]
