"""An epoch ends once. Each step of its end is durable before the next, also when another worker repeats it or takes it
over; memory is written once; and a session that gets a message is not torn down under it.

Rules: D23, D24, R30, R31.
"""

import asyncio
import json
from dataclasses import replace

import pytest

from holdfast.inbox.mailbox_sql import release_claim
from holdfast.kernel.errors import ClaimLost, FinalisationNotFound, InvariantBroken
from holdfast.kernel.ids import AgentName, Instant, NodeId
from holdfast.memory.notes import Capacity, MemoryBatch, MemoryVerb, NoteChange, Target
from holdfast.memory.notes_sql import apply_memory, read_memory
from holdfast.sessions import finalisation_sql
from holdfast.sessions.extraction import Unusable, decode_result, parse_answer
from holdfast.sessions.extraction_sql import apply_finalisation, read_excerpt
from holdfast.sessions.finalisation import Ending, Finalisation, FinishEvent, FinishStep, NotEnded
from holdfast.sessions.finalisation_sql import (
    begin_finalisation,
    claim_finalisation,
    find_expired_sessions,
    forget_answers,
    list_finalisations,
    list_open_agents,
    record_finalisation,
    retry_finalisation,
)
from holdfast.sessions.finisher import Finisher
from holdfast.sessions.history_sql import find_mailbox, read_session, trace_message
from holdfast.sessions.session import Purpose, SessionState
from holdfast.store.membership import Member
from holdfast.store.node_sql import reap_nodes, register_node, renew_node, retire_node
from holdfast.store.script import Call
from holdfast.testing import SeededEntropy
from holdfast.tools.toolbox import ToolBox
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.context_sql import read_context
from holdfast.turns.open_turn_sql import observe_messages
from holdfast.turns.policy import AgentPolicy
from holdfast.turns.record_sql import record_turn
from holdfast.turns.turn import Usage
from holdfast.turns.turn_sql import commit_turn
from tests.support.driver import address_of, record, retain
from tests.support.fakes import ScriptedModel, says
from tests.support.ports import make_ports

OTHER = NodeId("node_b")
FERN = AgentName("fern")
LEDGER = """
select id, from_seq, through_seq, step, attempts, fence, coalesce(owner, ''), coalesce(ended_at, 0), answer, result
  from finalisation order by id"""
WRITTEN = "select stream, seq, origin, op from memory_op order by stream, seq"
ADD = {"verb": "add", "target": "user", "text": "Has a cat called Byron."}
STEPS = [FinishStep.BEGUN, FinishStep.ASKED, FinishStep.APPLIED]


def ending(session, *, epoch=1, before=None, policies=()):
    return Ending(
        session=session, epoch=epoch, cause="idle", active_before=before or Instant(1 << 60), policies=policies
    )


async def end(driver, session, **more) -> Finalisation:
    begun: object = await driver.db.write(begin_finalisation(ending(session, **more)))
    assert isinstance(begun, Finalisation), begun
    return begun


async def take(driver, *, node=None, name="") -> Finalisation:
    held: object = await driver.db.write(claim_finalisation(node or driver.node, name=name))
    assert isinstance(held, Finalisation), held
    return held


async def to_step(driver, held, step, *changes):
    """Carry a claimed end up to a step."""
    answer = json.dumps({"changes": changes}).encode()
    if step is not FinishStep.BEGUN:
        held = await driver.db.write(record_finalisation(held, FinishEvent.ANSWERED, answer=answer, model="m"))
    if step in {FinishStep.APPLIED, FinishStep.CLOSED}:
        held = await apply(driver, held)
    if step is FinishStep.CLOSED:
        held = await driver.db.write(record_finalisation(held, FinishEvent.CLOSED))
    return held


async def apply(driver, held, capacity=None):
    answer = parse_answer(held.answer.decode())
    assert not isinstance(answer, Unusable), answer
    return await driver.db.write(apply_finalisation(held, answer.changes, capacity or Capacity()))


async def note(driver, text, *, target=Target.USER, origin=None, **change):
    verb = change.pop("verb", MemoryVerb.ADD)
    batch = MemoryBatch(
        agent=FERN,
        subject="ada",
        origin=origin or driver.id("op"),
        changes=(NoteChange(verb=verb, target=target, text=text, **change),),
    )
    outcome = await driver.db.write(apply_memory(batch))
    return outcome.seqs[0]


async def notes_of(driver, subject="ada"):
    return [entry.text for entry in (await driver.db.read(read_memory(FERN, subject))).entries]


async def states(driver, session):
    found = await driver.db.read(read_session(session))
    return found.state, found.epoch


