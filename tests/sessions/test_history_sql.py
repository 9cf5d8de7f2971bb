"""The promise: what happened can be asked for, page by page, and a snapshot never changes.

Rules: R40.
"""

from dataclasses import replace
from typing import Any

import pytest

from holdfast.kernel.errors import MessageNotFound, SessionNotFound
from holdfast.kernel.ids import MessageId, SessionId
from holdfast.sessions.history_sql import (
    find_mailbox,
    list_entries,
    list_operations,
    list_session_facts,
    list_sessions,
    list_summaries,
    read_conversation,
    read_session,
    read_snapshot,
    trace_message,
)
from holdfast.store.upkeep_sql import prove_write
from holdfast.turns.context_cache import ContextCache
from holdfast.turns.context_sql import read_context
from holdfast.turns.record_sql import record_turn
from tests.support.driver import address_of, record, retain


async def test_a_message_can_be_traced_from_acceptance_to_delivery(driver):
    driver.policies = (retain(),)
    message = await driver.say("hello", event="e1")
    waiting = await driver.db.read(trace_message(message))
    assert (waiting.state.value, waiting.turn, waiting.reply, waiting.queued_behind) == ("waiting", None, None, 0)
    claim = await driver.claim()
    turn = await driver.open(claim)
    assert (await driver.db.read(trace_message(message))).state.value == "in_turn"
    await driver.answer(claim, turn, "hi")
    done = await driver.db.read(trace_message(message))
    assert (done.agent, done.chat, done.address) == ("fern", "home", address_of("home"))
    assert (done.event_id, done.principal, done.accepted_at) == ("e1", "ada", driver.clock.now())
    assert (done.session, done.turn, done.phase, done.attempt) == (turn.session, 1, "committed", 1)
    assert (done.reply.text, done.reply.state) == ("hi", "delivered")
    assert [(one.provider, one.state, one.from_turn) for one in done.deliveries] == [("mem", "scheduled", 1)]


async def test_a_waiting_message_tells_how_many_are_before_it(driver):
    messages = [await driver.say(text) for text in "abc"]
    claim = await driver.claim()
    assert (await driver.db.read(trace_message(messages[2]))).queued_behind == 2
    await driver.answer(claim, await driver.open(claim))
    assert (await driver.db.read(trace_message(messages[2]))).queued_behind == 1


async def test_what_is_not_there_is_an_error_that_says_so(driver):
    with pytest.raises(MessageNotFound):
        await driver.db.read(trace_message(MessageId("msg_never")))
    for question in (read_session, list_entries, read_context, list_summaries):
        with pytest.raises(SessionNotFound):
            await driver.db.read(question(SessionId("ses_never")))
    with pytest.raises(SessionNotFound):
        await driver.db.read(read_snapshot(await driver.chat("one"), 1))
    assert await driver.db.read(find_mailbox(address_of("nowhere"))) is None


async def test_sessions_are_listed_newest_first_in_pages(driver):
    """By age and not by id: writers without a mailbox bring ids of their own."""
    made = []
    for name in ("zz", "aa", "mm", "kk"):
        driver.clock.advance(1)
        made.append((await driver.db.write(record_turn(record("k1", session=name)))).session)
    page = await driver.db.read(list_sessions(limit=3))
    assert [one.id for one in page] == ["kk", "mm", "aa"]
    assert [one.id for one in await driver.db.read(list_sessions(after=page[-1].id, limit=3))] == ["zz"]


