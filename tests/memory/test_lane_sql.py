"""One dispatcher at a time serves a lane, from its head and in order. The cursor moves on acknowledgement only, and a
delivery that may have landed is looked up before it is sent again.

Rules: D13, D17, D19, D20, D21, R3, R4, R5.
"""

import asyncio
from dataclasses import replace

import pytest

from holdfast.kernel.errors import DeliveryNotFound, InvalidInput, LaneLost
from holdfast.kernel.ids import AgentName, DeliveryId, NodeId, Provider
from holdfast.memory.cursor_sql import schedule_overdue
from holdfast.memory.delivery import DeliveryPolicy, DeliveryState, Op
from holdfast.memory.lane import LaneClaim, LaneKey, Settlement
from holdfast.memory.lane_sql import claim_lanes, hurry_lanes, list_lane_keys, next_due, settle_lanes
from holdfast.memory.notes import Applied, MemoryBatch, MemoryVerb, NoteChange, Target
from holdfast.memory.notes_sql import apply_memory
from holdfast.memory.replay_sql import list_delivered_parcels, replay_delivery
from holdfast.sessions.history_sql import list_deliveries, trace_message
from holdfast.store.node_sql import reap_nodes, register_node, retire_node
from holdfast.turns.record_sql import record_turn
from tests.support.driver import address_of, record, retain

KEY = LaneKey(AgentName("fern"), Provider("mem"))
OTHER = NodeId("node_b")
EACH = (retain(),)


async def take(driver, *, node=None, name="", lanes=1, units=1, renderer="r1") -> list[LaneClaim]:
    found = await driver.db.write(
        claim_lanes(node or driver.node, KEY, name=name, lanes=lanes, units=units, renderer=renderer)
    )
    return list(found)


async def settle(driver, claim, state=DeliveryState.DELIVERED, **more):
    done = [Settlement(n=package.n, state=state, **more) for package in claim.packages]
    await driver.db.write(settle_lanes([(claim, done)]))


async def states(driver):
    found = await driver.rows("select state from delivery order by n")
    return [state for (state,) in found]


async def marks(driver):
    return await driver.rows("select scheduled_seq, settled_seq from cursor order by stream")


def said(claim) -> list[list[str]]:
    return [[line.text for turn in package.parcel.turns for line in turn.lines] for package in claim.packages]


# --- claiming --------------------------------------------------------------------------------------


async def test_a_lane_comes_with_its_head_rendered_from_the_journal(driver):
    driver.policies = EACH
    session = await driver.chat("one", "two")
    (claim,) = await take(driver)
    (package,) = claim.packages
    assert said(claim) == [["one", "re: one"]]
    assert (package.parcel.op, package.parcel.attempt, package.ask) == (Op.RETAIN, 1, False)
    assert (package.parcel.session, package.parcel.principal) == (session, "ada")
    assert package.parcel.turns[0].lines[0].speaker == "ada"
    assert package.parcel.turns[0].lines[1].speaker == "fern"
    assert await states(driver) == ["sending", "scheduled"]


async def test_a_claimed_lane_cannot_be_claimed_again(driver):
    driver.policies = EACH
    await driver.chat("one", "two")
    await driver.db.write(register_node(OTHER, "b", sole=False))
    assert len(await take(driver)) == 1
    assert await take(driver, node=OTHER, lanes=5) == []


async def test_several_units_travel_together_and_in_order(driver):
    driver.policies = EACH
    await driver.chat("one", "two", "three")
    (claim,) = await take(driver, units=2)
    assert said(claim) == [["one", "re: one"], ["two", "re: two"]]
    await settle(driver, claim)
    (claim,) = await take(driver, units=2)
    assert said(claim) == [["three", "re: three"]]


async def test_lanes_of_different_places_are_taken_together(driver):
    driver.policies = EACH
    await driver.talk("one", chat="desk")
    await driver.talk("two", chat="porch")
    assert len(await take(driver, lanes=5)) == 2