async def steps(driver, session):
    return [end.step.value for end in reversed(await driver.db.read(list_finalisations(session=session)))]


# --- ending an epoch -------------------------------------------------------------------------------


async def test_an_end_freezes_what_was_said_and_makes_its_tail_due(driver):
    driver.policies = (retain(every_turns=10),)
    session = await driver.chat("one", "two")
    begun = await end(driver, session, policies=driver.policies)
    assert (begun.from_seq, begun.through_seq, begun.step, begun.attempts) == (1, 4, FinishStep.BEGUN, 0)
    assert begun.said_at == driver.clock.now()
    assert await states(driver, session) == (SessionState.EXPIRING, 1)
    assert await driver.rows("select from_turn, through_turn from delivery") == [(1, 2)]


@pytest.mark.parametrize("why", ["gone", "moved", "active", "mail", "claimed", "in_turn"])
async def test_a_session_that_somebody_may_still_use_is_not_ended(driver, why):
    session = await driver.chat("one")
    wish = ending(session)
    match why:
        case "gone":
            await driver.delete()
        case "moved":
            wish = ending(session, epoch=2)
        case "active":
            wish = ending(session, before=Instant(driver.clock.now() - 1))
        case "mail":
            await driver.say("two")
        case "claimed":
            await driver.say("two")
            claim = await driver.claim()
            await driver.answer(claim, await driver.open(claim))
        case "in_turn":
            await driver.say("two")
            await driver.open(await driver.claim())
    before = await driver.rows(LEDGER), await states(driver, session)
    assert await driver.db.write(begin_finalisation(wish)) == NotEnded(why)
    assert (await driver.rows(LEDGER), await states(driver, session)) == before


async def test_an_end_begun_again_is_the_same_whatever_became_of_it(driver):
    session = await driver.chat("one")
    assert await end(driver, session) == await end(driver, session)
    done = await to_step(driver, await take(driver), FinishStep.CLOSED)
    assert await end(driver, session) == done
    assert await steps(driver, session) == ["closed"]


async def test_new_leaves_an_end_to_be_worked_on_in_the_same_transaction(driver):
    session = await driver.chat("one")
    await driver.command("/reset")
    (left,) = await driver.db.read(list_finalisations(session=session))
    assert (left.cause, left.from_seq, left.through_seq, left.step) == ("new", 1, 2, FinishStep.BEGUN)
    done = await to_step(driver, await take(driver), FinishStep.CLOSED, ADD)
    assert (done.outcome, await notes_of(driver)) == ("done", [ADD["text"]])
    assert await states(driver, session) == (SessionState.CLOSED, 1)


async def test_resume_and_branch_leave_the_old_session_open_until_it_idles_out(driver):
    first = await driver.chat("one")
    child = (await driver.command("/branch")).session
    assert (await driver.rows(LEDGER), await states(driver, first)) == ([], (SessionState.OPEN, 1))
    await driver.talk("two")
    assert (await end(driver, first)).through_seq == 2
    assert (await end(driver, child)).from_seq == 3


async def test_expired_sessions_are_the_unused_ones_oldest_first(driver):
    sessions = []
    for chat in ("a", "b", "c", "d"):
        sessions.append(await driver.chat("one", chat=chat))
        driver.clock.advance(10)
    await driver.say("two", chat="b")
    found = await driver.db.write(find_expired_sessions(FERN, before=Instant(driver.clock.now() - 20), limit=9))
    assert [each.session for each in found] == [sessions[0], sessions[2]]
    found = await driver.db.write(find_expired_sessions(FERN, before=driver.clock.now(), limit=2))
    assert [(each.session, each.epoch) for each in found] == [(sessions[0], 1), (sessions[2], 1)]
    await end(driver, sessions[0])
    found = await driver.db.write(find_expired_sessions(FERN, before=driver.clock.now(), limit=9))
    assert sessions[0] not in [each.session for each in found]
    now, agents = await driver.db.read(list_open_agents())
    assert (now, [*agents]) == (driver.clock.now(), [FERN])


