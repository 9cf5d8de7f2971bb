"""The promise: a session is found by what a person knows of it, and its timeline tells what happened to it.

Rules: R40.
"""

import pytest

from holdfast.kernel.ids import Instant
from holdfast.monitor.session_facts_sql import TURNS_SHOWN, read_session_facts
from holdfast.monitor.session_list import SessionFilter
from holdfast.monitor.session_list_sql import search_sessions
from holdfast.monitor.session_step import Kind, SessionStep, lanes, within_limits
from holdfast.monitor.session_steps import session_steps
from holdfast.monitor.timeline_step import Mark
from holdfast.sessions.history_sql import trace_message
from tests.monitor.stories import STORIES, Story
from tests.support.counting import CountingDatabase


async def found(driver, *, after="", limit=50, **wanted):
    return await driver.db.read(search_sessions(SessionFilter(**wanted), after=after, limit=limit))


async def names(driver, **wanted):
    return [one.title or one.principal for one in (await found(driver, **wanted)).sessions]


async def steps_of(driver, name):
    message = await STORIES[name](Story(driver))
    session = (await driver.db.read(trace_message(message))).session
    facts = await driver.db.read(read_session_facts(session))
    return facts, session_steps(facts)


async def test_sessions_are_listed_with_what_the_model_was_sent_last(driver):
    await STORIES["answered_over_http"](Story(driver))
    driver.clock.advance(1_000)
    await driver.talk("hello", chat="den", who="bob")
    await driver.command("/title Refunds, week 47", chat="den", who="bob")
    newer, older = (await found(driver)).sessions
    assert (newer.title, newer.agent, newer.principal, newer.tokens_in) == ("Refunds, week 47", "fern", "bob", None)
    assert (older.state, older.is_live, older.turns, older.phase) == ("open", True, 1, None)
    assert (older.tokens_in, older.used_tokens) == (812, 812)


async def test_a_session_is_found_by_title_person_chat_agent_state_and_the_beginning_of_its_id(driver):
    await driver.talk("hello", chat="den", who="bob")
    await driver.command("/title 100% Größe_a", chat="den", who="bob")
    await driver.talk("hello", chat="home", who="ada")
    assert await names(driver, text="GRÖSSE") == ["100% Größe_a"]
    assert await names(driver, text="100%") == ["100% Größe_a"]
    assert await names(driver, text="Gr%e") == []
    assert await names(driver, text="e_a") == ["100% Größe_a"]
    assert await names(driver, text="ada") == ["ada"]
    assert await names(driver, text=":home") == ["ada"]
    newest = (await found(driver)).sessions[0]
    assert await names(driver, text=newest.id) == [newest.title or newest.principal]
    assert await names(driver, agent="moss") == []
    assert len(await names(driver, state="open")) == 2
    assert await names(driver, state="closed") == []
    assert await names(driver, state="running") == []


async def test_pages_of_sessions_miss_none(driver):
    for chat in "abcde":
        await driver.talk("hello", chat=chat, who=chat)
    seen, after = [], ""
    while after is not None:
        page = await found(driver, after=after, limit=2)
        seen += [one.principal for one in page.sessions]
        after = page.next
    assert seen == ["e", "d", "c", "b", "a"]


async def test_the_timeline_of_a_turn_has_its_lanes_payloads_and_receipts(driver):
    facts, steps = await steps_of(driver, "answered_over_http")
    assert lanes(steps) == ("Inbound", "Mailbox", "Turn", "Model", "Journal", "Reply", "honcho", "local")
    by_what = {step.what: step for step in steps}
    assert by_what["Message of ada"].payload == "Where is order B-1077?"
    call = by_what["Model call 1 of turn 1"]
    assert (call.duration_ms, call.payload, dict(call.facts)["tokens in"]) == (700, "It left yesterday.", "812")
    assert dict(by_what["honcho: delivered"].facts)["receipt"] == "msg_9"
    assert by_what["Recall from local"].duration_ms == 9
    assert [step.is_commit for step in steps if step.lane == "Journal"] == [True]
    assert [step for step in steps if step.goes_on or step.is_trouble] == []
    assert [step.at for step in steps] == sorted(step.at for step in steps)
    assert len(facts.outline) == 1