async def test_lanes_are_taken_in_the_order_of_their_places(driver):
    driver.policies = EACH
    await driver.chat("one", "two", chat="attic")
    (attic,) = await take(driver)
    await settle(driver, attic)  # its fence is the higher one from here on
    await driver.talk("three", chat="porch")
    first = [claim.place for claim in await take(driver, lanes=5, name="c1")]
    again = [claim.place for claim in await take(driver, lanes=5, name="c1")]
    assert first == again == [address_of("attic"), address_of("porch")]


async def test_a_provider_with_several_lanes_is_named_once(driver):
    driver.policies = (retain(), retain("other"))
    await driver.talk("one", chat="attic")
    await driver.talk("two", chat="porch")
    named = (KEY, replace(KEY, provider=Provider("other")))
    assert await driver.db.read(list_lane_keys()) == named
    assert tuple((await driver.db.read(next_due()))[1]) == named


async def test_a_provider_with_nothing_to_send_is_not_named_among_those_that_wait(driver):
    driver.policies = (retain(), retain("other"))
    await driver.chat("one")
    other = replace(KEY, provider=Provider("other"))
    (claim,) = await driver.db.write(claim_lanes(driver.node, other, renderer="r1"))
    await settle(driver, claim)
    await driver.db.write(record_turn(record("k1", agent="moss", policies=(retain("third"),))))
    waiting = (KEY, LaneKey(AgentName("moss"), Provider("third")))
    assert tuple((await driver.db.read(next_due()))[1]) == waiting


async def test_only_a_registered_node_takes_lanes(driver):
    driver.policies = EACH
    await driver.chat("one")
    assert await take(driver, node=NodeId("nobody")) == []


async def test_a_claim_asked_for_again_under_its_name_is_the_same_claim(driver):
    driver.policies = EACH
    await driver.chat("one", "two")
    (first,) = await take(driver, name="c1", units=2)
    for _ in range(2):
        (again,) = await take(driver, name="c1", units=2)
    assert (again.place, again.fence) == (first.place, first.fence)
    assert [(one.n, one.parcel.id, one.parcel.attempt, one.parcel.turns) for one in again.packages] == [
        (one.n, one.parcel.id, one.parcel.attempt, one.parcel.turns) for one in first.packages
    ]
    assert [package.parcel.attempt for package in again.packages] == [1, 1]
    assert not any(package.ask for package in again.packages), "nothing was sent under the answer that was lost"


async def test_steps_tools_and_recall_are_not_delivered(driver):
    driver.policies = EACH
    await driver.db.write(record_turn(record("k1", policies=EACH)))
    (claim,) = await take(driver)
    assert said(claim) == [["hello", "re: hello"]]


# --- settling --------------------------------------------------------------------------------------


async def test_the_mark_moves_on_acknowledgement_only(driver):
    driver.policies = EACH
    await driver.chat("one", "two")
    assert await marks(driver) == [(4, 0)]
    (claim,) = await take(driver)
    assert await marks(driver) == [(4, 0)], "being sent is not being delivered"
    await settle(driver, claim, receipt="r-1")
    assert await marks(driver) == [(4, 2)]
    (claim,) = await take(driver)
    await settle(driver, claim)
    assert await marks(driver) == [(4, 4)]
    assert await take(driver) == []


async def test_a_delivery_that_could_not_be_made_is_tried_again_when_it_is_due(driver):
    driver.policies = EACH
    await driver.chat("one", "two")
    (claim,) = await take(driver)
    await settle(driver, claim, DeliveryState.SCHEDULED, delay_ms=5_000, reason="no route", failing=True)
    assert await take(driver, units=9) == [], "nothing overtakes the head of its lane"
    driver.clock.advance(5_000)
    (claim,) = await take(driver)
    assert claim.packages[0].parcel.attempt == 2
    assert not claim.packages[0].ask, "it is proved that nothing landed"
    assert claim.packages[0].failing_for_ms == 5_000