async def test_a_session_in_use_is_moved_once_by_the_search_and_expires_when_it_is_idle(driver):
    """`idle_from` stays behind `active_at` while the session is used, so that a turn changes no index."""
    idle, used = await driver.chat("one", chat="a"), await driver.chat("one", chat="b")
    began = driver.clock.now()
    driver.clock.advance(1_000)
    await driver.chat("two", chat="b")
    marks = "select idle_from, active_at from session where id = :s"
    assert await driver.rows(marks, s=used) == [(began, began + 1_000)]
    found = await driver.db.write(find_expired_sessions(FERN, before=Instant(began + 500), limit=9))
    assert [each.session for each in found] == [idle]
    assert await driver.rows(marks, s=used) == [(began + 1_000, began + 1_000)]
    assert (await driver.db.read(list_open_agents()))[1] == {FERN: began}
    await end(driver, idle)
    assert (await driver.db.read(list_open_agents()))[1] == {FERN: began + 1_000}
    driver.clock.advance(1_000)
    found = await driver.db.write(find_expired_sessions(FERN, before=Instant(began + 1_000), limit=9))
    assert [each.session for each in found] == [used]


async def test_a_session_in_use_does_not_expire_while_its_mark_is_behind(driver, monkeypatch):
    """One search moves a limited number of marks."""
    monkeypatch.setattr(finalisation_sql, "MOVED_MAX", 0)
    idle, used = await driver.chat("one", chat="a"), await driver.chat("one", chat="b")
    began = driver.clock.now()
    driver.clock.advance(1_000)
    assert await driver.chat("two", chat="b") == used
    found = await driver.db.write(find_expired_sessions(FERN, before=Instant(began + 500), limit=9))
    assert [each.session for each in found] == [idle]


async def test_the_agents_with_open_sessions_are_named_once(driver):
    assert (await driver.db.read(list_open_agents()))[1] == {}
    for n, agent in enumerate(("moss", "fern", "moss", "reed")):
        await driver.db.write(record_turn(record("k", session=f"s{n}", agent=agent)))
    assert [*(await driver.db.read(list_open_agents()))[1]] == ["fern", "moss", "reed"]


# --- steps, repeated and taken over ----------------------------------------------------------------


@pytest.mark.parametrize("event", [FinishEvent.ANSWERED, FinishEvent.EMPTY, FinishEvent.GAVE_UP, FinishEvent.POSTPONED])
async def test_a_step_repeated_after_an_unknown_commit_returns_its_first_result(driver, event):
    session = await driver.chat("one")
    await end(driver, session)
    held = await take(driver)
    first = await driver.db.write(record_finalisation(held, event, answer=b"{}", reason="why", retry_in_ms=5))
    before = await driver.rows(LEDGER), await states(driver, session)
    assert (
        await driver.db.write(record_finalisation(held, event, answer=b"other", reason="why", retry_in_ms=5)) == first
    )
    assert (await driver.rows(LEDGER), await states(driver, session)) == before


async def test_applying_and_closing_again_change_nothing(driver):
    session = await driver.chat("one")
    await end(driver, session)
    asked = await to_step(driver, await take(driver), FinishStep.ASKED, ADD)
    applied = await apply(driver, asked)
    assert await apply(driver, asked) == applied
    closed = await driver.db.write(record_finalisation(applied, FinishEvent.CLOSED))
    assert await driver.db.write(record_finalisation(applied, FinishEvent.CLOSED)) == closed
    assert await driver.rows(WRITTEN) == [("memory:fern:ada", 1, held_origin(session), "add")]
    assert await states(driver, session) == (SessionState.CLOSED, 1)


def held_origin(session, epoch=1):
    return f"finish:{session}:{epoch}"


async def test_a_claim_asked_for_again_under_its_name_is_the_same(driver):
    await end(driver, await driver.chat("one"))
    held = await take(driver, name="n1")
    assert await take(driver, name="n1") == held
    assert await driver.db.write(claim_finalisation(driver.node, name="n2")) is None
    asked = await to_step(driver, held, FinishStep.ASKED)
    assert await take(driver, name="n1") == asked


@pytest.mark.parametrize(
    ("step", "gone"),
    [(FinishStep.BEGUN, "reaped"), (FinishStep.ASKED, "sole"), (FinishStep.APPLIED, "retired")],
    ids=lambda each: getattr(each, "value", each),
)
async def test_the_end_of_its_owner_hands_the_work_on_from_the_stored_step(driver, step, gone):
    session = await driver.chat("one")
    await end(driver, session)
    lost = await to_step(driver, await take(driver), step, ADD)
    await driver.db.write(register_node(OTHER, "there", sole=False))
    assert await driver.db.write(claim_finalisation(OTHER)) is None
    if gone == "sole":
        await driver.db.write(register_node(OTHER, "there", sole=True))
    elif gone == "retired":
        await driver.db.write(retire_node(driver.node))
    else:
        driver.clock.advance(1_000)
        await driver.db.write(renew_node(OTHER))
        await driver.db.write(reap_nodes(lease_ms=1_000))
    taken = await take(driver, node=OTHER)
    assert (taken.step, taken.answer, taken.attempts) == (lost.step, lost.answer, 2)
    written = await driver.rows(WRITTEN)
    for act in (driver.db.write(record_finalisation(lost, FinishEvent.POSTPONED)), apply_void(driver, lost)):
        with pytest.raises(ClaimLost):
            await act
    assert await driver.rows(WRITTEN) == written


