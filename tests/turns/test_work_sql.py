"""The promise: composed verbs do what the verbs they are made of do, in one transaction, and repeating one is harmless.

Rules: D6, D9, D12, D31.
"""

from dataclasses import replace

import pytest

from holdfast.inbox.mailbox_sql import claim_mailbox, read_mail, release_claim
from holdfast.kernel.errors import ClaimLost
from holdfast.kernel.ids import NodeId
from holdfast.sessions.history_sql import find_mailbox, list_entries, trace_message
from holdfast.store.node_sql import register_node
from holdfast.turns.context_sql import read_context
from holdfast.turns.policy import TurnPolicy
from holdfast.turns.turn import Phase, TurnEvent
from holdfast.turns.turn_sql import resume_turn
from holdfast.turns.work_sql import claim_work, end_turn, take_step
from tests.store.test_node_sql import EVERYTHING
from tests.support.driver import address_of, returned, tool_step
from tests.support.planner import PlainPlanner, unknown


class Broken(PlainPlanner):
    """A planner with a bug that one mailbox shows."""

    def opening(self, claim, mail):
        raise RuntimeError("a bug")


async def work(driver, *, name="", limit=4, plan=None, known=unknown):
    return await driver.db.write(claim_work(driver.node, plan or PlainPlanner(), known, name=name, limit=limit))


async def one(driver, **options):
    (only,) = await work(driver, **options)
    return only


async def box(driver, chat="home"):
    return await driver.db.read(find_mailbox(address_of(chat)))


# --- claiming --------------------------------------------------------------------------------------


async def test_a_claim_brings_the_mail_the_opened_turn_and_its_context(driver):
    message = await driver.say("hello")
    found = await one(driver)
    assert [item.message for item in found.mail.waiting] == [message]
    assert (found.turn.phase, found.turn.attempt, found.turn.messages) == (Phase.THINKING, 1, (message,))
    assert [entry.text for entry in found.context.entries] == ["hello"]
    assert found.context.open_turn == found.turn.n == 1
    assert (await driver.db.read(trace_message(message))).state.value == "in_turn"


@pytest.mark.parametrize("earlier", [0, 1], ids=["a new session", "a live session"])
async def test_the_opened_turn_is_the_one_that_the_store_shows(driver, earlier):
    for n in range(earlier):
        await driver.talk(f"before {n}")
    await driver.accept(replace(driver.arrival("hello", who="bob"), hop=2))
    found = await one(driver)
    mail = await driver.db.read(read_mail(found.claim, limit=1))
    assert found.turn == mail.turn
    assert found.context == await driver.db.read(read_context(found.turn.session))


async def test_a_known_context_is_brought_up_to_date(driver):
    session = (await driver.talk("before")).session
    known = await driver.db.read(read_context(session))
    await driver.say("now")
    found = await one(driver, known={session: known}.get)
    assert found.context == await driver.db.read(read_context(session))


async def test_several_mailboxes_are_claimed_together_the_longest_ready_first(driver):
    for chat in ("c", "b", "a"):
        await driver.talk("before", chat=chat)
    for chat in ("a", "b", "c"):
        await driver.say("hello", chat=chat)
        driver.clock.advance(1)
    claimed = await work(driver, limit=2)
    assert [found.claim.address for found in claimed] == [address_of("a"), address_of("b")]
    claimed = await work(driver, limit=2)
    assert [found.claim.address for found in claimed] == [address_of("c")]


async def test_a_mailbox_that_is_ready_later_is_not_claimed(driver):
    await driver.say("hello")
    await driver.db.write(release_claim(await driver.claim(), retry_in_ms=5_000))
    assert await work(driver) == ()
    driver.clock.advance(5_000)
    assert len(await work(driver)) == 1


async def test_a_repeated_claim_gives_the_same_turns_as_opened(driver):
    """The result of the first call was lost, so no worker has begun them."""
    for chat in ("a", "b"):
        await driver.say("hello", chat=chat)
    first = await work(driver, name="mine")
    again = await work(driver, name="mine")
    assert [(found.claim, found.turn) for found in again] == [(found.claim, found.turn) for found in first]
    assert all(found.turn.attempt == 1 for found in again)