async def test_a_delivery_keeps_failing_until_it_is_settled(driver):
    """An attempt that was not made proves nothing about the provider."""
    driver.policies = EACH
    await driver.chat("one")
    (claim,) = await take(driver)
    await settle(driver, claim, DeliveryState.SCHEDULED, failing=True)
    driver.clock.advance(5_000)
    (claim,) = await take(driver)
    await settle(driver, claim, DeliveryState.SCHEDULED, untried=True)
    driver.clock.advance(5_000)
    (claim,) = await take(driver)
    assert claim.packages[0].failing_for_ms == 10_000
    await settle(driver, claim)
    assert await driver.rows("select failing_at from delivery") == [(None,)]


async def test_a_parked_delivery_lets_the_next_one_pass_and_can_be_replayed_late(driver):
    driver.policies = EACH
    session = await driver.chat("one", "two")
    (claim,) = await take(driver)
    await settle(driver, claim, DeliveryState.PARKED, reason="too long")
    assert await marks(driver) == [(4, 2)], "parked is settled"
    (claim,) = await take(driver)
    assert said(claim) == [["two", "re: two"]]
    await settle(driver, claim)
    parked = DeliveryId(f"mem:{session}:1")
    assert await driver.db.write(replay_delivery(parked)) == "scheduled"
    assert await driver.db.write(replay_delivery(parked)) == "scheduled", "asked twice it is the same"
    (claim,) = await take(driver)
    assert claim.packages[0].late
    await settle(driver, claim)
    assert await marks(driver) == [(4, 4)]
    with pytest.raises(InvalidInput, match="is delivered"):
        await driver.db.write(replay_delivery(parked))


async def test_an_unknown_delivery_cannot_be_replayed(driver):
    for wrong in ("mem:ses_x:1", "x", "", ":::", "mem:ses:1:retract:2"):
        with pytest.raises(DeliveryNotFound):
            await driver.db.write(replay_delivery(DeliveryId(wrong)))


async def test_settling_twice_is_settling_once(driver):
    driver.policies = EACH
    await driver.chat("one", "two")
    (claim,) = await take(driver)
    await settle(driver, claim)
    await settle(driver, claim, DeliveryState.PARKED)
    assert await states(driver) == ["delivered", "scheduled"]


async def test_an_untried_delivery_gets_its_attempt_back(driver):
    driver.policies = EACH
    await driver.chat("one", "two")
    (claim,) = await take(driver, units=2)
    first, second = claim.packages
    await driver.db.write(
        settle_lanes(
            [
                (
                    claim,
                    [
                        Settlement(n=first.n, state=DeliveryState.SCHEDULED, delay_ms=0, failing=True),
                        Settlement(n=second.n, state=DeliveryState.SCHEDULED, untried=True),
                    ],
                )
            ]
        )
    )
    assert await driver.rows("select attempt from delivery order by n") == [(1,), (0,)]


# --- doubt and takeover ----------------------------------------------------------------------------


async def test_a_delivery_that_a_dead_dispatcher_was_sending_is_uncertain(driver):
    driver.policies = EACH
    await driver.chat("one")
    (lost,) = await take(driver)
    await driver.db.write(register_node(OTHER, "b", sole=True))
    (claim,) = await take(driver, node=OTHER)
    assert claim.packages[0].ask
    assert claim.fence > lost.fence
    assert await states(driver) == ["uncertain"]
    with pytest.raises(LaneLost):
        await settle(driver, lost)
    assert await states(driver) == ["uncertain"], "a younger claim holds the lane"


async def test_a_lane_released_without_an_outcome_is_uncertain(driver):
    driver.policies = EACH
    await driver.chat("one")
    (claim,) = await take(driver)
    await driver.db.write(settle_lanes([(claim, ())]))
    (again,) = await take(driver)
    assert again.packages[0].ask


async def test_a_dispatcher_that_stops_releases_its_lanes(driver):
    driver.policies = EACH
    await driver.chat("one")
    (lost,) = await take(driver)
    await driver.db.write(retire_node(driver.node))
    await driver.db.write(register_node(OTHER, "b", sole=False))
    assert (await take(driver, node=OTHER))[0].packages[0].ask
    with pytest.raises(LaneLost):
        await settle(driver, lost)


