"""The promise: a turn's entries, acknowledgements, replies and counters become durable together, once.

Rules: D6, D11, R37.
"""

from dataclasses import replace

import pytest

from holdfast.inbox.identity import LinkRequest
from holdfast.inbox.identity_sql import link_principals, unlink_principal
from holdfast.inbox.mailbox_sql import claim_mailbox, read_mail, release_claim
from holdfast.inbox.message import MessageState
from holdfast.kernel.errors import ClaimLost, InvariantBroken
from holdfast.kernel.ids import OperationId, Principal
from holdfast.memory.delivery import NOWHERE
from holdfast.sessions.history_sql import find_mailbox, list_entries, read_session, trace_message
from holdfast.turns.context_sql import read_context
from holdfast.turns.journal import UserSaid
from holdfast.turns.open_turn_sql import observe_messages, open_turn
from holdfast.turns.turn import Phase, Step, Turn, TurnEvent
from holdfast.turns.turn_sql import append_step, commit_turn, resume_turn
from tests.store.test_node_sql import EVERYTHING
from tests.support.driver import address_of, returned, started, tool_step


async def opened(driver, *texts, count=1):
    for text in texts or ("one",):
        await driver.say(text)
    claim = await driver.claim()
    return claim, await driver.open(claim, count)


async def test_a_turn_is_journaled_in_order(driver):
    claim, turn = await opened(driver, "what time is it?")
    for step in (tool_step(), started(), returned()):
        turn = await driver.db.write(append_step(claim, turn, step))
    await driver.answer(claim, turn, "noon")
    page = await driver.db.read(list_entries(turn.session))
    assert [view.entry.kind for view in page] == ["user", "assistant", "tool_started", "tool", "assistant"]
    assert [view.entry.seq for view in page] == [1, 2, 3, 4, 5]
    assert {view.entry.turn for view in page} == {1}


async def test_user_entries_carry_the_ids_of_their_messages(driver):
    claim, turn = await opened(driver, "one", "two", count=2)
    await driver.answer(claim, turn)
    said = [view.entry.body for view in await driver.db.read(list_entries(turn.session))]
    assert tuple(body.message for body in said if isinstance(body, UserSaid)) == turn.messages
    assert len(turn.messages) == 2


async def test_a_turn_over_several_messages_has_come_as_far_as_the_farthest(driver):
    for hop in (1, 3, 0):
        await driver.accept(replace(driver.arrival(f"hop {hop}"), hop=hop))
    claim = await driver.claim()
    turn = await driver.open(claim, 3)
    assert turn.hop == 3
    await driver.answer(claim, turn)


async def test_the_steps_of_an_open_turn_are_written_but_not_committed(driver):
    claim, turn = await opened(driver)
    turn = await driver.db.write(append_step(claim, turn, tool_step()))
    context = await driver.db.read(read_context(turn.session))
    assert (context.committed_seq, context.last_seq, context.open_turn) == (0, 2, 1)
    assert context.committed == ()
    turn = await driver.db.write(append_step(claim, turn, returned()))
    await driver.answer(claim, turn)
    context = await driver.db.read(read_context(turn.session))
    assert (context.committed_seq, context.last_seq, context.open_turn) == (4, 4, None)


@pytest.mark.parametrize(
    ("event", "state", "phase"),
    [
        (TurnEvent.ANSWERED, MessageState.ANSWERED, Phase.COMMITTED),
        (TurnEvent.FAILED, MessageState.FAILED, Phase.FAILED),
        (TurnEvent.INTERRUPTED, MessageState.INTERRUPTED, Phase.INTERRUPTED),
    ],
    ids=lambda value: getattr(value, "value", None),
)
async def test_messages_end_as_their_turn_did(driver, event, state, phase):
    claim, turn = await opened(driver, "one", "two", count=2)
    commit = driver.commit("so be it", event=event, reason="a reason\0")
    await driver.db.write(commit_turn(claim, turn, commit))
    for message in turn.messages:
        trace = await driver.db.read(trace_message(message))
        assert (trace.state, trace.phase, trace.reply.text) == (state, phase.value, "so be it")
        assert trace.reason.rstrip("\0") == "a reason"


async def test_a_commit_brings_the_mailbox_to_rest(driver):
    claim, turn = await opened(driver, "one", "two")
    assert (await driver.answer(claim, turn)).waiting == 1
    box = await driver.db.read(find_mailbox(address_of("home")))
    assert (box.depth, box.ready_at) == (1, driver.clock.now())
    assert (await driver.answer(claim, await driver.open(claim))).waiting == 0
    box = await driver.db.read(find_mailbox(address_of("home")))
    assert (box.depth, box.ready_at, box.session) == (0, None, turn.session)


