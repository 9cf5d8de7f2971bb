"""The promise: every attempt that did not settle a delivery or a reply can be read later, with the vendor's answer; the
number of attempts that are kept is bounded.

Rules: D35.
"""

from holdfast.kernel.ids import NodeId, Provider
from holdfast.kernel.vendor_error import VendorError
from holdfast.memory.delivery import DeliveryState
from holdfast.memory.lane import LaneKey, Settlement
from holdfast.memory.lane_sql import claim_lanes, settle_lanes
from holdfast.monitor.attempt import KEPT_MAX, AttemptKind
from holdfast.monitor.attempt_sql import list_attempts
from holdfast.outbox.post import ReplyState
from holdfast.outbox.reply import ReplySettlement
from holdfast.outbox.reply_sql import claim_replies, list_replies, settle_reply
from holdfast.sessions.history_sql import list_deliveries
from holdfast.store.node_sql import reap_nodes, register_node
from holdfast.store.script import Call, rows
from tests.monitor.stories import FERN, Story, retain

GATEWAY = VendorError(status=502, request_id="req_1", code="bad_gateway", extract="try later")


def attempts(driver, kind, n):
    return driver.db.read(Call("list_attempts", lambda: list_attempts(kind, n)))


async def of_delivery(driver):
    (view,) = await driver.db.read(list_deliveries())
    return await attempts(driver, AttemptKind.DELIVERY, view.n)


async def of_reply(driver):
    (ledger,) = await driver.db.read(list_replies())
    found = await driver.db.read(Call("n", lambda: _reply_n(ledger.id)))
    return await attempts(driver, AttemptKind.REPLY, found)


def _reply_n(reply):
    ((n,),) = yield from rows("select n from reply where id = :id", id=reply)
    return n


async def told(driver):
    story = Story(driver)
    driver.policies = retain("honcho")
    await story.says(channel="telegram")
    claim, turn = await story.begins()
    await story.answers(claim, turn)
    return story


async def test_a_failed_delivery_leaves_its_attempt_with_the_vendors_answer(driver):
    story = await told(driver)
    began = driver.clock.now()
    failed = {"reason": "the server failed", "failing": True, "vendor": GATEWAY, "delay_ms": 5}
    await story.delivers("honcho", DeliveryState.SCHEDULED, **failed)
    (one,) = await of_delivery(driver)
    assert (one.attempt, one.node, one.outcome, one.reason) == (1, driver.node, "failed", "the server failed")
    assert (one.started_at, one.ended_at) == (began, began + 90)
    assert (one.status, one.request_id, one.code, one.extract) == (502, "req_1", "bad_gateway", "try later")
    story.passes(5)
    await story.delivers("honcho", DeliveryState.UNCERTAIN, reason="no answer")
    story.passes(1)
    await story.delivers("honcho", DeliveryState.DELIVERED, receipt="x")
    assert [one.outcome for one in await of_delivery(driver)] == ["failed", "uncertain"]


async def test_what_was_never_sent_is_no_attempt(driver):
    story = await told(driver)
    await story.delivers("honcho", DeliveryState.SCHEDULED, untried=True)
    await story.delivers("honcho", DeliveryState.DROPPED, reason="the provider does not accept turns")
    assert await of_delivery(driver) == []


async def test_a_settlement_that_is_repeated_leaves_one_attempt(driver):
    await told(driver)
    key = LaneKey(FERN, Provider("honcho"))
    (lane,) = await driver.db.write(claim_lanes(driver.node, key, name="one", renderer="r/1"))
    settled = Settlement(n=lane.packages[0].n, state=DeliveryState.SCHEDULED, failing=True, reason="away")
    for _ in range(2):
        await driver.db.write(settle_lanes([(lane, [settled])]))
    assert len(await of_delivery(driver)) == 1


async def test_a_delivery_that_a_dead_process_was_sending_is_an_interrupted_attempt(driver):
    story = await told(driver)
    key = LaneKey(FERN, Provider("honcho"))
    await driver.db.write(claim_lanes(driver.node, key, name="one", renderer="r/1"))
    story.passes(20_000)
    await driver.db.write(register_node(NodeId("node_b"), "there", sole=False))
    await driver.db.write(reap_nodes(lease_ms=15_000))
    await driver.db.write(claim_lanes(NodeId("node_b"), key, name="two", renderer="r/1"))
    (one,) = await of_delivery(driver)
    assert (one.attempt, one.outcome, one.node) == (1, "interrupted", "node_b")


async def test_only_the_newest_attempts_are_kept(driver):
    story = await told(driver)
    for n in range(KEPT_MAX + 5):
        await story.delivers("honcho", DeliveryState.SCHEDULED, failing=True, reason=f"failure {n}")
    found = await of_delivery(driver)
    assert [one.reason for one in found] == [f"failure {n}" for n in range(5, KEPT_MAX + 5)]


async def test_a_failed_reply_leaves_its_attempt_and_a_posted_piece_none(driver):
    story = await told(driver)
    began = driver.clock.now()
    await story.sends(ReplyState.PENDING, reason="rate limited", vendor=GATEWAY, delay_ms=5)
    (one,) = await of_reply(driver)
    assert (one.attempt, one.part, one.outcome, one.status) == (1, 0, "failed", 502)
    assert (one.started_at, one.ended_at) == (began, began + 300)
    story.passes(5)
    await story.sends(ReplyState.DELIVERED, receipt="17")
    assert len(await of_reply(driver)) == 1


async def test_a_claim_that_was_lost_adds_no_attempt(driver):
    story = await told(driver)
    (claim,) = await driver.db.write(claim_replies(driver.node, FERN, "telegram", name="one", limit=1))
    story.passes(20_000)
    await driver.db.write(register_node(NodeId("node_b"), "there", sole=False))
    await driver.db.write(reap_nodes(lease_ms=15_000))
    lost = ReplySettlement(state=ReplyState.FAILED, part=0, doubts=0, reason="blocked")
    await driver.db.write(settle_reply(claim, lost))
    (one,) = await of_reply(driver)
    assert (one.outcome, one.node) == ("interrupted", driver.node)


async def test_a_reply_that_fails_for_days_keeps_the_newest_attempts(driver):
    story = await told(driver)
    for n in range(KEPT_MAX + 3):
        await story.sends(ReplyState.PENDING, reason=f"failure {n}")
    assert [one.reason for one in await of_reply(driver)] == [f"failure {n}" for n in range(3, KEPT_MAX + 3)]