async def apply_void(driver, lost):
    return await driver.db.write(apply_finalisation(lost, (), Capacity()))


async def test_a_node_that_is_not_registered_takes_nothing(driver):
    await end(driver, await driver.chat("one"))
    assert await driver.db.write(claim_finalisation(OTHER)) is None


async def test_an_end_taken_while_its_node_was_reaped_is_free_after_the_next_reaping(driver):
    await end(driver, await driver.chat("one"))
    await take(driver)
    await driver.write("delete from node where id = :node", node=driver.node)
    await driver.db.write(register_node(OTHER, "there", sole=False))
    await driver.db.write(reap_nodes(lease_ms=15_000))
    assert await take(driver, node=OTHER)


async def test_what_is_put_off_is_not_taken_before_its_time(driver):
    await end(driver, await driver.chat("one"))
    held = await take(driver)
    put_off = await driver.db.write(
        record_finalisation(held, FinishEvent.POSTPONED, reason="no answer", retry_in_ms=500)
    )
    assert (put_off.owner, put_off.reason, put_off.ended) == (None, "no answer", False)
    for act in (driver.db.write(record_finalisation(held, FinishEvent.ANSWERED)), apply_void(driver, held)):
        with pytest.raises(ClaimLost):
            await act
    driver.clock.advance(499)
    assert await driver.db.write(claim_finalisation(driver.node)) is None
    driver.clock.advance(1)
    assert (await take(driver)).attempts == 2


async def test_a_step_that_the_table_does_not_know_is_our_bug(driver):
    await end(driver, await driver.chat("one"))
    held = await take(driver)
    with pytest.raises(InvariantBroken):
        await driver.db.write(record_finalisation(held, FinishEvent.CLOSED))


@pytest.mark.parametrize("step", [FinishStep.BEGUN, FinishStep.ASKED], ids=lambda step: step.value)
async def test_a_failed_end_is_visible_and_goes_on_from_its_answer_when_it_is_wanted_again(driver, step):
    session = await driver.chat("one")
    await end(driver, session)
    held = await to_step(driver, await take(driver), step, ADD)
    failed = await driver.db.write(record_finalisation(held, FinishEvent.GAVE_UP, reason="the model raised"))
    assert (failed.outcome, failed.reason, await notes_of(driver)) == ("failed", "the model raised", [])
    assert await states(driver, session) == (SessionState.CLOSED, 1)
    assert await driver.db.write(claim_finalisation(driver.node)) is None
    again = await driver.db.write(retry_finalisation(session, 1))
    assert (again.step, again.attempts, again.ended_at) == (step, 0, None)
    assert await driver.db.write(retry_finalisation(session, 1)) == again
    taken = await take(driver)
    done = (
        await to_step(driver, taken, FinishStep.CLOSED, ADD) if step is FinishStep.BEGUN else await apply(driver, taken)
    )
    assert (done.answer, await notes_of(driver)) == (json.dumps({"changes": [ADD]}).encode(), [ADD["text"]])
    with pytest.raises(FinalisationNotFound):
        await driver.db.write(retry_finalisation(session, 7))


async def test_ends_are_found_by_agent_and_by_state(driver):
    await end(driver, await driver.chat("one"))
    (found,) = await driver.db.read(list_finalisations(agent="fern", state="begun"))
    assert await driver.db.read(list_finalisations(session=found.session, agent="fern", state="begun")) == [found]
    assert await driver.db.read(list_finalisations(agent="moss")) == []
    assert await driver.db.read(list_finalisations(state="failed")) == []


# --- a message while it ends -----------------------------------------------------------------------


async def test_a_message_before_the_work_begins_takes_the_range_along(driver):
    session = await driver.chat("one")
    await end(driver, session)
    turn = await driver.talk("two")
    assert (turn.session, await states(driver, session)) == (session, (SessionState.OPEN, 2))
    assert await steps(driver, session) == ["cancelled"]
    assert await driver.db.write(claim_finalisation(driver.node)) is None
    again = await end(driver, session, epoch=2)
    assert (again.from_seq, again.through_seq) == (1, 4)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.value)