@pytest.mark.parametrize(("channel", "state"), [("http", "delivered"), ("telegram", "pending")])
async def test_a_reply_stands_in_the_ledger_as_soon_as_the_turn_is_committed(driver, channel, state):
    arrival = driver.arrival("hello", channel=channel)
    await driver.accept(arrival)
    claim = await driver.claim()
    turn = await driver.open(claim)
    commit = driver.commit("hi")
    await driver.db.write(commit_turn(claim, turn, commit))
    found = await driver.rows("select id, session, turn, message, channel, address, state, attempt from reply")
    expected = (commit.replies[0].id, turn.session, 1, turn.messages[0], channel, str(arrival.address), state, 0)
    assert found == [expected]


async def test_a_message_that_joins_is_answered_with_the_turn(driver):
    claim, turn = await opened(driver)
    late = await driver.say("and another thing")
    mail = await driver.db.read(read_mail(claim, limit=5))
    step = Step(event=TurnEvent.JOINED, entries=(mail.waiting[0].said(),), messages=(late,))
    turn = await driver.db.write(append_step(claim, turn, step))
    assert turn.messages[-1] == late
    assert (await driver.answer(claim, turn, "both")).waiting == 0
    for message in turn.messages:
        assert (await driver.db.read(trace_message(message))).reply.text == "both"


async def test_a_message_that_is_no_longer_waiting_joins_no_turn(driver):
    claim, turn = await opened(driver)
    step = Step(event=TurnEvent.JOINED, entries=(UserSaid(text="x", principal="ada"),), messages=turn.messages)
    before = await driver.rows(EVERYTHING)
    with pytest.raises(InvariantBroken):
        await driver.db.write(append_step(claim, turn, step))
    assert await driver.rows(EVERYTHING) == before


async def test_a_message_of_another_mailbox_joins_no_turn(driver):
    await driver.say("mine", chat="a")
    claim = await driver.claim("a")
    await driver.say("theirs", chat="b")
    other = await driver.claim("b")
    theirs = (await driver.db.read(read_mail(other, limit=1))).waiting
    with pytest.raises(InvariantBroken):
        await driver.db.write(open_turn(claim, driver.opening(None, theirs)))


async def test_a_crashed_turn_is_resumed_from_its_last_step(driver):
    claim, turn = await opened(driver)
    turn = await driver.db.write(append_step(claim, turn, tool_step()))
    await driver.db.write(release_claim(claim))
    young = await driver.claim()
    found = (await driver.db.read(read_mail(young, limit=1))).turn
    assert found == turn
    resumed = await driver.db.write(resume_turn(young, found))
    assert (resumed.attempt, resumed.phase, resumed.last_seq) == (2, Phase.ACTING, 2)
    resumed = await driver.db.write(append_step(young, resumed, returned()))
    await driver.answer(young, resumed)


async def test_stop_is_seen_by_every_later_step(driver):
    claim, turn = await opened(driver)
    await driver.say("/stop")
    assert (await driver.db.write(append_step(claim, turn, tool_step()))).stopping


async def test_an_event_that_the_phase_cannot_see_changes_nothing(driver):
    claim, turn = await opened(driver)
    before = await driver.rows(EVERYTHING)
    with pytest.raises(InvariantBroken):
        await driver.db.write(append_step(claim, turn, returned()))
    assert await driver.rows(EVERYTHING) == before


async def test_observed_talk_is_journaled_without_a_turn(driver):
    turn = await driver.talk("hello")
    heard = await driver.say("psst", addressed=False)
    claim = await driver.claim()
    assert (await driver.db.write(observe_messages(claim, turn.session, [heard]))).waiting == 0
    context = await driver.db.read(read_context(turn.session))
    assert (context.entries[-1].kind, context.entries[-1].turn, context.committed_seq) == ("observed", 0, 3)
    assert await driver.state(heard) == "observed"


async def test_nothing_is_observed_while_a_turn_is_open(driver):
    """It would commit the open turn's steps with it."""
    claim, turn = await opened(driver)
    heard = await driver.say("psst", addressed=False)
    before = await driver.rows(EVERYTHING)
    with pytest.raises(InvariantBroken):
        await driver.db.write(observe_messages(claim, turn.session, [heard]))
    assert await driver.rows(EVERYTHING) == before


