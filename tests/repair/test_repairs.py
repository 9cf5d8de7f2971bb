"""The promise: a repair does exactly what its plan says, to each planned item once, under the rules of the plan; what
changed meanwhile is left as it is. What is given up says who decided it, and its lane goes on.

Rules: R36, R41.
"""

import asyncio

import pytest

from holdfast.audit.action import ActorKind, By
from holdfast.audit.action_sql import list_actions
from holdfast.inbox.mailbox_sql import claim_mailbox, read_mail, release_claim
from holdfast.kernel.errors import ClaimLost, InvalidInput
from holdfast.kernel.ids import ForgetId, ReplyId
from holdfast.memory.delivery import DeliveryState
from holdfast.memory.forget import ForgetRequest
from holdfast.memory.forget_sql import begin_forgetting, read_forgetting
from holdfast.memory.lane_sql import claim_lanes
from holdfast.monitor.status_sql import read_status
from holdfast.outbox.post import ReplyState
from holdfast.outbox.reply_sql import read_reply
from holdfast.repair.plan import RepairFilter, RepairSubject, RepairVerb
from holdfast.repair.repair_sql import repair_batch
from holdfast.repair.repairs import BATCH, Repairs
from holdfast.sessions.history_sql import list_deliveries, trace_message
from tests.memory.test_lane_sql import KEY, marks, said, settle, states, take
from tests.outbox.test_reply_sql import Ledger
from tests.store.test_atomic import Cutting
from tests.support.driver import retain
from tests.support.ports import make_ports

ADA = By(kind=ActorKind.TOKEN, id="tok_1", label="ada's laptop", origin="http 127.0.0.1")
DELIVERY, REPLY, MESSAGE = RepairSubject.DELIVERY, RepairSubject.REPLY, RepairSubject.MESSAGE


@pytest.fixture
def repairs(driver):
    return Repairs(make_ports(driver.db, clock=driver.clock))


async def plan(repairs, verb, subject, **wanted):
    return await repairs.plan(verb, subject, RepairFilter(**wanted))


async def do(driver, verb, subject, *ids):
    replies = [ReplyId(driver.id("rep")) for _ in ids]
    return await driver.db.write(repair_batch(verb, subject, list(ids), replies, by=ADA))


async def acts(driver):
    return [(row.verb, row.subject) for row in await driver.db.read(list_actions(oldest_first=True))]


async def parked(driver, *chats, **how):
    """A parked delivery in each chat; their ids, oldest first."""
    driver.policies = (retain(),)
    for chat in chats:
        await driver.talk("one", chat=chat)
        driver.clock.advance(1_000)
    for claim in await take(driver, lanes=len(chats)):
        await settle(driver, claim, DeliveryState.PARKED, **{"reason": "413 too large", **how})
    return [one.id for one in (await driver.db.read(list_deliveries()))[::-1]]


async def uncertain_delivery(driver, *texts):
    """A lane with several deliveries, whose head is in doubt and waits."""
    driver.policies = (retain(),)
    session = await driver.chat(*texts)
    (claim,) = await take(driver)
    await settle(driver, claim, DeliveryState.UNCERTAIN, reason="no answer", delay_ms=60_000)
    return f"mem:{session}:1"


# --- plans -------------------------------------------------------------------------------------------


