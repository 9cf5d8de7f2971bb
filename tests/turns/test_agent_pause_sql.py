"""The promise: a paused agent accepts messages and begins no turn, its open turns end, and after it is resumed its
messages are answered in their order. The pause is durable and names who made it.

Rules: I36.
"""

import asyncio
from dataclasses import replace

import pytest

from holdfast.audit.action import ActorKind, By
from holdfast.inbox.mailbox_sql import claim_mailbox, read_mail, release_claim
from holdfast.kernel.errors import ClaimLost
from holdfast.kernel.ids import AgentName, ForgetId, Principal
from holdfast.memory.forget import ForgetRequest
from holdfast.memory.forget_sql import begin_forgetting
from holdfast.monitor.status import NeedKind, Urgency, headline
from holdfast.monitor.status_sql import read_status
from holdfast.monitor.timeline import timeline
from holdfast.monitor.trace_sql import read_trace
from holdfast.store.node_sql import read_upcoming
from holdfast.turns.agent_pause_sql import list_pauses, pause_agent, resume_agent
from holdfast.turns.turn import TurnEvent
from holdfast.turns.work_sql import claim_work, end_turn
from tests.support.driver import address_of
from tests.support.planner import PlainPlanner, unknown
from tests.turns.test_approval_sql import waiting

FERN = AgentName("fern")
ADA = By(kind=ActorKind.TOKEN, id="tok_1", label="ada's laptop", origin="http 127.0.0.1")


async def pause(driver, agent=FERN):
    return await driver.db.write(pause_agent(agent, ADA))


async def resume(driver, agent=FERN):
    return await driver.db.write(resume_agent(agent, ADA))


async def ready(driver):
    return await driver.db.write(claim_mailbox(driver.node))


async def test_a_paused_agent_stores_messages_and_its_mailbox_is_not_claimed(driver):
    await driver.talk("before")
    await pause(driver)
    await driver.say("hello")
    await driver.say("hello", chat="a new chat")
    assert await ready(driver) is None
    assert await driver.rows("select depth from mailbox order by address") == [(1,), (1,)]


async def test_another_agent_goes_on(driver):
    await driver.say("hello", agent="moss")
    await pause(driver)
    assert (await ready(driver)).agent == "moss"


async def test_what_is_paused_makes_no_node_look_for_work(driver):
    await driver.say("hello")
    await pause(driver)
    assert (await driver.db.read(read_upcoming())).mail_at is None
    await resume(driver)
    assert (await driver.db.read(read_upcoming())).mail_at is not None


async def test_a_resumed_agent_answers_in_order_the_chat_that_waited_longest_first(driver):
    await driver.talk("before", chat="b")
    await pause(driver)
    for text, chat in (("one", "a"), ("two", "b"), ("three", "a")):
        await driver.say(text, chat=chat)
        driver.clock.advance(10)
    await resume(driver)
    claim = await driver.claim("a")
    assert [item.text for item in (await driver.db.read(read_mail(claim, limit=9))).waiting] == ["one", "three"]
    await driver.claim("b")


async def test_an_open_turn_ends_and_no_other_follows_it(driver):
    await driver.say("one")
    await driver.say("two")
    (work,) = await driver.db.write(claim_work(driver.node, PlainPlanner(), unknown, limit=1))
    await pause(driver)
    ended = await driver.db.write(end_turn(work.claim, work.turn, driver.commit(), PlainPlanner(), unknown))
    assert ended.next is not None
    assert ended.next.turn is None
    assert ended.next.mail.is_paused
    await driver.db.write(release_claim(work.claim))
    assert await ready(driver) is None
    assert await driver.rows("select depth, paused from mailbox") == [(1, 1)]


async def test_an_open_turn_whose_process_died_is_resumed_by_another(driver):
    await driver.say("one")
    claim = await driver.claim()
    turn = await driver.open(claim)
    await pause(driver)
    await driver.db.write(release_claim(claim))
    again = await driver.claim()
    assert (await driver.db.read(read_mail(again, limit=1))).turn.n == turn.n
    await driver.answer(again, turn)
    await driver.say("two")
    await driver.db.write(release_claim(again))
    assert await ready(driver) is None


async def test_a_turn_that_waits_for_a_person_ends_after_the_decision(driver):
    turn = await waiting(driver)
    await pause(driver)
    await driver.say("two")
    await driver.say("/approve K7M2QX")
    claim = await driver.claim()
    assert (await driver.db.read(read_mail(claim, limit=1))).turn.n == turn.n