async def test_held_mail_says_why(driver):
    held = await driver.say("beep", human=False)
    claim = await driver.claim()
    await driver.db.write(observe_messages(claim, driver.id("ses"), [held], held="loop_guard"))
    trace = await driver.db.read(trace_message(held))
    assert (trace.state, trace.reason) == (MessageState.HELD, "loop_guard")


async def test_turns_without_a_human_are_counted_until_one_speaks(driver):
    counts = []
    for human in (False, False, True):
        await driver.say("hi", human=human)
        claim = await driver.claim()
        await driver.answer(claim, await driver.open(claim))
        counts.append((await driver.db.read(read_mail(claim, limit=1))).unattended)
        await driver.db.write(release_claim(claim))
    assert counts == [1, 2, 0]


# --- repeated after an unknown commit ---------------------------------------------------------------


async def test_opening_again_returns_the_open_turn(driver):
    await driver.say("one")
    claim = await driver.claim()
    mail = await driver.db.read(read_mail(claim, limit=1))
    opening = driver.opening(None, mail.waiting)
    first = await driver.db.write(open_turn(claim, opening))
    before = await driver.rows(EVERYTHING)
    assert await driver.db.write(open_turn(claim, opening)) == first
    assert await driver.rows(EVERYTHING) == before


async def test_a_retry_opened_again_undoes_once(driver):
    await driver.talk("one")
    await driver.say("/retry")
    claim = await driver.claim()
    mail = await driver.db.read(read_mail(claim, limit=1))
    opening = driver.opening(mail.session, mail.waiting, retry=True)
    first = await driver.db.write(open_turn(claim, opening))
    assert await driver.db.write(open_turn(claim, opening)) == first
    assert (await driver.db.read(read_session(first.session))).undo_count == 1
    await driver.answer(claim, first)


async def test_stepping_again_returns_the_same_turn(driver):
    claim, turn = await opened(driver)
    first = await driver.db.write(append_step(claim, turn, tool_step()))
    before = await driver.rows(EVERYTHING)
    assert await driver.db.write(append_step(claim, turn, tool_step())) == first
    assert await driver.rows(EVERYTHING) == before


async def test_a_turn_that_was_opened_nowhere_is_read_back_so(driver):
    claim, turn = await opened(driver)
    assert (await driver.db.read(read_mail(claim, limit=1))).turn.where == turn.where == NOWHERE


async def test_an_attempt_before_the_last_one_is_not_resumed(driver):
    claim, first = await opened(driver)
    second = await driver.db.write(resume_turn(claim, first))
    third = await driver.db.write(resume_turn(claim, second))
    assert [turn.attempt for turn in (first, second, third)] == [1, 2, 3]
    with pytest.raises(ClaimLost):
        await driver.db.write(resume_turn(claim, first))


async def test_resuming_again_grows_the_attempt_once(driver):
    claim, turn = await opened(driver)
    await driver.db.write(release_claim(claim))
    young = await driver.claim()
    first = await driver.db.write(resume_turn(young, turn))
    assert await driver.db.write(resume_turn(young, turn)) == first
    assert first.attempt == 2
    assert (await driver.db.write(resume_turn(young, first))).attempt == 3


async def test_committing_again_changes_nothing(driver):
    claim, turn = await opened(driver, "one", "two")
    commit = driver.commit("hi")
    first = await driver.db.write(commit_turn(claim, turn, commit))
    before = await driver.rows(EVERYTHING)
    assert await driver.db.write(commit_turn(claim, turn, commit)) == first
    assert await driver.rows(EVERYTHING) == before


async def test_observing_again_changes_nothing(driver):
    heard = await driver.say("psst", addressed=False)
    claim = await driver.claim()
    session = driver.id("ses")
    first = await driver.db.write(observe_messages(claim, session, [heard]))
    before = await driver.rows(EVERYTHING)
    assert await driver.db.write(observe_messages(claim, session, [heard])) == first
    assert await driver.rows(EVERYTHING) == before


async def test_a_write_that_expects_another_sequence_is_void(driver):
    claim, turn = await opened(driver)
    await driver.db.write(append_step(claim, turn, tool_step()))
    before = await driver.rows(EVERYTHING)
    with pytest.raises(ClaimLost):
        await driver.db.write(commit_turn(claim, turn, driver.commit()))
    with pytest.raises(ClaimLost):
        await driver.db.write(append_step(claim, replace(turn, last_seq=0), started()))
    assert await driver.rows(EVERYTHING) == before