async def test_a_plan_names_every_item_and_changes_nothing(driver, repairs):
    ids = await parked(driver, "a", "b")
    before = await driver.rows("select * from delivery order by n")
    found = await plan(repairs, RepairVerb.REPLAY, DELIVERY)
    assert [(one.item.id, one.effect, one.obstacle) for one in found.items] == [
        (ident, "sent to mem again", "") for ident in ids
    ]
    assert (found.effects, found.is_cut) == ({"sent to mem again": 2}, False)
    assert await driver.rows("select * from delivery order by n") == before
    assert await acts(driver) == []


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        ({}, 2),
        ({"agent": "fern", "name": "mem", "state": "parked"}, 2),
        ({"agent": "moss"}, 0),
        ({"name": "other"}, 0),
        ({"reason": "TOO LARGE"}, 2),
        ({"reason": "100%"}, 0),
        ({"reason": "_"}, 0),
        ({"older_than_ms": 500}, 0),
        ({"agents": frozenset({"moss"})}, 0),
        ({"agents": frozenset({"fern"})}, 2),
    ],
)
async def test_a_filter_narrows_the_plan(driver, repairs, wanted, count):
    await parked(driver, "a", "b")
    driver.clock.advance(400)
    assert len((await plan(repairs, RepairVerb.REPLAY, DELIVERY, **wanted)).items) == count


async def test_a_plan_is_cut_at_its_limit_and_says_so(driver, repairs):
    ids = await parked(driver, "a", "b", "c")
    found = await repairs.plan(RepairVerb.REPLAY, DELIVERY, RepairFilter(), limit=2)
    assert ([one.item.id for one in found.items], found.is_cut) == (ids[:2], True)


async def test_a_state_that_the_repair_does_not_take_is_refused(repairs):
    with pytest.raises(InvalidInput, match="replay takes deliveries that are parked"):
        await plan(repairs, RepairVerb.REPLAY, DELIVERY, state="delivered")
    with pytest.raises(InvalidInput, match="resend does not apply to deliveries"):
        await plan(repairs, RepairVerb.RESEND, DELIVERY)


async def test_unknown_ids_and_those_of_other_agents_are_told_apart_from_nothing(driver, repairs):
    (known,) = await parked(driver, "a")
    found = await plan(repairs, RepairVerb.REPLAY, DELIVERY, ids=(known, "mem:ses_x:1", "x"))
    assert ([one.item.id for one in found.items], found.unknown) == ([known], ["mem:ses_x:1", "x"])
    other = await plan(repairs, RepairVerb.REPLAY, DELIVERY, ids=(known,), agents=frozenset({"moss"}))
    assert (other.items, other.unknown) == ([], [known])


# --- replay ------------------------------------------------------------------------------------------


async def test_what_is_planned_is_replayed_in_batches_with_progress(driver, repairs):
    ids = await parked(driver, *(f"c{n:03}" for n in range(BATCH + 3)))
    found = await plan(repairs, RepairVerb.REPLAY, DELIVERY)
    told: list[int] = []
    done = await repairs.carry_out(found, told.append)
    assert [(one.id, one.state) for one in done] == [(ident, "scheduled") for ident in ids]
    assert told == [BATCH, 3]
    assert set(await states(driver)) == {"scheduled"}
    assert await acts(driver) == [("delivery.replayed", ident) for ident in ids]
    assert len(await take(driver, lanes=99)) == BATCH + 3


async def test_what_changed_since_the_plan_is_left_as_it_is(driver, repairs):
    first, second = await parked(driver, "a", "b")
    found = await plan(repairs, RepairVerb.REPLAY, DELIVERY)
    await do(driver, RepairVerb.REPLAY, DELIVERY, first)
    done = await repairs.carry_out(found)
    assert [(one.id, one.obstacle) for one in done] == [(first, "it is on its way already"), (second, "")]


async def test_a_batch_that_is_cut_off_changes_nothing(driver, repairs):
    ids = await parked(driver, "a", "b")
    for at in range(1, 200):
        cutting = Cutting(driver.db)
        cutting.at = at
        try:
            await cutting.write(repair_batch(RepairVerb.REPLAY, DELIVERY, ids, by=ADA))
        except Exception:  # noqa: BLE001 - any cut
            assert await states(driver) == ["parked", "parked"]
            continue
        break
    assert await states(driver) == ["scheduled", "scheduled"]


# --- giving up a delivery ----------------------------------------------------------------------------