async def test_lanes_of_nodes_that_are_taken_for_dead_are_free_again(driver):
    driver.policies = EACH
    await driver.chat("one")
    await take(driver)
    driver.clock.advance(60_000)
    await driver.db.write(register_node(OTHER, "b", sole=False))
    await driver.db.write(reap_nodes(lease_ms=15_000))
    (claim,) = await take(driver, node=OTHER)
    assert claim.packages[0].ask
    assert claim.packages[0].uncertain_for_ms == 0, "the quiet period begins when the attempt is known to be over"


async def test_the_deliveries_of_an_interrupted_call_share_one_quiet_period(driver):
    driver.policies = EACH
    await driver.chat("one", "two", "three", "four")
    await take(driver, units=3)
    driver.clock.advance(60_000)
    await driver.db.write(register_node(OTHER, "b", sole=True))
    (claim,) = await take(driver, node=OTHER, units=3)
    assert [(package.ask, package.uncertain_for_ms) for package in claim.packages] == [(True, 0)]
    assert await states(driver) == ["uncertain", "uncertain", "uncertain", "scheduled"]
    await settle(driver, claim, DeliveryState.UNCERTAIN, delay_ms=30_000)
    driver.clock.advance(30_000)
    for _ in range(3):
        (claim,) = await take(driver, node=OTHER, units=3)
        assert [(package.ask, package.uncertain_for_ms) for package in claim.packages] == [(True, 30_000)]
        await settle(driver, claim)
    (claim,) = await take(driver, node=OTHER, units=3)
    assert [package.ask for package in claim.packages] == [False], "the fourth was never sent"


async def test_a_lane_taken_in_the_instant_in_which_its_node_was_reaped_is_found_by_the_next_reaping(driver):
    driver.policies = EACH
    await driver.chat("one")
    await take(driver)
    await driver.write("delete from node")
    await driver.db.write(register_node(OTHER, "b", sole=False))
    assert (await driver.db.write(reap_nodes(lease_ms=15_000))).nodes == 0
    assert len(await take(driver, node=OTHER)) == 1


async def test_while_the_head_is_uncertain_no_later_unit_is_claimed(driver):
    driver.policies = EACH
    await driver.chat("one", "two")
    (claim,) = await take(driver)
    await settle(driver, claim, DeliveryState.UNCERTAIN, reason="no answer")
    (claim,) = await take(driver, units=9)
    assert [package.ask for package in claim.packages] == [True]
    assert claim.packages[0].parcel.attempt == 1, "asking is no attempt"
    await settle(driver, claim, DeliveryState.SCHEDULED, again=True)
    (claim,) = await take(driver)
    assert (claim.packages[0].ask, claim.packages[0].parcel.attempt) == (False, 2)


async def test_an_attempt_that_would_render_differently_is_uncertain(driver):
    driver.policies = EACH
    await driver.chat("one")
    (claim,) = await take(driver, renderer="r1")
    await settle(driver, claim, DeliveryState.SCHEDULED, failing=True)
    (claim,) = await take(driver, renderer="r2")
    assert claim.packages[0].ask
    assert await states(driver) == ["uncertain"]
    await settle(driver, claim, DeliveryState.SCHEDULED, again=True)
    (claim,) = await take(driver, renderer="r2")
    assert not claim.packages[0].ask, "proved absent, it may be rendered anew"


async def test_what_must_be_asked_about_first_does_not_join_the_call_of_those_before_it(driver):
    """Uncertain and without an attempt, it counted as never sent: a turn undone later stayed there."""
    driver.policies = EACH
    await driver.chat("one", "two")
    (claim,) = await take(driver, units=2, renderer="r1")
    first, second = claim.packages
    absent = Settlement(n=first.n, state=DeliveryState.SCHEDULED, again=True)
    await driver.db.write(settle_lanes([(claim, [absent, Settlement(n=second.n, state=DeliveryState.SCHEDULED)])]))
    (claim,) = await take(driver, units=2, renderer="r2")
    assert [(package.n, package.ask) for package in claim.packages] == [(first.n, False)]
    assert await states(driver) == ["sending", "scheduled"]
    await settle(driver, claim)
    (claim,) = await take(driver, units=2, renderer="r2")
    assert [(package.n, package.ask) for package in claim.packages] == [(second.n, True)]
    assert await driver.rows("select state, attempt from delivery order by n") == [("delivered", 2), ("uncertain", 1)]