async def test_a_turn_of_an_earlier_claim_is_for_the_worker_to_resume(driver):
    await driver.say("hello")
    before = await one(driver)
    await driver.db.write(release_claim(before.claim))
    found = await one(driver)
    assert (found.turn, found.context) == (None, None)
    assert found.mail.turn.messages == before.turn.messages


async def test_a_turn_that_this_claim_resumed_counts_one_attempt_more(driver):
    await driver.say("hello")
    before = await one(driver)
    await driver.db.write(release_claim(before.claim))
    found = await one(driver)
    assert (await driver.db.write(resume_turn(found.claim, found.mail.turn))).attempt == 2


@pytest.mark.parametrize("text", ["/new", "/status now"])
async def test_a_command_opens_no_turn(driver, text):
    await driver.say(text)
    found = await work(driver)
    assert all(one.turn is None for one in found)


async def test_an_unaddressed_message_opens_no_turn(driver):
    await driver.say("between us", addressed=False)
    found = await one(driver)
    assert found.turn is None
    assert [item.text for item in found.mail.waiting] == ["between us"]


async def test_the_loop_guard_opens_no_turn(driver):
    await driver.say("ping", human=False)
    found = await one(driver, plan=PlainPlanner(TurnPolicy(unattended_max=0)))
    assert found.turn is None


async def test_without_a_planner_mailboxes_are_only_claimed(driver):
    message = await driver.say("hello")
    (found,) = await driver.db.write(claim_work(driver.node, None, unknown, limit=4))
    assert (found.mail, found.turn) == (None, None)
    assert (await driver.db.read(trace_message(message))).state.value == "waiting"


async def test_a_claim_that_fails_changes_nothing(driver):
    await driver.say("hello")
    before = await driver.rows(EVERYTHING)
    with pytest.raises(Exception, match="a bug"):
        await work(driver, plan=Broken())
    assert await driver.rows(EVERYTHING) == before


# --- stepping --------------------------------------------------------------------------------------


async def test_a_step_returns_the_context_that_it_is_part_of(driver):
    await driver.say("what time is it?")
    found = await one(driver)
    turn, context = await driver.db.write(take_step(found.claim, found.turn, tool_step(), unknown))
    assert (turn.last_seq, context.last_seq) == (2, 2)
    assert context.entries[-1].kind == "assistant"
    again = await driver.db.write(take_step(found.claim, found.turn, tool_step(), {turn.session: context}.get))
    assert again == (turn, context)


async def test_a_step_of_a_lost_claim_changes_nothing(driver):
    await driver.say("hello")
    found = await one(driver)
    await driver.db.write(release_claim(found.claim))
    await driver.claim()
    before = await driver.rows(EVERYTHING)
    with pytest.raises(ClaimLost):
        await driver.db.write(take_step(found.claim, found.turn, tool_step(), unknown))
    assert await driver.rows(EVERYTHING) == before


# --- ending ----------------------------------------------------------------------------------------


async def end(driver, found, plan, text="ok"):
    return await driver.db.write(end_turn(found.claim, found.turn, driver.commit(text), plan, unknown))


async def test_the_end_of_the_last_turn_releases_the_mailbox(driver):
    message = await driver.say("hello")
    ended = await end(driver, await one(driver), PlainPlanner())
    assert (ended.next, ended.committed.waiting, ended.committed.released) == (None, 0, True)
    home = await box(driver)
    assert (home.owner, home.depth, home.ready_at) == (None, 0, None)
    assert (await driver.db.read(trace_message(message))).reply.text == "ok"


async def test_the_end_of_a_turn_opens_the_next_one(driver):
    first, second = await driver.say("one"), await driver.say("two")
    ended = await end(driver, await one(driver), PlainPlanner())
    assert (ended.next.turn.n, ended.next.turn.messages) == (2, (second,))
    assert [entry.text for entry in ended.next.context.entries] == ["one", "ok", "two"]
    assert (await box(driver)).owner == driver.node
    assert (await driver.db.read(trace_message(first))).state.value == "answered"
    assert (await driver.db.read(trace_message(second))).state.value == "in_turn"