async def test_a_delivery_that_is_given_up_lets_its_lane_go_on(driver):
    head = await uncertain_delivery(driver, "one", "two")
    (done,) = await do(driver, RepairVerb.DROP, DELIVERY, head)
    assert (done.state, done.obstacle) == ("parked", "")
    (claim,) = await take(driver)
    assert said(claim) == [["two", "re: two"]]
    await settle(driver, claim)
    assert await marks(driver) == [(4, 4)], "the mark passes what was given up"
    found = (await driver.db.read(list_deliveries()))[-1]
    assert (found.decided_by, found.reason) == ("ada's laptop", "no answer; given up by ada's laptop")
    assert (await driver.db.read(read_status())).needs == [], "it is decided"
    assert await acts(driver) == [("delivery.dropped", head)]


async def test_what_was_given_up_in_doubt_is_asked_about_when_it_is_replayed(driver):
    head = await uncertain_delivery(driver, "one")
    await do(driver, RepairVerb.DROP, DELIVERY, head)
    (again,) = await do(driver, RepairVerb.REPLAY, DELIVERY, head)
    assert again.state == "uncertain"
    (claim,) = await take(driver)
    assert claim.packages[0].ask
    assert (await driver.db.read(list_deliveries()))[0].decided_by is None


async def test_what_was_given_up_in_doubt_is_still_retracted_by_an_undo(driver):
    """The provider may have it."""
    head = await uncertain_delivery(driver, "one")
    await do(driver, RepairVerb.DROP, DELIVERY, head)
    await driver.command("/undo")
    assert await driver.rows("select op, state from delivery order by n") == [
        ("retain", "parked"),
        ("retract:1", "scheduled"),
    ]


async def test_what_is_being_sent_is_left_as_it_is(driver):
    driver.policies = (retain(),)
    session = await driver.chat("one")
    (claim,) = await take(driver)
    (done,) = await do(driver, RepairVerb.DROP, DELIVERY, f"mem:{session}:1")
    assert done.obstacle == "it is being sent to mem now"
    await settle(driver, claim)
    assert await states(driver) == ["delivered"]


async def test_an_erasure_is_not_given_up_and_can_be_settled_by_hand(driver):
    driver.policies = (retain(),)
    session = await driver.chat("one")
    (claim,) = await take(driver)
    await settle(driver, claim)
    await driver.db.write(begin_forgetting(ForgetRequest(id=ForgetId("forget_1"), session=session)))
    (claim,) = await take(driver)
    await settle(driver, claim, DeliveryState.PARKED, reason="cannot erase")
    (erasure,) = [one.id for one in await driver.db.read(list_deliveries()) if one.op == "erase"]
    (dropped,) = await do(driver, RepairVerb.DROP, DELIVERY, erasure)
    assert "an erasure is not given up" in dropped.obstacle
    (settled,) = await do(driver, RepairVerb.SETTLE, DELIVERY, erasure)
    assert settled.state == "delivered"
    found = await driver.db.read(read_forgetting(ForgetId("forget_1")))
    assert [part.state for part in found.parts] == [DeliveryState.DELIVERED]


async def test_a_delivery_is_given_up_once(driver):
    (known,) = await parked(driver, "a")
    await do(driver, RepairVerb.DROP, DELIVERY, known)
    (again,) = await do(driver, RepairVerb.DROP, DELIVERY, known)
    assert again.obstacle == "ada's laptop gave it up already"
    assert await acts(driver) == [("delivery.dropped", known)]


# --- settling a delivery as arrived -------------------------------------------------------------------


async def test_a_delivery_that_a_person_saw_arrive_has_a_receipt_of_its_own_kind(driver):
    head = await uncertain_delivery(driver, "one", "two")
    (done,) = await do(driver, RepairVerb.SETTLE, DELIVERY, head)
    assert done.state == "delivered"
    found = (await driver.db.read(list_deliveries()))[-1]
    assert (found.state, found.receipt, found.decided_by, found.reason) == (
        "delivered",
        "said to have arrived by ada's laptop",
        "ada's laptop",
        None,
    )
    (claim,) = await take(driver)
    assert said(claim) == [["two", "re: two"]], "the lane goes on"
    assert await marks(driver) == [(4, 2)]
    assert await acts(driver) == [("delivery.settled", head)]