async def test_what_was_never_tried_may_be_rendered_anew(driver):
    driver.policies = EACH
    await driver.chat("one")
    (claim,) = await take(driver, renderer="r1")
    await settle(driver, claim, DeliveryState.SCHEDULED, untried=True)
    (claim,) = await take(driver, renderer="r2")
    assert (claim.packages[0].ask, claim.packages[0].parcel.attempt) == (False, 1)


# --- undo ------------------------------------------------------------------------------------------


async def test_a_retraction_follows_its_unit_on_the_lane(driver):
    driver.policies = (retain(every_turns=2),)
    session = await driver.chat("one", "two")
    (claim,) = await take(driver)
    await driver.command("/undo")
    await settle(driver, claim)
    (back,) = await take(driver)
    parcel = back.packages[0].parcel
    assert (parcel.op, parcel.of, parcel.gone) == (Op.RETRACT, f"mem:{session}:1", (2,))
    assert said(back) == [["one", "re: one"]], "what remains of the unit"
    await settle(driver, back)
    assert await states(driver) == ["delivered", "delivered"]


async def test_a_unit_that_was_taken_back_as_a_whole_is_retracted(driver):
    driver.policies = EACH
    await driver.chat("one")
    (claim,) = await take(driver)
    await settle(driver, claim)
    await driver.command("/undo")
    (back,) = await take(driver)
    assert said(back) == [[]]
    await settle(driver, back)
    assert await states(driver) == ["retracted", "delivered"]


async def test_a_lane_whose_only_unit_was_undone_has_nothing_to_carry(driver):
    driver.policies = EACH
    await driver.chat("one")
    await driver.command("/undo")
    assert await take(driver) == []
    assert await driver.rows("select owner, due_at from lane") == [(None, None)]


# --- waiting ---------------------------------------------------------------------------------------


async def test_pending_turns_become_due_after_the_longest_wait(driver):
    driver.policies = (replace(retain(every_turns=5), max_wait_ms=60_000),)
    session = await driver.chat("one", "two")
    assert await driver.db.write(schedule_overdue(limit=10)) == 0
    driver.clock.advance(60_000)
    assert await driver.db.write(schedule_overdue(limit=10)) == 1
    assert await driver.db.write(schedule_overdue(limit=10)) == 0
    (claim,) = await take(driver)
    assert said(claim) == [["one", "re: one", "two", "re: two"]]
    assert claim.packages[0].parcel.session == session


async def test_turns_undone_while_they_waited_are_not_scheduled(driver):
    driver.policies = (replace(retain(every_turns=5), max_wait_ms=60_000),)
    await driver.chat("one")
    await driver.command("/undo")
    driver.clock.advance(60_000)
    await driver.db.write(schedule_overdue(limit=10))
    assert await driver.db.write(schedule_overdue(limit=10)) == 0
    assert await states(driver) == []


async def test_when_the_next_lane_is_due_is_known_per_provider(driver):
    driver.policies = EACH
    now = driver.clock.now()
    assert await driver.db.read(next_due()) == (now, {})
    await driver.chat("one")
    assert await driver.db.read(next_due()) == (now, {KEY: now})
    (claim,) = await take(driver)
    assert await driver.db.read(next_due()) == (now, {}), "a taken lane is not waiting"
    await settle(driver, claim)
    assert await driver.db.read(next_due()) == (now, {})
    assert await driver.db.read(list_lane_keys()) == (KEY,)


# --- together --------------------------------------------------------------------------------------


async def test_concurrent_dispatchers_never_share_a_lane(driver):
    driver.policies = EACH
    for chat in ("a", "b", "c", "d"):
        await driver.talk("hello", chat=chat)
    await driver.db.write(register_node(OTHER, "b", sole=False))
    taken = await asyncio.gather(*(take(driver, node=node, lanes=2) for node in (driver.node, OTHER, driver.node)))
    places = [claim.place for claims in taken for claim in claims]
    assert len(places) == len(set(places))
    assert len(places) == 4