async def spoken(driver, who, chat="room", **place):
    """A turn of somebody, answered; whether it knew that its chat has several people."""
    await driver.accept(driver.arrival("hi", who=who, chat=chat, **place))
    claim = await driver.db.write(claim_mailbox(driver.node))
    mail = await driver.db.read(read_mail(claim, limit=1))
    turn = await driver.db.write(open_turn(claim, driver.opening(mail.session, mail.waiting)))
    context = await driver.db.read(read_context(turn.session))
    await driver.answer(claim, turn, "hello")
    await driver.db.write(release_claim(claim))
    assert context.shared is turn.shared
    return turn.shared


async def test_a_chat_is_shared_from_the_turn_of_a_second_person_on(driver):
    assert [await spoken(driver, who) for who in ("ada", "ada", "bob", "ada")] == [False, False, True, True]
    assert not await spoken(driver, "bob", chat="elsewhere")


async def test_an_agent_in_a_chat_is_not_a_second_person(driver):
    assert [await spoken(driver, who) for who in ("agent:ben", "ada", "agent:ben", "ada")] == [False] * 4
    assert await spoken(driver, "bob")


async def linked(driver, principal, person):
    request = LinkRequest(
        principal=Principal(principal), person=Principal(person), by="t", operation=OperationId(driver.id("op"))
    )
    await driver.db.write(link_principals(request))


async def unlinked(driver, principal):
    await driver.db.write(unlink_principal(Principal(principal), named="t", operation=OperationId(driver.id("op"))))


async def test_linked_accounts_are_one_person_in_a_chat(driver):
    assert not await spoken(driver, "telegram:1")
    await linked(driver, "telegram:1", "ada")
    assert [await spoken(driver, who) for who in ("ada", "telegram:1", "bob")] == [False, False, True]


@pytest.mark.parametrize("who", ["ada", "bob"])
async def test_a_chat_is_shared_once_a_link_between_its_speakers_is_taken_back(driver, who):
    assert not await spoken(driver, "ada")
    await linked(driver, "ada", "bob")
    assert [await spoken(driver, one) for one in ("bob", "ada")] == [False, False]
    await unlinked(driver, "ada")
    assert await spoken(driver, who)
    await linked(driver, "ada", "bob")
    assert await spoken(driver, who), "once two people have spoken there it stays so"


DIRECT = {"channel": "telegram", "type": "dm"}


async def retried(driver, who, chat="room"):
    """A retry of the last turn, by `who` or already accepted; whether it knew that its chat has several people."""
    if who is not None:
        await driver.accept(driver.arrival("/retry", who=who, chat=chat, **DIRECT))
    claim = await driver.db.write(claim_mailbox(driver.node))
    mail = await driver.db.read(read_mail(claim, limit=1))
    ((again,),) = await driver.rows("select principal from turn order by opened_at desc, n desc limit 1")
    opening = driver.opening(mail.session, mail.waiting, retry=True)
    opening = replace(opening, principal=Principal(again), retried_by=mail.waiting[0].principal)
    turn = await driver.db.write(open_turn(claim, opening))
    assert isinstance(turn, Turn), turn
    await driver.answer(claim, turn, "hello again")
    await driver.db.write(release_claim(claim))
    return turn.shared


async def test_a_chat_is_shared_once_an_account_retries_what_it_said_as_somebody_else(driver):
    await linked(driver, "cy", "ada")
    assert not await spoken(driver, "cy", **DIRECT), "as ada"
    assert not await retried(driver, "cy")
    assert not await retried(driver, "ada")
    await unlinked(driver, "cy")
    assert await retried(driver, "cy"), "cy reads what is answered as to ada"


async def test_an_account_that_only_retried_while_it_was_linked_is_a_reader_once_the_link_is_taken_back(driver):
    assert not await spoken(driver, "ada", **DIRECT)
    await driver.accept(driver.arrival("/retry", who="bob", chat="room", **DIRECT))  # under its own name
    await linked(driver, "bob", "ada")
    assert not await retried(driver, None)
    await unlinked(driver, "bob")
    assert await spoken(driver, "ada", **DIRECT), "bob read the answer to his retry there"


@pytest.mark.parametrize("link", [("cy", "ada"), ("ada", "cy")])
async def test_a_chat_is_shared_with_everybody_to_whom_its_first_speaker_was_linked(driver, link):
    assert not await spoken(driver, "ada")
    await linked(driver, "ada", "bob")
    assert not await spoken(driver, "bob")
    await unlinked(driver, "ada")
    await linked(driver, *link)
    assert await spoken(driver, "cy")
