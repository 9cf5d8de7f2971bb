"""Replaying a parked delivery delivers nothing twice and brings back nothing that was undone."""

from holdfast.kernel.ids import DeliveryId
from holdfast.memory.delivery import DeliveryState
from holdfast.memory.replay_sql import replay_delivery
from tests.memory.test_lane_sql import marks, said, settle, states, take
from tests.support.driver import retain

EACH = (retain(),)


async def test_an_uncertain_parked_unit_is_asked_about_before_it_is_resent(driver):
    driver.policies = EACH
    session = await driver.chat("one")
    (claim,) = await take(driver)
    await settle(driver, claim, DeliveryState.UNCERTAIN, reason="no answer")
    (claim,) = await take(driver)
    await settle(driver, claim, DeliveryState.PARKED, reason="unknown whether it landed")
    assert await driver.db.write(replay_delivery(DeliveryId(f"mem:{session}:1"))) == "uncertain"
    (claim,) = await take(driver)
    assert (claim.packages[0].ask, claim.packages[0].late) == (True, True)


async def test_what_was_refused_is_sent_again_without_asking(driver):
    driver.policies = EACH
    session = await driver.chat("one")
    (claim,) = await take(driver)
    await settle(driver, claim, DeliveryState.PARKED, reason="too long")
    assert await driver.db.write(replay_delivery(DeliveryId(f"mem:{session}:1"))) == "scheduled"
    (claim,) = await take(driver)
    assert not claim.packages[0].ask


async def test_a_parked_unit_that_was_undone_is_dropped_instead_of_replayed(driver):
    driver.policies = EACH
    session = await driver.chat("one")
    (claim,) = await take(driver)
    await settle(driver, claim, DeliveryState.PARKED, reason="too long")
    await driver.command("/undo")
    (claim,) = await take(driver)
    await settle(driver, claim)
    assert await driver.db.write(replay_delivery(DeliveryId(f"mem:{session}:1"))) == "dropped"
    assert await take(driver) == []
    assert await states(driver) == ["dropped", "delivered"]


async def test_a_parked_unit_is_replayed_without_its_turns_that_were_undone(driver):
    driver.policies = (retain(every_turns=2),)
    session = await driver.chat("one", "two")
    (claim,) = await take(driver)
    assert said(claim) == [["one", "re: one", "two", "re: two"]]
    await settle(driver, claim, DeliveryState.PARKED, reason="too long")
    await driver.command("/undo")
    (claim,) = await take(driver)
    await settle(driver, claim)
    assert await driver.db.write(replay_delivery(DeliveryId(f"mem:{session}:1"))) == "scheduled"
    (claim,) = await take(driver)
    assert said(claim) == [["one", "re: one"]]


async def test_turns_that_were_undone_one_after_the_other_are_all_left_out(driver):
    driver.policies = (retain(every_turns=3),)
    session = await driver.chat("one", "two", "three")
    (claim,) = await take(driver)
    await settle(driver, claim, DeliveryState.PARKED, reason="too long")
    for _ in range(2):
        await driver.command("/undo")
        (claim,) = await take(driver)
        await settle(driver, claim)
    assert await driver.db.write(replay_delivery(DeliveryId(f"mem:{session}:1"))) == "scheduled"
    (claim,) = await take(driver)
    assert said(claim) == [["one", "re: one"]]


async def test_the_mark_moves_over_a_unit_that_undo_dropped(driver):
    driver.policies = EACH
    await driver.chat("one")
    await driver.command("/undo")
    assert await states(driver) == ["dropped"]
    assert await marks(driver) == [(2, 2)]


async def test_a_settlement_says_under_which_fence_it_was_made(driver):
    driver.policies = EACH
    await driver.chat("one")
    (claim,) = await take(driver)
    await settle(driver, claim)
    assert await driver.rows("select fence, lease_fence from delivery") == [(claim.fence, claim.fence)]