async def test_settling_and_committing_at_once_lose_no_work(driver):
    driver.policies = EACH
    await driver.chat("one")
    (claim,) = await take(driver)
    await driver.say("two")
    mailbox = await driver.claim()
    turn = await driver.open(mailbox)
    await asyncio.gather(settle(driver, claim), driver.answer(mailbox, turn))
    (claim,) = await take(driver)
    assert said(claim) == [["two", "ok"]]


async def test_every_delivery_can_be_listed(driver):
    driver.policies = EACH
    session = await driver.chat("one", "two")
    (claim,) = await take(driver)
    await settle(driver, claim, receipt="r-1")
    newest, oldest = await driver.db.read(list_deliveries())
    assert (oldest.id, oldest.state, oldest.receipt, oldest.attempt) == (f"mem:{session}:1", "delivered", "r-1", 1)
    assert [one.id for one in await driver.db.read(list_deliveries(state="scheduled"))] == [newest.id]
    assert await driver.db.read(list_deliveries(provider="nobody")) == ()
    assert [one.id for one in await driver.db.read(list_deliveries(after=newest.n))] == [oldest.id]
    assert [one.id for one in await driver.db.read(list_deliveries(limit=1))] == [newest.id]


async def test_delivered_parcels_are_those_of_one_provider_in_order(driver):
    driver.policies = (retain(), retain("other"))
    await driver.chat("one", "two")
    await driver.write("update delivery set state = 'delivered', attempt = 1 where provider = 'other'")
    assert await driver.db.read(list_delivered_parcels(KEY)) == ()
    await driver.write("update delivery set state = 'delivered', attempt = 1 where provider = 'mem'")
    found = await driver.db.read(list_delivered_parcels(KEY))
    assert [parcel.turns[0].lines[0].text for _, parcel in found] == ["one", "two"]
    assert [n for n, _ in found] == sorted(n for n, _ in found)
    assert {parcel.id.partition(":")[0] for _, parcel in found} == {"mem"}


async def test_a_trace_tells_of_a_turn_that_waits_for_others(driver):
    driver.policies = (retain(every_turns=3),)
    message = await driver.say("one")
    claim = await driver.claim()
    await driver.answer(claim, await driver.open(claim))
    (pending,) = (await driver.db.read(trace_message(message))).deliveries
    assert (pending.provider, pending.state, pending.attempt) == ("mem", "scheduled", 0)
    assert pending.reason


# --- evidence against a unit, and the end of an outage -----------------------------------------------


async def fail(driver, claim, *, delay_ms=5_000):
    await settle(driver, claim, DeliveryState.SCHEDULED, delay_ms=delay_ms, suspect=True, failing=True)


async def lanes_of(driver, *chats):
    """A turn in each chat, and the claims of their lanes by what was said."""
    for chat in chats:
        await driver.talk(chat, chat=chat)
    return {said(claim)[0][0]: claim for claim in await take(driver, lanes=9)}


async def retaken(driver, text):
    """The lane of one chat again, once it is due."""
    driver.clock.advance(60_000)
    claims = {said(claim)[0][0]: claim for claim in await take(driver, lanes=9)}
    wanted = claims.pop(text)
    for claim in claims.values():
        await driver.db.write(settle_lanes([(claim, ())]))
    return wanted


async def test_a_failure_counts_only_after_another_unit_was_delivered_since_the_one_before(driver):
    driver.policies = EACH
    claims = await lanes_of(driver, "bad", "good")
    await fail(driver, claims["bad"])
    for _ in range(3):
        claim = await retaken(driver, "bad")
        assert (claim.packages[0].suspect, claim.packages[0].others_taken) == (0, False), "nothing else was taken"
        await fail(driver, claim)
    driver.clock.advance(1)
    await settle(driver, claims["good"])
    claim = await retaken(driver, "bad")
    assert (claim.packages[0].suspect, claim.packages[0].others_taken) == (0, True)
    await fail(driver, claim)
    claim = await retaken(driver, "bad")
    assert (claim.packages[0].suspect, claim.packages[0].others_taken) == (1, False), "one delivery counts once"


