"""The promise: a message is durable once it is accepted, once only, and a refusal is said before it is acknowledged.

Rules: D1, D33, R35, control 8, control 10.
"""

from dataclasses import replace

import pytest

from holdfast.inbox.accept_sql import accept_message, was_accepted
from holdfast.inbox.mailbox_sql import claim_mailbox, read_mail, release_claim
from holdfast.inbox.message import Accepted, Conflict, Duplicate, Limits, MailboxFull, MessageState, TooMany
from holdfast.memory.delivery import NOWHERE, CallerDirectory
from holdfast.sessions.history_sql import find_mailbox, trace_message
from holdfast.store.upkeep_sql import load_secret, prune_messages
from tests.support.driver import SECRET, address_of

EVERY_CHARACTER = "".join(chr(point) for point in range(0x110000) if not 0xD800 <= point <= 0xDFFF)


async def test_an_event_is_accepted_once(driver):
    first = await driver.accept(driver.arrival("hello", event="e1"))
    again = await driver.accept(driver.arrival("hello", event="e1"))
    assert isinstance(first, Accepted)
    assert again == Duplicate(first.message, MessageState.WAITING)
    assert (await driver.db.read(find_mailbox(address_of("home")))).depth == 1


async def test_accepting_repeated_after_an_unknown_commit_names_the_first_message(driver):
    arrival = driver.arrival("hello")
    await driver.accept(arrival)
    assert await driver.accept(arrival) == Duplicate(arrival.message, MessageState.WAITING)


async def test_a_duplicate_tells_what_became_of_the_first(driver):
    await driver.say("hello", event="e1")
    claim = await driver.claim()
    await driver.answer(claim, await driver.open(claim))
    again = await driver.accept(driver.arrival("hello", event="e1"))
    assert again.state is MessageState.ANSWERED


@pytest.mark.parametrize("other", [{"text": "hullo"}, {"who": "bob"}], ids=["body", "principal"])
async def test_the_same_event_with_another_body_or_sender_is_a_conflict(driver, other):
    first = await driver.say("hello", event="e1")
    assert await driver.accept(driver.arrival(**{"text": "hello", "event": "e1"} | other)) == Conflict(first)
    assert len(await driver.rows("select 1 from inbound")) == 1


async def test_bots_that_receive_the_same_platform_id_each_keep_a_message(driver):
    for agent in ("fern", "moss"):
        assert isinstance(await driver.accept(driver.arrival("hi", agent=agent, event="e1")), Accepted)
    for account in ("bot-1", "bot-2"):
        assert isinstance(await driver.accept(driver.arrival("hi", account=account, event="e1")), Accepted)
    assert len(await driver.rows("select 1 from inbound")) == 4


async def test_no_two_identities_are_taken_for_one_after_pruning(driver):
    """Account, conversation and event are length-prefixed in the tombstone: `a`,`bc` is not `ab`,`c`."""
    await driver.say("hi", chat="x", account="a", event="bc")
    claim = await driver.claim("x")
    await driver.answer(claim, await driver.open(claim))
    driver.clock.advance(1)
    assert await driver.db.write(prune_messages(older_than_ms=0, limit=10, secret=SECRET)) == 1
    assert isinstance(await driver.accept(driver.arrival("hi", chat="xb", account="a", event="c")), Accepted)


async def test_a_full_mailbox_refuses_and_writes_nothing(driver):
    limits = Limits(mailbox_depth_max=2)
    for text in ("one", "two"):
        await driver.accept(driver.arrival(text), limits)
    before = await driver.db.read(find_mailbox(address_of("home")))
    assert await driver.accept(driver.arrival("three"), limits) == MailboxFull(2, recorded=False)
    assert await driver.db.read(find_mailbox(address_of("home"))) == before
    assert len(await driver.rows("select 1 from inbound")) == 2


async def test_a_refusal_is_durable_where_the_platform_cannot_be_told(driver):
    limits = Limits(mailbox_depth_max=1)
    await driver.accept(driver.arrival("one"), limits)
    refused = driver.arrival("two", event="e2", refuse_durably=True)
    assert await driver.accept(refused, limits) == MailboxFull(1, recorded=True)
    trace = await driver.db.read(trace_message(refused.message))
    assert (trace.state, trace.reason) == (MessageState.REFUSED, "mailbox_full")
    again = await driver.accept(driver.arrival("two", event="e2"), Limits())
    assert again == Duplicate(refused.message, MessageState.REFUSED)


async def test_more_messages_than_the_window_takes_are_refused_until_it_is_over(driver):
    limits = Limits(window_ms=1_000, window_messages_max=2)
    await driver.accept(driver.arrival("one"), limits)
    driver.clock.advance(400)
    await driver.accept(driver.arrival("two"), limits)
    assert await driver.accept(driver.arrival("three"), limits) == TooMany(600)
    assert await driver.accept(driver.arrival("3", refuse_durably=True), limits) == TooMany(600, recorded=True)
    driver.clock.advance(600)
    assert isinstance(await driver.accept(driver.arrival("three"), limits), Accepted)