async def test_waiting_words_that_are_forgotten_meanwhile_leave_the_open_turn_to_its_end(driver):
    """Only the end of the turn pauses its mailbox, not everything that reduces the number of messages."""
    await driver.say("one")
    claim = await driver.claim()
    turn = await driver.open(claim)
    await driver.say("two", who="bob")
    await pause(driver)
    await driver.db.write(begin_forgetting(ForgetRequest(id=ForgetId("forget_1"), person=Principal("bob"))))
    await driver.db.write(release_claim(claim))
    again = await driver.claim()
    assert (await driver.db.read(read_mail(again, limit=1))).turn.n == turn.n
    assert await driver.rows("select depth, paused from mailbox") == [(1, 2)]


async def test_a_claim_from_before_the_pause_begins_no_turn(driver):
    await driver.say("one")
    claim = await driver.claim()
    await pause(driver)
    assert (await driver.db.read(read_mail(claim, limit=1))).is_paused
    with pytest.raises(ClaimLost, match="fern was paused"):
        await driver.open(claim)
    assert await driver.rows("select state from inbound") == [("waiting",)]
    assert await driver.rows("select count(*) from turn") == [(0,)]


async def test_a_pause_and_a_claim_at_the_same_time_agree(driver):
    """Whichever is first: no turn begins after the pause, and one that began before ends."""
    for n in range(8):
        await driver.talk("before", chat=f"{n}")
    for n in range(8):
        await driver.say("hello", chat=f"{n}")
    _, claimed = await asyncio.gather(
        pause(driver), driver.db.write(claim_work(driver.node, PlainPlanner(), unknown, limit=4))
    )
    found = await driver.rows("select paused, open_turn is null from mailbox join session on session_id = session.id")
    assert sorted(found) == sorted([(2, 0)] * len(claimed) + [(1, 1)] * (8 - len(claimed)))
    assert await ready(driver) is None


async def test_a_pause_is_made_once_and_names_who_made_it(driver):
    await driver.say("one")
    first = await pause(driver)
    driver.clock.advance(5_000)
    second = await driver.db.write(pause_agent(FERN, replace(ADA, id="tok_2", label="")))
    assert (first.changed, first.waiting, first.open_turns) == (True, 1, 0)
    assert (second.changed, second.pause) == (False, first.pause)
    assert await driver.db.read(list_pauses()) == [first.pause]
    assert (first.pause.by, first.pause.who) == (ADA, "ada's laptop")
    ended = await resume(driver)
    assert (ended.changed, ended.pause) == (True, first.pause)
    assert await driver.db.read(list_pauses()) == []
    assert (await resume(driver)).changed is False


async def test_the_status_says_who_paused_an_agent_and_no_mail_counts_as_stuck(driver):
    await driver.say("hello")
    await pause(driver)
    driver.clock.advance(3_600_000)
    found = await driver.db.read(read_status())
    (need,) = found.needs
    assert (need.urgency, need.kind, need.agent) == (Urgency.DECIDE, NeedKind.PAUSE, "fern")
    assert need.what == "fern is paused by ada's laptop and begins no turn"
    assert (need.evidence, need.command) == ("1 message waits", "holdfast resume fern")
    assert need.since == found.at - 3_600_000
    assert headline(found).second == ("1 agent is paused",)


async def test_the_verdict_about_a_waiting_message_says_that_its_agent_is_paused(driver):
    message = await driver.say("hello")
    await pause(driver)
    driver.clock.advance(180_000)
    found = timeline(await driver.db.read(read_trace(message)))
    assert found.verdict == (
        "Accepted and waiting; ada's laptop paused fern 3 min ago, and `holdfast resume` lets it go on."
    )
    assert found.needs_you


async def test_a_stop_ends_the_turn_of_a_paused_agent(driver):
    await driver.say("one")
    claim = await driver.claim()
    turn = await driver.open(claim)
    await pause(driver)
    await driver.say("/stop")
    await driver.db.write(release_claim(claim))
    again = await driver.claim()
    mail = await driver.db.read(read_mail(again, limit=1))
    assert mail.turn.stopping
    await driver.db.write(
        end_turn(again, mail.turn, driver.commit(event=TurnEvent.INTERRUPTED), PlainPlanner(), unknown)
    )
    assert turn.n == mail.turn.n
    assert await driver.rows("select depth, paused from mailbox") == [(0, 1)]
    assert address_of("home") == again.address