async def test_what_another_provider_or_agent_takes_is_no_evidence(driver):
    driver.policies = (retain(), retain(provider="else"))
    claims = await lanes_of(driver, "bad")
    await fail(driver, claims["bad"])
    driver.clock.advance(1)
    other = LaneKey(AgentName("fern"), Provider("else"))
    (taken,) = await driver.db.write(claim_lanes(driver.node, other, lanes=9, units=1, renderer="r1"))
    await settle(driver, taken)
    claim = await retaken(driver, "bad")
    assert not claim.packages[0].others_taken


async def test_waiting_lanes_are_hurried_on_whatever_node_they_failed(driver):
    driver.policies = EACH
    claims = await lanes_of(driver, "one", "two", "three")
    await driver.talk("behind", chat="one")
    for claim in claims.values():
        await settle(driver, claim, DeliveryState.SCHEDULED, delay_ms=300_000, failing=True)
    await driver.db.write(register_node(OTHER, "b", sole=False))
    assert await take(driver, node=OTHER, lanes=9) == []
    assert await driver.db.write(hurry_lanes(KEY, limit=2)) == 2
    assert await driver.db.write(hurry_lanes(KEY, limit=2)) == 1
    assert await driver.db.write(hurry_lanes(KEY, limit=2)) == 0
    found = await take(driver, node=OTHER, lanes=9)
    assert sorted(said(claim)[0][0] for claim in found) == ["one", "three", "two"], "heads only, and in order"


async def test_a_taken_lane_and_another_provider_s_are_left_alone_by_hurrying(driver):
    driver.policies = (retain(), retain(provider="else"))
    claims = await lanes_of(driver, "one")
    other = LaneKey(AgentName("fern"), Provider("else"))
    (else_,) = await driver.db.write(claim_lanes(driver.node, other, lanes=9, units=1, renderer="r1"))
    await settle(driver, else_, DeliveryState.SCHEDULED, delay_ms=300_000, failing=True)
    assert await driver.db.write(hurry_lanes(KEY, limit=9)) == 0
    await settle(driver, claims["one"], DeliveryState.SCHEDULED, delay_ms=300_000, failing=True)
    assert await driver.db.write(hurry_lanes(KEY, limit=9)) == 1
    assert await driver.db.write(claim_lanes(driver.node, other, lanes=9, units=1, renderer="r1")) == ()


async def test_a_doubtful_one_that_is_hurried_is_asked_about_and_its_quiet_period_goes_on(driver):
    driver.policies = EACH
    claims = await lanes_of(driver, "one")
    await settle(driver, claims["one"], DeliveryState.UNCERTAIN, delay_ms=30_000)
    driver.clock.advance(7_000)
    await driver.db.write(hurry_lanes(KEY, limit=9))
    (claim,) = await take(driver)
    assert (claim.packages[0].ask, claim.packages[0].uncertain_for_ms) == (True, 7_000)


async def test_an_uncertain_parked_unit_is_asked_about_when_it_is_replayed(driver):
    driver.policies = EACH
    claims = await lanes_of(driver, "one")
    await settle(driver, claims["one"], DeliveryState.PARKED, doubtful=True)
    (id_,) = (await driver.rows("select id from delivery"))[0]
    assert await driver.db.write(replay_delivery(DeliveryId(id_))) == "uncertain"


# --- notes that pass one another ---------------------------------------------------------------------


async def noted(driver, *texts, old=""):
    """Notes on one lane, each an operation of its own."""
    policies = (DeliveryPolicy(provider=KEY.provider, memory=True),)
    for text in texts:
        verb = MemoryVerb.REPLACE if old else MemoryVerb.ADD
        change = NoteChange(verb=verb, target=Target.MEMORY, text=text, old=old)
        batch = MemoryBatch(agent=KEY.agent, subject="", origin=f"{old}>{text}", changes=(change,), policies=policies)
        assert isinstance(await driver.db.write(apply_memory(batch)), Applied)