@pytest.mark.parametrize("state", [DeliveryState.PARKED, DeliveryState.SCHEDULED, DeliveryState.DELIVERED])
async def test_what_is_not_in_doubt_cannot_be_settled_as_arrived(driver, state):
    driver.policies = (retain(),)
    session = await driver.chat("one")
    (claim,) = await take(driver)
    await settle(driver, claim, state, reason="refused")
    (done,) = await do(driver, RepairVerb.SETTLE, DELIVERY, f"mem:{session}:1")
    assert done.obstacle
    assert await states(driver) == [state.value]


async def test_what_was_undone_since_cannot_be_settled_as_arrived(driver):
    head = await uncertain_delivery(driver, "one")
    await driver.command("/undo")
    (done,) = await do(driver, RepairVerb.SETTLE, DELIVERY, head)
    assert done.obstacle == "turns of it were undone since"


async def test_a_settlement_waits_for_no_claim_that_came_first(driver):
    """A dispatcher and a person at the same time: one of them settles it."""
    head = await uncertain_delivery(driver, "one")
    driver.clock.advance(61_000)
    claimed, (done,) = await asyncio.gather(
        driver.db.write(claim_lanes(driver.node, KEY, renderer="r1")), do(driver, RepairVerb.SETTLE, DELIVERY, head)
    )
    assert bool(claimed) == bool(done.obstacle)
    for claim in claimed:
        await settle(driver, claim)
    assert await states(driver) == ["delivered"]


# --- replies -----------------------------------------------------------------------------------------


async def answered(driver, state, **how):
    ledger = Ledger(driver)
    reply = await ledger.answer()
    await ledger.settle(await ledger.one(), state, **{"reason": "no answer", **how})
    return reply


async def test_uncertain_and_failed_replies_are_resent_together(driver, repairs):
    first = await answered(driver, ReplyState.UNCERTAIN, doubts=2)
    second = await answered(driver, ReplyState.FAILED)
    found = await plan(repairs, RepairVerb.RESEND, REPLY)
    assert {one.item.id: one.effect for one in found.items} == {
        first: "sent over telegram again; the chat may show it twice",
        second: "sent over telegram again",
    }
    done = await repairs.carry_out(found)
    assert {one.state for one in done} == {"pending"}


@pytest.mark.parametrize("state", [ReplyState.UNCERTAIN, ReplyState.FAILED])
async def test_a_reply_that_is_given_up_is_no_longer_to_be_decided_and_can_be_resent(driver, state):
    reply = await answered(driver, state, doubts=2 if state is ReplyState.UNCERTAIN else 0)
    (done,) = await do(driver, RepairVerb.DROP, REPLY, reply)
    assert done.state == state.value
    found = await driver.db.read(read_reply(reply))
    assert (found.decided_by, found.reason) == ("ada's laptop", "no answer; given up by ada's laptop")
    assert (await driver.db.read(read_status())).needs == []
    (again,) = await do(driver, RepairVerb.RESEND, REPLY, reply)
    assert (again.state, (await driver.db.read(read_reply(reply))).decided_by) == ("pending", None)


async def test_a_reply_that_holds_up_its_chat_is_given_up_and_the_next_one_is_sent(driver):
    ledger = Ledger(driver)
    first, second = await ledger.answer("one"), await ledger.answer("two")
    await ledger.settle(await ledger.one(), ReplyState.PENDING, reason="503", delay_ms=60_000)
    assert await ledger.claim() == ()
    (done,) = await do(driver, RepairVerb.DROP, REPLY, first)
    assert done.state == "failed"
    assert (await ledger.one()).id == second