async def test_one_place_being_full_does_not_concern_another(driver):
    limits = Limits(mailbox_depth_max=1, window_messages_max=1)
    for chat in ("home", "work"):
        assert isinstance(await driver.accept(driver.arrival("hi", chat=chat), limits), Accepted)


async def test_accepting_tells_how_many_are_before_it(driver):
    behind = [(await driver.accept(driver.arrival(text))).queued_behind for text in "abc"]
    assert behind == [0, 1, 2]
    claim = await driver.claim()
    turn = await driver.open(claim)
    assert (await driver.accept(driver.arrival("d"))).queued_behind == 3
    await driver.answer(claim, turn)
    assert (await driver.accept(driver.arrival("e"))).queued_behind == 3


# --- signals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["/stop", "/status"])
async def test_a_signal_takes_effect_at_once_even_when_the_mailbox_is_full(driver, text):
    limits = Limits(mailbox_depth_max=1, window_messages_max=1)
    await driver.accept(driver.arrival("one"), limits)
    signal = driver.arrival(text)
    assert isinstance(await driver.accept(signal, limits), Accepted)
    trace = await driver.db.read(trace_message(signal.message))
    assert (trace.state, trace.reply.state) == (MessageState.COMMAND, "delivered")
    assert (await driver.db.read(find_mailbox(address_of("home")))).depth == 1


async def test_signals_have_a_limit_of_their_own(driver):
    limits = Limits(window_messages_max=3)
    outcomes = [await driver.accept(driver.arrival("/status"), limits) for _ in range(7)]
    assert [isinstance(outcome, Accepted) for outcome in outcomes] == [True] * 6 + [False]
    assert isinstance(outcomes[-1], TooMany)


async def test_stop_reaches_the_open_turn_and_a_repeated_stop_does_no_more(driver):
    await driver.say("one")
    claim = await driver.claim()
    turn = await driver.open(claim)
    stop = driver.arrival("/stop")
    await driver.accept(stop)
    assert (await driver.db.read(trace_message(stop.message))).reply.text == "Stopping turn 1."
    assert isinstance(await driver.accept(stop), Duplicate)
    assert (await driver.db.read(read_mail(claim, limit=1))).turn == replace(turn, stopping=True)
    assert len(await driver.rows("select 1 from reply")) == 1


async def test_stop_marks_the_open_turn_only(driver):
    await driver.talk("one")
    await driver.say("two")
    await driver.open(await driver.claim())
    await driver.say("/stop")
    assert await driver.rows("select n, stop_at from turn order by n") == [(1, None), (2, driver.clock.now())]


async def test_stop_does_not_wait_out_the_delay_of_a_failing_turn(driver):
    await driver.say("one")
    claim = await driver.claim()
    await driver.open(claim)
    await driver.db.write(release_claim(claim, retry_in_ms=60_000))
    assert await driver.db.write(claim_mailbox(driver.node)) is None
    await driver.say("/stop")
    assert (await driver.db.read(read_mail(await driver.claim(), limit=1))).turn.stopping


async def test_stop_without_a_turn_says_so(driver):
    stop = await driver.say("/stop")
    assert (await driver.db.read(trace_message(stop))).reply.text == "Nothing is running."
    assert await driver.db.write(claim_mailbox(driver.node)) is None


async def test_status_tells_what_runs_and_what_waits(driver):
    await driver.say("one")
    await driver.say("two")
    claim = await driver.claim()
    turn = await driver.open(claim)
    status = await driver.say("/status")
    text = (await driver.db.read(trace_message(status))).reply.text
    assert text == f"Turn 1 is thinking (attempt 1). 1 message waiting. Session: {turn.session}."


# --- what is kept ----------------------------------------------------------------------------------


async def test_every_unicode_character_is_kept_nul_included(driver):
    turn = await driver.talk(EVERY_CHARACTER, EVERY_CHARACTER[::-1])
    assert await driver.texts(turn.session) == [EVERY_CHARACTER, EVERY_CHARACTER[::-1]]
    trace = await driver.db.read(trace_message(turn.messages[0]))
    assert trace.reply.text == EVERY_CHARACTER[::-1]


async def test_a_pruned_message_is_still_known_as_duplicate_and_conflict(driver):
    first = await driver.say("hello", event="e1")
    claim = await driver.claim()
    await driver.answer(claim, await driver.open(claim))
    await driver.db.write(release_claim(claim))
    driver.clock.advance(1_000)
    assert await driver.db.write(prune_messages(older_than_ms=1_000, limit=10, secret=SECRET)) == 0, "not older yet"
    driver.clock.advance(1)
    assert await driver.db.write(prune_messages(older_than_ms=1_000, limit=10, secret=SECRET)) == 1
    assert await driver.rows("select 1 from inbound") == []
    assert await driver.accept(driver.arrival("hello", event="e1")) == Duplicate(first, MessageState.ANSWERED)
    assert await driver.accept(driver.arrival("hullo", event="e1")) == Conflict(first)