async def take_notes(driver, *, passing=True, name="", units=9):
    found = await driver.db.write(
        claim_lanes(driver.node, KEY, name=name, lanes=1, units=units, renderer="r1", passing=passing)
    )
    return found[0] if found else None


def noted_in(claim):
    return [package.parcel.note.text for package in claim.packages]


async def doubt_the_first(driver, *, passing=True):
    """The first note of the lane waits for its quiet period."""
    claim = await take_notes(driver, units=1, passing=passing)
    await settle(driver, claim, DeliveryState.UNCERTAIN, delay_ms=30_000)


async def test_an_uncertain_note_is_passed_by_notes_that_do_not_depend_on_it(driver):
    await noted(driver, "tea", "cat")
    await doubt_the_first(driver)
    await noted(driver, "coffee", old="tea")
    await noted(driver, "milk", old="coffee")
    await noted(driver, "dog")
    claim = await take_notes(driver)
    assert noted_in(claim) == ["cat", "dog"], "what replaces it waits, and so does what replaces that"
    await settle(driver, claim)
    assert await take_notes(driver) is None
    driver.clock.advance(30_000)
    claim = await take_notes(driver)
    assert (noted_in(claim), claim.packages[0].ask) == (["tea"], True)
    await settle(driver, claim)
    claim = await take_notes(driver)
    assert noted_in(claim) == ["coffee", "milk"]


async def test_where_notes_may_not_pass_they_wait(driver):
    await noted(driver, "tea", "cat")
    await doubt_the_first(driver, passing=False)
    await noted(driver, "dog")
    assert await take_notes(driver, passing=False) is None
    driver.clock.advance(29_999)
    assert await take_notes(driver, passing=False) is None
    driver.clock.advance(1)
    assert noted_in(await take_notes(driver, passing=False)) == ["tea"]


async def test_a_lane_on_which_nothing_can_pass_rests_until_the_quiet_period_is_over(driver):
    await noted(driver, "tea")
    await doubt_the_first(driver)
    await noted(driver, "coffee", old="tea")
    assert await take_notes(driver) is None
    now, due = await driver.db.read(next_due())
    assert due == {KEY: now + 30_000}


async def test_a_claim_of_passing_notes_that_is_asked_for_again_is_the_same_claim(driver):
    await noted(driver, "tea", "cat", "dog")
    await doubt_the_first(driver)
    first = await take_notes(driver, name="c1")
    driver.clock.advance(30_000)  # what was passed is due meanwhile
    again = await take_notes(driver, name="c1")
    assert noted_in(first) == noted_in(again) == ["cat", "dog"]
    assert not any(package.ask for package in again.packages)


async def test_turns_never_pass_an_uncertain_turn(driver):
    driver.policies = EACH
    await driver.chat("one", "two")
    claim = await take_notes(driver, units=1)
    await settle(driver, claim, DeliveryState.UNCERTAIN, delay_ms=30_000)
    assert await take_notes(driver) is None


async def test_a_lane_says_for_how_long_an_attempt_on_it_may_still_arrive(driver):
    driver.policies = EACH
    await driver.chat("one", "two")
    (claim,) = await take(driver)
    assert claim.doubted_for_ms is None
    await settle(driver, claim, DeliveryState.UNCERTAIN, delay_ms=1_000)
    driver.clock.advance(1_000)
    (claim,) = await take(driver, name="c1")
    (again,) = await take(driver, name="c1")
    assert (claim.doubted_for_ms, again.doubted_for_ms) == (1_000, 1_000)
    await settle(driver, claim)
    driver.clock.advance(500)
    (claim,) = await take(driver)
    assert claim.doubted_for_ms == 1_500, "a delivery ends no doubt about the request before it"


async def test_an_uncertain_note_may_still_arrive_on_its_lane(driver):
    await noted(driver, "cat")
    claim = await take_notes(driver)
    await settle(driver, claim, DeliveryState.UNCERTAIN, delay_ms=1_000)
    driver.clock.advance(1_000)
    assert (await take_notes(driver)).doubted_for_ms == 1_000