async def test_the_end_of_a_turn_gives_the_command_that_follows(driver):
    await driver.say("one")
    await driver.say("/new")
    ended = await end(driver, await one(driver), PlainPlanner())
    assert ended.next.turn is None
    assert [item.text for item in ended.next.mail.waiting] == ["/new"]
    assert (await box(driver)).owner == driver.node


async def test_without_a_planner_the_end_releases_a_mailbox_that_stays_ready(driver):
    await driver.say("one")
    await driver.say("two")
    ended = await end(driver, await one(driver), None)
    assert (ended.next, ended.committed.waiting) == (None, 1)
    home = await box(driver)
    assert (home.owner, home.depth, home.ready_at) == (None, 1, driver.clock.now())


async def test_a_repeated_end_of_the_last_turn_changes_nothing(driver):
    await driver.say("hello")
    found = await one(driver)
    plan, commit = PlainPlanner(), driver.commit()
    await driver.db.write(end_turn(found.claim, found.turn, commit, plan, unknown))
    before = await driver.rows(EVERYTHING)
    again = await driver.db.write(end_turn(found.claim, found.turn, commit, plan, unknown))
    assert again.next is None
    assert await driver.rows(EVERYTHING) == before


async def test_a_repeated_end_takes_no_mail_that_came_after_the_release(driver):
    """The mailbox is free, and another worker may claim it."""
    await driver.say("hello")
    found = await one(driver)
    plan, commit = PlainPlanner(), driver.commit()
    await driver.db.write(end_turn(found.claim, found.turn, commit, plan, unknown))
    await driver.say("later")
    again = await driver.db.write(end_turn(found.claim, found.turn, commit, plan, unknown))
    assert again.next is None
    assert (await one(driver)).turn.n == 2


async def test_a_repeated_end_gives_the_next_turn_once_more(driver):
    await driver.say("one")
    await driver.say("two")
    found = await one(driver)
    plan, commit = PlainPlanner(), driver.commit()
    first = await driver.db.write(end_turn(found.claim, found.turn, commit, plan, unknown))
    before = await driver.rows(EVERYTHING)
    again = await driver.db.write(end_turn(found.claim, found.turn, commit, plan, unknown))
    assert again.next.turn == first.next.turn
    assert await driver.rows(EVERYTHING) == before


async def test_an_end_that_cannot_open_the_next_turn_changes_nothing_and_may_be_made_alone(driver):
    message = await driver.say("one")
    await driver.say("two")
    found = await one(driver)
    before = await driver.rows(EVERYTHING)
    with pytest.raises(Exception, match="a bug"):
        await end(driver, found, Broken())
    assert await driver.rows(EVERYTHING) == before
    await end(driver, found, None)
    assert (await driver.db.read(trace_message(message))).state.value == "answered"


async def test_the_end_of_a_lost_claim_changes_nothing(driver):
    await driver.say("hello")
    found = await one(driver)
    await driver.db.write(release_claim(found.claim))
    await driver.db.write(register_node(NodeId("other"), "host", sole=False))
    assert await driver.db.write(claim_mailbox(NodeId("other"))) is not None
    before = await driver.rows(EVERYTHING)
    with pytest.raises(ClaimLost):
        await end(driver, found, PlainPlanner())
    assert await driver.rows(EVERYTHING) == before


async def test_a_turn_with_steps_ends_like_any_other(driver):
    await driver.say("what time is it?")
    found = await one(driver)
    turn, _ = await driver.db.write(take_step(found.claim, found.turn, tool_step(), unknown))
    turn, _ = await driver.db.write(take_step(found.claim, turn, returned(), unknown))
    await driver.db.write(end_turn(found.claim, turn, driver.commit("noon"), PlainPlanner(), unknown))
    page = await driver.db.read(list_entries(turn.session))
    assert [view.entry.kind for view in page] == ["user", "assistant", "tool", "assistant"]


async def test_a_failed_turn_leaves_the_next_message_to_its_own_turn(driver):
    await driver.say("one")
    await driver.say("two")
    found = await one(driver)
    commit = driver.commit("sorry", event=TurnEvent.FAILED, reason="a reason")
    ended = await driver.db.write(end_turn(found.claim, found.turn, commit, PlainPlanner(), unknown))
    assert ended.next.turn.n == 2
    assert (await driver.db.read(read_context(ended.next.turn.session))).open_turn == 2