async def test_a_reply_that_a_person_saw_arrive_is_delivered_and_says_who_said_so(driver):
    reply = await answered(driver, ReplyState.UNCERTAIN, part=1, doubts=2, receipt="77")
    (done,) = await do(driver, RepairVerb.SETTLE, REPLY, reply)
    assert done.state == "delivered"
    found = await driver.db.read(read_reply(reply))
    assert (found.state, found.decided_by, found.receipt, found.reason) == ("delivered", "ada's laptop", "77", None)
    assert await acts(driver) == [("reply.settled", reply)]
    (again,) = await do(driver, RepairVerb.SETTLE, REPLY, reply)
    assert again.obstacle == "it is delivered"


async def test_a_reply_that_the_platform_refused_cannot_be_settled_as_arrived(driver):
    reply = await answered(driver, ReplyState.FAILED)
    (done,) = await do(driver, RepairVerb.SETTLE, REPLY, reply)
    assert done.obstacle == "telegram did not take it"


async def test_a_reply_that_is_being_sent_is_left_as_it_is(driver):
    ledger = Ledger(driver)
    reply = await ledger.answer()
    claim = await ledger.one()
    for verb in (RepairVerb.DROP, RepairVerb.SETTLE):
        (done,) = await do(driver, verb, REPLY, reply)
        assert done.obstacle == "it is being sent over telegram now"
    await ledger.sent(claim)


# --- messages ----------------------------------------------------------------------------------------


async def test_a_waiting_message_is_given_up_its_sender_is_told_and_the_next_one_is_answered(driver, repairs):
    poison, other = await driver.say("poison"), await driver.say("other")
    found = await plan(repairs, RepairVerb.DROP, MESSAGE, ids=(poison,))
    assert [one.effect for one in found.items] == ["given up before its turn; the sender is told"]
    (done,) = await do(driver, RepairVerb.DROP, MESSAGE, poison)
    assert done.state == "interrupted"
    trace = await driver.db.read(trace_message(poison))
    assert (trace.state.value, trace.reason) == ("interrupted", "given up by ada's laptop")
    assert trace.reply.text.startswith("An operator took this message out of the queue")
    claim = await driver.claim()
    assert [item.message for item in (await driver.db.read(read_mail(claim, limit=9))).waiting] == [other]
    assert await acts(driver) == [("message.dropped", poison)]


async def test_a_worker_that_has_read_the_message_loses_its_claim(driver):
    poison = await driver.say("poison")
    claim = await driver.claim()
    mail = await driver.db.read(read_mail(claim, limit=1))
    await do(driver, RepairVerb.DROP, MESSAGE, poison)
    with pytest.raises(ClaimLost):
        await driver.open(claim)
    assert [item.message for item in mail.waiting] == [poison]
    assert await driver.db.write(claim_mailbox(driver.node)) is None
    assert await driver.rows("select count(*) from turn") == [(0,)]


async def test_a_message_whose_turn_runs_is_left_as_it_is(driver, repairs):
    message = await driver.say("one")
    claim = await driver.claim()
    turn = await driver.open(claim)
    (done,) = await do(driver, RepairVerb.DROP, MESSAGE, message)
    assert done.obstacle == "its turn runs: say /stop in the chat"
    await driver.answer(claim, turn)
    await driver.db.write(release_claim(claim))
    assert (await plan(repairs, RepairVerb.DROP, MESSAGE)).items == []


async def test_waiting_messages_are_planned_by_agent_channel_and_age(driver, repairs):
    first = await driver.say("one")
    driver.clock.advance(10_000)
    await driver.say("two", agent="moss", channel="telegram")
    assert len((await plan(repairs, RepairVerb.DROP, MESSAGE)).items) == 2
    for wanted in ({"agent": "fern"}, {"name": "http"}, {"older_than_ms": 9_000}, {"agents": frozenset({"fern"})}):
        assert [one.item.id for one in (await plan(repairs, RepairVerb.DROP, MESSAGE, **wanted)).items] == [first]