async def test_a_message_after_that_goes_on_in_the_next_epoch_while_the_frozen_range_is_finished(driver, step):
    session = await driver.chat("one")
    await end(driver, session)
    held = await to_step(driver, await take(driver), step, ADD)
    turn = await driver.talk("two")
    assert (turn.session, await states(driver, session)) == (session, (SessionState.OPEN, 2))
    if step is FinishStep.BEGUN:
        held = await to_step(driver, held, FinishStep.APPLIED, ADD)
    elif step is FinishStep.ASKED:
        held = await apply(driver, held)
    done = await driver.db.write(record_finalisation(held, FinishEvent.CLOSED))
    assert (done.outcome, done.through_seq, await notes_of(driver)) == ("done", 2, [ADD["text"]])
    assert await states(driver, session) == (SessionState.OPEN, 2)
    assert (await driver.talk("three")).session == session
    assert (await end(driver, session, epoch=2)).from_seq == 3


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.value)
async def test_a_message_that_waits_at_the_close_keeps_the_session(driver, step):
    session = await driver.chat("one")
    await end(driver, session)
    held = await to_step(driver, await take(driver), step, ADD)
    message = await driver.say("two")
    if step is FinishStep.ASKED:
        held = await apply(driver, held)
    await driver.db.write(
        record_finalisation(held, FinishEvent.EMPTY if step is FinishStep.BEGUN else FinishEvent.CLOSED)
    )
    assert await states(driver, session) == (SessionState.OPEN, 2)
    claim = await driver.claim()
    assert (await driver.open(claim)).session == session
    assert (await driver.db.read(trace_message(message))).session == session


async def test_the_end_of_an_earlier_epoch_does_not_close_a_later_one_that_is_ending(driver):
    session = await driver.chat("one")
    await end(driver, session)
    held = await to_step(driver, await take(driver), FinishStep.APPLIED, ADD)
    await driver.talk("two")
    await end(driver, session, epoch=2)
    await driver.db.write(record_finalisation(held, FinishEvent.CLOSED))
    assert await states(driver, session) == (SessionState.EXPIRING, 2)
    assert (await driver.db.read(find_mailbox(address_of("home")))).session == session


async def test_a_session_that_was_closed_by_new_keeps_the_time_it_was_closed_at(driver):
    session = await driver.chat("one")
    await driver.command("/new")
    closed_at = await driver.rows("select closed_at, reason from session where id = :s", s=session)
    driver.clock.advance(5_000)
    await to_step(driver, await take(driver), FinishStep.CLOSED, ADD)
    assert await driver.rows("select closed_at, reason from session where id = :s", s=session) == closed_at
    assert await states(driver, session) == (SessionState.CLOSED, 1)


async def test_a_session_that_a_command_reopens_has_just_been_used(driver):
    """Otherwise it would expire again at the next look."""
    session = await driver.chat("one")
    await end(driver, session)
    driver.clock.advance(1_000)
    await driver.command("/title home")
    now = driver.clock.now()
    assert await driver.db.write(find_expired_sessions(FERN, before=Instant(now - 1), limit=10)) == []
    assert await driver.db.write(begin_finalisation(ending(session, epoch=2, before=Instant(now - 1)))) == NotEnded(
        "active"
    )


async def test_sessions_expire_by_the_rules_of_their_own_agent(driver):
    ours = await driver.chat("one")
    await driver.say("hi", agent="moss", chat="there")
    claim = await driver.claim("there")
    turn = await driver.open(claim)
    await driver.answer(claim, turn)
    await driver.db.write(release_claim(claim))
    driver.clock.advance(1)
    for agent, session in ((FERN, ours), (AgentName("moss"), turn.session)):
        found = await driver.db.write(find_expired_sessions(agent, before=driver.clock.now(), limit=10))
        assert [one.session for one in found] == [session]


async def test_a_message_after_the_close_opens_a_new_session(driver):
    session = await driver.chat("one")
    await end(driver, session)
    before = await driver.db.read(find_mailbox(address_of("home")))
    await to_step(driver, await take(driver), FinishStep.CLOSED)
    after = await driver.db.read(find_mailbox(address_of("home")))
    assert (after.session, after.fence) == (None, before.fence + 1)
    found = await driver.db.read(read_session(session))
    assert (found.state, found.reason, found.closed_at) == (SessionState.CLOSED, "idle", driver.clock.now())
    assert (await driver.talk("two")).session != session


async def test_overheard_talk_reopens_too(driver):
    session = await driver.chat("one")
    await end(driver, session)
    message = await driver.say("by the way", addressed=False)
    await driver.db.write(observe_messages(await driver.claim(), session, [message]))
    assert await states(driver, session) == (SessionState.OPEN, 2)


