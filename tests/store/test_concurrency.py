"""Under concurrent callers each message is kept once and each mailbox has one writer.

Rules: D5, R34.
"""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from holdfast.inbox.address import parse
from holdfast.inbox.mailbox_sql import claim_mailbox, release_claim
from holdfast.inbox.message import Accepted, Duplicate
from holdfast.kernel.ids import NodeId, OperationId
from holdfast.sessions.command_sql import run_command
from holdfast.sessions.history_sql import find_mailbox
from holdfast.sessions.summary_sql import begin_operation
from holdfast.store.node_sql import register_node
from holdfast.turns.turn_sql import commit_turn
from tests.support.driver import address_of
from tests.support.engines import ENGINES

pytestmark = pytest.mark.parametrize("database", ENGINES, indirect=True)


async def test_one_event_from_twenty_tasks_is_one_message(driver):
    arrivals = [driver.arrival("hello", event="e1") for _ in range(20)]
    outcomes = await asyncio.gather(*(driver.accept(arrival) for arrival in arrivals))
    (accepted,) = [outcome for outcome in outcomes if isinstance(outcome, Accepted)]
    others = [outcome for outcome in outcomes if outcome is not accepted]
    assert {outcome.message for outcome in others} == {accepted.message}
    assert all(isinstance(outcome, Duplicate) for outcome in others)
    assert len(await driver.rows("select 1 from inbound")) == len(await driver.rows("select 1 from mailbox")) == 1


async def test_one_event_at_many_addresses_is_one_message(driver):
    """The identity is the account's, conversation's and event's; the rows that are locked differ."""
    arrivals = [replace(driver.arrival("hello", event="e1"), address=parse(address_of(c))) for c in "abcdefgh"]
    outcomes = await asyncio.gather(*(driver.accept(arrival) for arrival in arrivals))
    assert Counter(type(outcome) for outcome in outcomes) == {Accepted: 1, Duplicate: 7}
    assert len(await driver.rows("select 1 from inbound")) == 1


async def test_concurrent_messages_of_one_place_are_numbered_without_gaps(driver):
    outcomes = await asyncio.gather(*(driver.accept(driver.arrival(f"m{n}")) for n in range(30)))
    assert sorted(outcome.queued_behind for outcome in outcomes) == list(range(30))
    assert [row[0] for row in await driver.rows("select seq from inbound order by seq")] == list(range(1, 31))


async def test_concurrent_messages_of_many_places_each_find_their_own(driver):
    said = [(chat, n) for chat in "abcde" for n in range(6)]
    await asyncio.gather(*(driver.say(f"{chat}{n}", chat=chat) for chat, n in said))
    for chat in "abcde":
        assert (await driver.db.read(find_mailbox(address_of(chat)))).depth == 6


async def test_concurrent_claims_never_give_one_mailbox_to_two(driver):
    nodes = [NodeId(f"node_{n}") for n in range(4)]
    for node in nodes:
        await driver.db.write(register_node(node, "here", sole=False))
    for n in range(10):
        await driver.say("hi", chat=f"c{n}")
    taken = await asyncio.gather(*(driver.db.write(claim_mailbox(node)) for node in nodes * 5))
    boxes = [claim.mailbox for claim in taken if claim is not None]
    assert len(boxes) == len(set(boxes))
    left = [claim async for claim in remaining(driver)]
    assert len(boxes) + len(left) == 10


async def remaining(driver):
    while (claim := await driver.db.write(claim_mailbox(driver.node))) is not None:
        yield claim


async def test_mail_that_arrives_while_a_turn_ends_is_never_forgotten(driver):
    await driver.say("first")
    for n in range(8):
        claim = await driver.claim()
        turn = await driver.open(claim)
        await asyncio.gather(driver.answer(claim, turn), driver.say(f"next {n}"))
        await driver.db.write(release_claim(claim))
    box = await driver.db.read(find_mailbox(address_of("home")))
    assert (box.depth, box.ready_at) == (1, driver.clock.now())


async def test_mail_that_arrives_while_a_claim_is_released_is_never_forgotten(driver):
    for n in range(8):
        await driver.say(f"m{n}")
        claim = await driver.claim()
        await driver.answer(claim, await driver.open(claim))
        await asyncio.gather(driver.db.write(release_claim(claim)), driver.say(f"late {n}"))
        claim = await driver.claim()
        await driver.answer(claim, await driver.open(claim))
        await driver.db.write(release_claim(claim))


async def test_places_that_resume_each_others_sessions_both_get_an_answer(driver):
    a, b = await driver.chat("one", chat="a"), await driver.chat("one", chat="b")
    runs = []
    for chat, wanted in (("a", b), ("b", a)):
        driver.clock.advance(1)
        text = f"/resume {wanted}"
        message = await driver.say(text, chat=chat)
        runs.append((await driver.claim(chat), driver.command_run(message, text)))
    done = await asyncio.gather(*(driver.db.write(run_command(claim, run)) for claim, run in runs))
    assert [one.switched for one in done] == [False, False], "both are claimed"


async def test_of_places_that_resume_one_session_at_once_exactly_one_gets_it(driver):
    session = await driver.chat("one", chat="old")
    await driver.command("/new", chat="old")
    runs = []
    for chat in "abcd":
        driver.clock.advance(1)
        message = await driver.say(f"/resume {session}", chat=chat)
        runs.append((await driver.claim(chat), driver.command_run(message, f"/resume {session}")))
    done = await asyncio.gather(*(driver.db.write(run_command(claim, run)) for claim, run in runs))
    assert sum(one.switched for one in done) == 1
    assert len(await driver.rows("select 1 from mailbox where session_id = :s", s=session)) == 1


async def test_of_concurrent_operations_of_one_session_one_begins(driver):
    session = await driver.chat("one")
    begun = await asyncio.gather(
        *(driver.db.write(begin_operation(OperationId(f"op_{n}"), "compress", session, driver.node)) for n in range(8))
    )
    assert Counter(type(one).__name__ for one in begun) == {"Operation": 1, "Busy": 7}


async def test_a_commit_and_its_repetition_at_once_are_one_commit(driver):
    await driver.say("one")
    claim = await driver.claim()
    turn, commit = await driver.open(claim), driver.commit()
    await asyncio.gather(*(driver.db.write(commit_turn(claim, turn, commit)) for _ in range(4)))
    assert len(await driver.rows("select 1 from entry")) == 2
    assert len(await driver.rows("select 1 from reply")) == 1