@pytest.mark.parametrize(
    ("name", "what", "mark"),
    [
        ("in_an_interrupted_turn", "Turn 1 interrupted", Mark.FAILED),
        ("answered_with_an_uncertain_reply", "The reply is uncertain over telegram", Mark.UNCERTAIN),
        ("parked_at_one_provider", "hindsight: parked", Mark.FAILED),
        ("waiting_for_approval", "lookup_order waits for a person", Mark.WAITING),
        ("resumed_after_a_kill", "Another claim took the turn over", Mark.LOST),
        ("gateway_dead_now", "Turn 1", Mark.RUNNING),
        ("waiting_behind_a_compression", "Waited for a summary", Mark.WAITING),
    ],
)
async def test_the_timeline_marks_what_went_wrong(driver, name, what, mark):
    _, steps = await steps_of(driver, name)
    assert (what, mark) in [(step.what, step.mark) for step in steps]


async def test_what_waits_for_a_person_goes_on_and_names_its_approval(driver):
    _, steps = await steps_of(driver, "waiting_for_approval")
    (asked,) = [step for step in steps if step.lane == "Person"]
    assert (asked.goes_on, asked.until, asked.links) == (True, None, (("approval", "K7M2QX"),))


async def test_a_tool_shows_its_arguments_and_its_result(driver):
    _, steps = await steps_of(driver, "approved")
    (tool,) = [step for step in steps if step.lane == "Tools"]
    assert (tool.what, tool.mark, tool.duration_ms) == ("lookup_order", Mark.DONE, 400)
    assert tool.payload == 'arguments\n{\n  "order": "B-1077"\n}\n\nresult\nsent'


async def test_forgotten_words_are_in_no_payload(driver):
    _, steps = await steps_of(driver, "forgotten")
    assert [step for step in steps if "B-1077" in f"{step.payload}{step.label}"] == []
    assert [step.payload for step in steps if step.lane == "Inbound"] == ["its words are erased"]


async def test_a_long_session_is_read_in_parts_with_the_same_number_of_statements(driver):
    numbers, counting = [], CountingDatabase(driver.db)
    for n in range(3 * TURNS_SHOWN):
        session = (await driver.talk(f"message {n}")).session
        if n in {0, 3 * TURNS_SHOWN - 1}:
            with counting.measured() as counted:
                facts = await counting.read(read_session_facts(session))
            numbers.append(counted.statement_count)
    assert numbers[0] == numbers[1]
    assert [turn.n for turn in facts.turns] == list(range(17, 25))
    assert len(facts.outline) == 24
    earlier = await driver.db.read(read_session_facts(session, through_turn=16))
    assert [turn.n for turn in earlier.turns] == list(range(9, 17))
    assert {one.turn for one in earlier.messages} == set(range(9, 17))


async def test_branches_and_their_parent_are_named(driver):
    session = (await driver.talk("hello")).session
    await driver.command("/branch the other way")
    parent = await driver.db.read(read_session_facts(session))
    (branch,) = parent.branches
    assert (branch.title, branch.fork_turn) == ("the other way", 1)
    child = await driver.db.read(read_session_facts(branch.id))
    assert child.parent is not None
    assert child.parent.id == parent.session.id
    assert child.turns == []


def test_payloads_that_are_too_long_are_cut_and_the_newest_come_first():
    def step(length):
        return SessionStep(lane="Tools", kind=Kind.TOOL, at=Instant(0), what="tool", payload="x" * length)

    many = within_limits([step(15_000)] * 14 + [step(30_000)])
    assert [(len(one.payload), one.payload_cut) for one in many[-2:]] == [(15_000, 0), (20_000, 10_000)]
    assert sum(len(one.payload) for one in many) == 200_000
    assert (len(many[0].payload), many[0].payload_cut) == (0, 15_000)