@pytest.mark.parametrize("text", ["/undo", "/help"])
async def test_a_command_reopens_too(driver, text):
    session = await driver.chat("one")
    await end(driver, session)
    await driver.command(text)
    assert (await states(driver, session), await steps(driver, session)) == ((SessionState.OPEN, 2), ["cancelled"])


async def test_new_while_it_expires_ends_the_next_epoch_with_the_whole_range(driver):
    session = await driver.chat("one")
    await end(driver, session)
    await driver.command("/new")
    assert (await states(driver, session), await steps(driver, session)) == (
        (SessionState.CLOSED, 2),
        ["cancelled", "begun"],
    )
    assert (await take(driver)).from_seq == 1


async def test_resuming_a_session_that_has_ended_opens_its_next_epoch(driver):
    session = await driver.chat("one")
    await driver.command("/new")
    held = await take(driver)
    done = await driver.command(f"/resume {session}")
    assert (done.session, "epoch 2" in done.text) == (session, True)
    assert (await to_step(driver, held, FinishStep.CLOSED, ADD)).outcome == "done"
    assert await states(driver, session) == (SessionState.OPEN, 2)
    await driver.talk("two")
    await driver.command("/new")
    again = await take(driver)
    assert (again.epoch, again.from_seq, again.through_seq) == (2, 3, 4)


async def test_a_session_that_expires_elsewhere_can_be_resumed_here(driver):
    session = await driver.chat("one", chat="phone")
    await end(driver, session)
    assert (await driver.command(f"/resume {session}")).switched
    assert (await states(driver, session), await steps(driver, session)) == ((SessionState.OPEN, 2), ["cancelled"])
    assert (await driver.db.read(find_mailbox(address_of("phone")))).session is None


async def test_an_older_end_keeps_its_range_when_a_younger_one_is_cancelled(driver):
    session = await driver.chat("one")
    await end(driver, session)
    held = await take(driver)
    await driver.talk("two")
    await driver.db.write(record_finalisation(held, FinishEvent.POSTPONED))
    await end(driver, session, epoch=2)
    await driver.talk("three")
    assert await steps(driver, session) == ["begun", "cancelled"]
    third = await end(driver, session, epoch=3)
    assert (third.from_seq, third.through_seq) == (3, 6)


async def test_a_writer_without_a_mailbox_reopens_what_has_ended(driver):
    for epoch in (1, 2):
        await driver.db.write(record_turn(record(f"k{epoch}")))
        await end(driver, "hermes-1", epoch=epoch)
        held = await take(driver)
        assert (held.from_seq, held.through_seq) == (2 * epoch - 1, 2 * epoch)
        await to_step(driver, held, FinishStep.CLOSED)
    assert (await driver.db.write(record_turn(record("k2")))).repeated
    assert await states(driver, "hermes-1") == (SessionState.CLOSED, 2)


async def test_a_run_that_is_no_conversation_says_so(driver):
    await driver.db.write(record_turn(record("k1", purpose="subagent")))
    assert (await end(driver, "hermes-1")).purpose is Purpose.SUBAGENT


# --- deletion --------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [FinishStep.BEGUN, FinishStep.ASKED], ids=lambda step: step.value)
async def test_deletion_extracts_nothing_and_takes_the_ledger_along(driver, step):
    session = await driver.chat("one")
    await end(driver, session)
    held = await to_step(driver, await take(driver), step, ADD)
    written = await driver.rows(WRITTEN)
    await driver.delete()
    assert await driver.rows(LEDGER) == []
    for act in (driver.db.write(record_finalisation(held, FinishEvent.POSTPONED)), apply_void(driver, held)):
        with pytest.raises(ClaimLost):
            await act
    assert await driver.rows(WRITTEN) == written
    assert (await driver.db.read(read_session(session))).state is SessionState.DELETED


@pytest.mark.parametrize("step", [FinishStep.ASKED, FinishStep.CLOSED], ids=lambda step: step.value)
async def test_answers_can_be_forgotten_and_one_that_is_not_applied_is_asked_for_anew(driver, step):
    session = await driver.chat("one")
    await end(driver, session)
    held = await to_step(driver, await take(driver), step, ADD)
    await driver.db.write(Call("forget", lambda: forget_answers(session)))
    (left,) = await driver.db.read(list_finalisations(session=session))
    assert (b"Byron" in left.answer + left.result, left.owner) == (False, None)
    assert left.step is (FinishStep.BEGUN if step is FinishStep.ASKED else FinishStep.CLOSED)
    if step is FinishStep.ASKED:
        with pytest.raises(ClaimLost):
            await apply(driver, held)