async def test_pages_of_sessions_that_began_at_the_same_time_skip_none_and_repeat_none(driver):
    for n, name in enumerate(("zz", "aa", "mm", "kk", "bb")):
        driver.clock.advance(n // 3)
        await driver.db.write(record_turn(record("k1", session=name, agent="moss" if name == "mm" else "fern")))
    await driver.chat("one")
    found, after = [], ""
    while page := await driver.db.read(list_sessions(agent="fern", after=after, limit=1)):
        found += [one.id for one in page]
        after = page[-1].id
    assert found == [one.id for one in await driver.db.read(list_sessions(agent="fern"))]
    assert found[1:] == ["bb", "kk", "zz", "aa"]
    rest = [one.id for one in await driver.db.read(list_sessions(agent="fern", after="mm"))]
    assert rest == ["aa"], "another agent's session is a place in time"


async def test_a_session_that_is_not_there_is_no_place_to_read_on_from(driver):
    """It may have been deleted since the page before. An empty page would say that nothing is left."""
    await driver.chat("one")
    places: list[dict[str, Any]] = [{}, {"agent": "fern"}, {"address": address_of("home")}]
    for where in places:
        with pytest.raises(SessionNotFound, match="no session 'ses_gone'"):
            await driver.db.read(list_sessions(after="ses_gone", **where))


async def test_sessions_can_be_asked_for_by_agent_and_by_place(driver):
    home = await driver.chat("one")
    await driver.chat("two", chat="work")
    await driver.db.write(record_turn(record("k1", agent="moss")))
    assert [one.agent for one in await driver.db.read(list_sessions(agent="moss"))] == ["moss"]
    [found] = await driver.db.read(list_sessions(address=address_of("home")))
    assert (found.id, found.address) == (home, address_of("home"))
    assert [one.address for one in await driver.db.read(list_sessions(agent="moss"))] == [None]
    assert len(await driver.db.read(list_sessions())) == 3
    assert await driver.db.read(list_sessions(address=address_of("nowhere"))) == []


async def test_entries_are_paged_with_undone_ones_marked(driver):
    await driver.chat("one", "two")
    child = (await driver.command("/branch")).session
    await driver.command("/undo")
    await driver.talk("three")
    pages, after = [], 0
    while page := await driver.db.read(list_entries(child, after=after, limit=3)):
        pages.append(page)
        after = page[-1].entry.seq
    assert [len(page) for page in pages] == [3, 3, 1]
    marks = [(view.entry.text, view.undone) for page in pages for view in page]
    assert marks[:4] == [("one", False), ("re: one", False), ("two", True), ("re: two", True)]
    assert marks[5:] == [("three", False), ("re: three", False)]


async def test_a_snapshot_never_changes(driver):
    session = await driver.chat("one", "two")
    await driver.command("/undo")
    await driver.talk("three")
    made = await driver.summarise(session, through=7, text="one and three")
    before = await driver.db.read(read_snapshot(session, 1))
    assert before[0] == made
    assert [(view.entry.text, view.undone) for view in before[1] if view.entry.text] == [
        ("one", False), ("re: one", False), ("two", True), ("re: two", True), ("three", False), ("re: three", False),
    ]  # fmt: skip
    await driver.command("/undo 2")
    await driver.talk("four")
    assert await driver.db.read(read_snapshot(session, 1)) == before


async def test_a_snapshot_of_a_branch_shows_what_it_inherited(driver):
    await driver.chat("one")
    child = (await driver.command("/branch")).session
    await driver.talk("two")
    await driver.summarise(child, through=4)
    _, covered = await driver.db.read(read_snapshot(child, 1))
    assert [view.entry.text for view in covered] == ["one", "re: one", "two", "re: two"]


async def test_operations_are_listed_in_pages(driver):
    session = await driver.chat("one", "two")
    await driver.summarise(session, through=2)
    child = (await driver.command("/branch")).session
    found = await driver.db.read(list_operations())
    assert [(one.kind, one.session, one.outcome) for one in found] == [
        ("compress", session, "done"),
        ("branch", child, "done"),
    ]
    assert found[0].detail == {"summary": 1, "covers_from": 1, "covers_through": 2}
    assert await driver.db.read(list_operations(after=found[0].id)) == [found[1]]
    assert await driver.db.read(list_operations(session=session)) == [found[0]]


async def test_facts_hold_what_an_audit_needs(driver):
    session = await driver.chat("one", "two")
    await driver.summarise(session, through=2)
    child = (await driver.command("/branch")).session
    facts = {one.session.id: one for one in await driver.db.read(list_session_facts())}
    assert (facts[session].entries, facts[session].last_seq, len(facts[session].summaries)) == (4, 4, 1)
    assert (facts[child].entries, facts[child].last_seq, len(facts[child].operations)) == (0, 4, 1)
    first = (await driver.db.read(list_session_facts(limit=1)))[0].session.id
    assert [one.session.id for one in await driver.db.read(list_session_facts(after=first))] == sorted(
        {session, child} - {first}
    )


async def test_a_context_kept_in_memory_is_the_context_that_is_stored(driver):
    session, cache = await driver.chat("one"), ContextCache(driver.db)
    for change in ("two", "/undo", "three", "/branch", "four"):
        await (driver.command(change) if change.startswith("/") else driver.talk(change))
        assert await cache.read(session) == await driver.db.read(read_context(session))


async def test_a_cached_context_that_is_ahead_of_the_store_is_read_anew(driver):
    """A store that was restored from a backup ends before what the process still holds in memory."""
    session = await driver.chat("one")
    before = await driver.db.read(read_context(session))
    lost = replace(before.entries[-1], seq=before.last_seq + 1)
    ahead = replace(before, last_seq=lost.seq, entries=(*before.entries, lost))
    assert await driver.db.read(read_context(session, ahead)) == before


async def test_a_proving_write_returns_the_stores_time(driver):
    driver.clock.advance(5)
    assert await driver.db.write(prove_write()) == driver.clock.now()


async def test_a_conversation_is_told_in_the_order_it_happened_and_in_pages(driver):
    said, claim = [], None
    for n, text in enumerate(("one", "two", "/status", "three")):
        driver.clock.advance(1)
        said.append(await driver.say(text, event=f"e{n}"))
        if not text.startswith("/"):
            claim = claim or await driver.claim()
            driver.clock.advance(1)
            await driver.answer(claim, await driver.open(claim), f"re {text}")
    lines = await driver.db.read(read_conversation(address_of("home"), before=10**9, limit=10))
    assert [line.text for line in lines][:4] == ["one", "re one", "two", "re two"]
    assert [line.event_id for line in lines if line.principal] == ["e0", "e1", "e2", "e3"]
    assert [line.message for line in lines if line.text in ("two", "re two")] == [said[1]] * 2
    newest = await driver.db.read(read_conversation(address_of("home"), before=10**9, limit=1))
    assert [line.text for line in newest] == ["three", "re three"]
    older = await driver.db.read(read_conversation(address_of("home"), before=newest[0].seq, limit=2))
    assert [line.text for line in older if line.principal] == ["two", "/status"]
    assert await driver.db.read(read_conversation(address_of("nowhere"), before=10**9, limit=10)) == []


async def test_a_reply_of_the_same_millisecond_stands_before_the_next_message(driver):
    claim = None
    for text in ("one", "two"):
        await driver.say(text)
        claim = claim or await driver.claim()
        await driver.answer(claim, await driver.open(claim), f"re {text}")
    await driver.say("three")
    lines = await driver.db.read(read_conversation(address_of("home"), before=10**9, limit=10))
    assert [line.text for line in lines] == ["one", "re one", "two", "re two", "three"]