async def test_a_pruned_message_is_still_known_after_a_restart(driver):
    """The first secret of a store is kept: another candidate would hash the same event to another tombstone."""
    first_secret = await driver.db.write(load_secret("tombstone", SECRET))
    assert first_secret == SECRET
    first = await driver.say("hello", event="e1")
    claim = await driver.claim()
    await driver.answer(claim, await driver.open(claim))
    await driver.db.write(release_claim(claim))
    driver.clock.advance(1)
    assert await driver.db.write(prune_messages(older_than_ms=0, limit=10, secret=SECRET)) == 1
    secret = await driver.db.write(load_secret("tombstone", b"another candidate"))
    again = await driver.db.write(accept_message(driver.arrival("hello", event="e1"), Limits(), secret))
    assert again == Duplicate(first, MessageState.ANSWERED)


@pytest.mark.parametrize(
    "other", [{"account": "bot-2"}, {"chat": "away"}, {"event": "e2"}], ids=lambda other: next(iter(other))
)
async def test_an_event_of_another_bot_or_conversation_is_another_after_pruning_too(driver, other):
    await driver.say("hi", account="bot-1", event="e1")
    claim = await driver.claim()
    await driver.answer(claim, await driver.open(claim))
    driver.clock.advance(1)
    assert await driver.db.write(prune_messages(older_than_ms=0, limit=10, secret=SECRET)) == 1
    assert isinstance(await driver.accept(driver.arrival("hi", account="bot-1", event="e1")), Duplicate)
    arrival = driver.arrival("hi", **{"account": "bot-1", "event": "e1", **other})
    assert isinstance(await driver.accept(arrival), Accepted)


@pytest.mark.parametrize("state", ["answered", "refused"])
async def test_a_pruned_message_is_known_in_the_state_it_ended_in(driver, state):
    limits = Limits(mailbox_depth_max=0 if state == "refused" else 1)
    arrival = driver.arrival("hi", event="e1", refuse_durably=True)
    await driver.accept(arrival, limits)
    if state == "answered":
        claim = await driver.claim()
        await driver.answer(claim, await driver.open(claim))
    driver.clock.advance(1)
    assert await driver.db.write(prune_messages(older_than_ms=0, limit=10, secret=SECRET)) == 1
    assert await driver.accept(arrival) == Duplicate(arrival.message, MessageState(state))
    assert await driver.db.read(was_accepted(arrival.account, arrival.conversation, "e1", SECRET)) == (
        state == "answered"
    )


async def test_unfinished_messages_are_never_pruned(driver):
    await driver.say("one")
    await driver.say("two")
    await driver.open(await driver.claim())
    driver.clock.advance(1_000_000)
    assert await driver.db.write(prune_messages(older_than_ms=1, limit=10, secret=SECRET)) == 0


async def test_pruning_takes_the_oldest_first_and_no_more_than_asked(driver):
    for text in "abc":
        driver.clock.advance(10)
        await driver.talk(text)
    driver.clock.advance(1_000)
    assert await driver.db.write(prune_messages(older_than_ms=1, limit=2, secret=SECRET)) == 2
    (left,) = await driver.rows("select body from inbound")
    assert bytes(left[0]) == b"c"
    assert await driver.db.write(prune_messages(older_than_ms=1, limit=2, secret=SECRET)) == 1


async def test_nothing_of_a_body_can_be_guessed_from_its_hash(driver):
    """The hash is keyed: the rows without the secret do not allow guessing the words."""
    arrival = driver.arrival("my pin is 0000")
    await driver.accept(arrival)
    ((kept,),) = await driver.rows("select body_hash from inbound")
    assert bytes(kept) != arrival.body_hash


async def test_the_rate_limit_is_not_for_the_program_that_owns_the_store(driver):
    """Nor does what it sends use up the share of others. A full mailbox is full for everybody."""
    limits = Limits(window_ms=1_000, window_messages_max=2, mailbox_depth_max=7)
    for n in range(4):
        outcome = await driver.accept(replace(driver.arrival(f"own {n}"), trusted=True), limits)
        assert isinstance(outcome, Accepted)
    assert [type(await driver.accept(driver.arrival(f"{n}"), limits)) for n in range(2)] == [Accepted, Accepted]
    assert isinstance(await driver.accept(driver.arrival("one too many"), limits), TooMany)
    assert isinstance(await driver.accept(replace(driver.arrival("own"), trusted=True), limits), Accepted)
    assert await driver.accept(replace(driver.arrival("too deep"), trusted=True), limits) == MailboxFull(7)


async def test_where_a_message_was_written_is_kept_with_it(driver):
    where = CallerDirectory("/home/ada/app", "/home/ada")
    await driver.accept(replace(driver.arrival("here"), where=where))
    await driver.say("from nowhere")
    claim = await driver.claim()
    mail = await driver.db.read(read_mail(claim, limit=10))
    assert [item.where for item in mail.waiting] == [where, NOWHERE]