# --- what was said ---------------------------------------------------------------------------------


async def test_an_excerpt_is_the_frozen_range_without_what_was_taken_back_since(driver):
    session = await driver.chat("one", "two")
    await end(driver, session)
    held = await take(driver)
    await driver.talk("three")
    assert [entry.text for entry in (await driver.db.read(read_excerpt(held))).said] == [
        "one",
        "re: one",
        "two",
        "re: two",
    ]
    await driver.command("/undo 2")
    assert [entry.text for entry in (await driver.db.read(read_excerpt(held))).said] == ["one", "re: one"]


async def test_an_excerpt_has_the_token_ratio_of_its_session(driver):
    """The model counts four times as many tokens as the estimate, so four times fewer words fit into a request."""
    await driver.say("one")
    claim = await driver.claim()
    turn = await driver.open(claim)
    usage = Usage(tokens_in=400, tokens_out=5, estimated_in=100)
    await driver.db.write(commit_turn(claim, turn, replace(driver.commit(), usage=usage)))
    await driver.db.write(release_claim(claim))
    held = await end(driver, turn.session)
    ratio = (await driver.db.read(read_context(turn.session))).token_ratio
    assert (await driver.db.read(read_excerpt(held))).token_ratio == ratio > 1


async def test_a_branch_is_extracted_from_its_fork_on(driver):
    await driver.chat("one")
    child = (await driver.command("/branch")).session
    await driver.talk("two")
    held = await end(driver, child)
    assert [entry.text for entry in (await driver.db.read(read_excerpt(held))).said] == ["two", "re: two"]
    nothing = await end(driver, (await driver.chat("other", chat="b")), epoch=1)
    assert not (await driver.db.read(read_excerpt(nothing))).is_empty


# --- memory ----------------------------------------------------------------------------------------


async def applied(driver, *changes, capacity=None):
    await end(driver, await driver.chat("said"))
    return decode_result(
        (await apply(driver, await to_step(driver, await take(driver), FinishStep.ASKED, *changes), capacity)).result
    )


async def test_what_fits_is_applied_and_the_rest_is_kept_in_sight(driver):
    little = Capacity(user_chars=30)
    texts = ["Has a cat called Byron.", "Lives in Kiel, by the canal, on the left.", "Is Ada."]
    result = await applied(
        driver, *({"verb": "add", "target": "user", "text": text} for text in texts), capacity=little
    )
    assert await notes_of(driver) == [texts[0]]
    assert [(left.proposal.text, left.code) for left in result.unfit] == [
        (texts[1], "over_capacity"),
        (texts[2], "over_capacity"),
    ]


async def test_a_note_that_moved_since_the_model_saw_it_is_left_alone(driver):
    seq = await note(driver, "Lives in Kiel.")
    driver.clock.advance(1)
    await end(driver, await driver.chat("said"))
    change = {"verb": "replace", "entries": [f"u{seq}"], "text": "Lives in Bonn."}
    asked = await to_step(driver, await take(driver), FinishStep.ASKED, change, ADD)
    driver.clock.advance(1)
    await note(driver, "Lives in Rome.", verb=MemoryVerb.REPLACE, version=seq)
    result = decode_result((await apply(driver, asked)).result)
    assert await notes_of(driver) == ["Lives in Rome.", ADD["text"]]
    assert [left.code for left in result.unfit] == ["moved"]


async def test_stale_history_only_adds(driver):
    """What was written, removed or replaced after the last word of the conversation stays as it is (R33)."""
    old = await note(driver, "Likes tea.")
    driver.clock.advance(1)
    await end(driver, await driver.chat("said"))
    driver.clock.advance(1)
    new = await note(driver, "Lives in Kiel.")
    await note(driver, "", verb=MemoryVerb.REMOVE, version=old)
    held = await to_step(
        driver,
        await take(driver),
        FinishStep.ASKED,
        {"verb": "remove", "entries": [f"u{new}"]},
        {"verb": "add", "target": "user", "text": "Likes tea."},
        ADD,
    )
    result = decode_result((await apply(driver, held)).result)
    assert await notes_of(driver) == ["Lives in Kiel.", ADD["text"]]
    assert [left.code for left in result.unfit] == ["changed_since", "changed_since"]


async def test_consolidation_merges_what_stood_there_before(driver):
    tea = await note(driver, "Likes tea.", target=Target.MEMORY)
    cake = await note(driver, "Likes cake.", target=Target.MEMORY)
    change = {"verb": "replace", "entries": [f"m{tea}", f"m{cake}"], "text": "Likes tea and cake."}
    result = await applied(driver, change)
    assert (await notes_of(driver), result.unfit) == (["Likes tea and cake."], ())


async def test_what_memory_itself_refuses_stays_in_sight(driver):
    result = await applied(driver, {"verb": "add", "target": "user", "text": "a\u200bb"}, ADD)
    assert (await notes_of(driver), [left.code for left in result.unfit]) == ([ADD["text"]], ["blocked"])


async def test_an_answer_of_which_nothing_fits_writes_nothing(driver):
    result = await applied(driver, {"verb": "remove", "entries": ["u99"]})
    assert ([left.code for left in result.unfit], result.applied) == (["moved"], ())
    assert await driver.rows("select 1 from memory_batch") == []


async def test_both_targets_belong_to_whom_it_was_extracted_from(driver):
    work = {"verb": "add", "target": "memory", "text": "The build takes an hour."}
    await applied(driver, work, ADD)
    assert (await notes_of(driver, ""), await notes_of(driver, "ada")) == ([], [work["text"], ADD["text"]])


# --- at the same time ------------------------------------------------------------------------------


async def test_many_who_want_one_end_get_one_owner(driver):
    sessions = [await driver.chat("one", chat=f"c{n}") for n in range(3)]
    nodes = [NodeId(f"node_{n}") for n in range(4)]
    for node in nodes:
        await driver.db.write(register_node(node, "here", sole=False))
    begun = await asyncio.gather(*(end(driver, session) for session in sessions for _ in range(3)))
    assert len({each.origin for each in begun}) == 3
    taken = await asyncio.gather(*(driver.db.write(claim_finalisation(node)) for node in nodes * 2))
    owned = [held.origin for held in taken if held is not None]
    assert len(owned) == len(set(owned))
    while (more := await driver.db.write(claim_finalisation(driver.node))) is not None:
        owned.append(more.origin)
    assert sorted(owned) == sorted(held_origin(session) for session in sessions)


async def test_a_message_and_an_end_that_meet_never_lose_the_message(driver):
    for n in range(4):
        session = await driver.chat("one", chat=f"c{n}")
        message, _ = await asyncio.gather(
            driver.say("two", chat=f"c{n}"), driver.db.write(begin_finalisation(ending(session)))
        )
        claim = await driver.claim(f"c{n}")
        await driver.answer(claim, await driver.open(claim))
        await driver.db.write(release_claim(claim))
        found = await driver.db.read(read_session(session))
        assert (found.state, (await driver.db.read(trace_message(message))).session) == (SessionState.OPEN, session)
        assert found.epoch == len(await driver.db.read(list_finalisations(session=session))) + 1


async def test_a_message_and_a_close_that_meet_never_lose_the_message(driver):
    for n in range(4):
        session = await driver.chat("one", chat=f"c{n}")
        await end(driver, session)
        held = await to_step(driver, await take(driver), FinishStep.APPLIED)
        message, _ = await asyncio.gather(
            driver.say("two", chat=f"c{n}"), driver.db.write(record_finalisation(held, FinishEvent.CLOSED))
        )
        claim = await driver.claim(f"c{n}")
        turn = await driver.open(claim)
        await driver.answer(claim, turn)
        await driver.db.write(release_claim(claim))
        state, epoch = await states(driver, session)
        assert (state, epoch) == ((SessionState.OPEN, 2) if turn.session == session else (SessionState.CLOSED, 1))
        assert (await driver.db.read(trace_message(message))).session == turn.session


async def test_finishers_that_race_ask_once_and_write_once(driver):
    sessions = [await driver.chat("my cat is called Byron", chat=f"c{n}") for n in range(4)]
    for session in sessions:
        await end(driver, session)
    model = ScriptedModel(otherwise=says(json.dumps({"changes": [ADD]})))
    agent = Agent(policy=AgentPolicy(), model=model, summariser=model, tools=ToolBox())
    finishers = []
    for name in ("x", "y", "z"):
        ports = make_ports(driver.db, clock=driver.clock, entropy=SeededEntropy(name))
        member = Member(ports, host="here")
        await member.join(sole=False)
        finishers.append(Finisher(ports, agents=Agents(agent), member=member))
    for _ in range(3):
        await asyncio.gather(*(finisher.step() for finisher in finishers))
        await asyncio.gather(*(finisher.running.fewer_than(1) for finisher in finishers))
    assert len(model.asked) == 4
    assert [end.outcome for end in await driver.db.read(list_finalisations())] == ["done"] * 4
    assert await notes_of(driver) == [ADD["text"]]
    assert len(await driver.rows("select 1 from memory_op")) == 1
