"""The promise: a command is applied and acknowledged in one transaction, once, and only to what its sender may see.

Rules: D15, D23, D41.
"""

import pytest

from holdfast.inbox.identity import LinkRequest
from holdfast.inbox.identity_sql import link_principals, unlink_principal
from holdfast.inbox.mailbox_sql import claim_mailbox, read_mail, release_claim
from holdfast.inbox.message import Duplicate
from holdfast.kernel.errors import ClaimLost, InvariantBroken
from holdfast.kernel.ids import NodeId, OperationId, Principal
from holdfast.sessions.command_rights import Rank
from holdfast.sessions.command_sql import run_command
from holdfast.sessions.history_sql import find_mailbox, list_entries, read_session, trace_message
from holdfast.sessions.session import SessionState
from holdfast.turns.context_sql import read_context
from holdfast.turns.record_sql import record_turn
from holdfast.turns.turn_sql import commit_turn
from tests.store.test_node_sql import EVERYTHING
from tests.support.driver import address_of, record


async def live(driver, chat="home"):
    return (await driver.db.read(find_mailbox(address_of(chat)))).session


async def test_new_closes_the_session_and_opens_another(driver):
    old = await driver.chat("one")
    done = await driver.command("/new")
    assert done.switched
    assert await live(driver) == done.session != old
    closed = await driver.db.read(read_session(old))
    assert (closed.state, closed.reason, closed.live) == (SessionState.CLOSED, "new", False)
    assert (await driver.talk("two")).session == done.session


async def test_new_in_a_session_in_which_nothing_was_said_keeps_it(driver):
    first = await driver.command("/new")
    again = await driver.command("/new")
    assert (again.session, again.switched) == (first.session, False)


@pytest.mark.parametrize("text", ["/new", "/branch x", "/undo", "/title t", "/delete", "/help", "/resume nobody"])
async def test_a_command_repeated_after_an_unknown_commit_returns_its_first_result(driver, text):
    await driver.chat("one", "two")
    message = await driver.say(text)
    claim = await driver.claim()
    run = driver.command_run(message, text, answer="helpful")
    first = await driver.db.write(run_command(claim, run))
    before = await driver.rows(EVERYTHING)
    assert await driver.db.write(run_command(claim, run)) == first
    assert await driver.rows(EVERYTHING) == before
    assert await driver.state(message) == "command"
    assert (await driver.db.read(trace_message(message))).reply.text == first.text


async def test_a_command_waits_for_the_open_turn(driver):
    await driver.say("one")
    message = await driver.say("/new")
    claim = await driver.claim()
    await driver.open(claim)
    with pytest.raises(InvariantBroken):
        await driver.db.write(run_command(claim, driver.command_run(message, "/new")))


# --- /resume ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("title", ["Trip to Rome", "ÄRGER", "nul\0inside"])
async def test_a_session_is_resumed_by_title_whatever_its_case(driver, title):
    old = await driver.chat("one")
    await driver.command(f"/title {title}")
    await driver.command("/new")
    assert (await driver.command(f"/resume {title.swapcase()}")).session == old


async def test_a_closed_session_is_reopened_as_the_next_epoch(driver):
    old = await driver.chat("one")
    await driver.command("/new")
    done = await driver.command(f"/resume {old}")
    found = await driver.db.read(read_session(old))
    assert (done.session, found.state, found.epoch, found.closed_at) == (old, SessionState.OPEN, 2, None)
    assert "epoch 2" in done.text
    await driver.talk("two")
    assert await driver.texts(old) == ["one", "re: one", "two", "re: two"]


async def test_the_session_left_by_resume_stays_open_in_the_same_epoch(driver):
    first = await driver.chat("one")
    await driver.command("/new")
    second = await driver.chat("two")
    await driver.command(f"/resume {first}")
    found = await driver.db.read(read_session(second))
    assert (found.state, found.live, found.epoch) == (SessionState.OPEN, False, 1)
    await driver.command(f"/resume {second}")
    assert (await driver.db.read(read_session(second))).epoch == 1


async def test_resuming_the_live_session_changes_nothing(driver):
    session = await driver.chat("one")
    done = await driver.command(f"/resume {session}")
    assert (done.session, done.switched) == (session, False)


async def test_another_persons_session_is_not_found(driver):
    private = await driver.chat("secret", chat="ada-only")
    await driver.command("/title plans", chat="ada-only")
    await driver.talk("hi", chat="bobs", who="bob")
    for wanted in (private, "plans"):
        done = await driver.command(f"/resume {wanted}", chat="bobs", who="bob")
        assert (done.switched, "visible" in done.text) == (False, True)
    assert await live(driver, "ada-only") == private


async def test_a_private_session_is_not_resumed_where_somebody_else_has_spoken(driver):
    """The chat is no group, and still the other person would read along. An operator may switch it, and not to this."""
    private = await driver.chat("secret", chat="ada-only")
    await driver.command("/title plans", chat="ada-only")
    await driver.talk("hi", chat="shared", who="bob")
    for wanted in (private, "plans"):
        done = await driver.command(f"/resume {wanted}", chat="shared", who="ada", rank=Rank.OPERATOR)
        assert (done.switched, "visible" in done.text) == (False, True)
    assert await live(driver, "ada-only") == private


async def test_a_private_session_is_not_resumed_where_the_message_of_somebody_else_waits(driver):
    """The command came first, and still the other person's turn would be shown the session."""
    private = await driver.chat("secret", chat="ada-only")
    await driver.chat("hi", chat="shared")
    message = await driver.say(f"/resume {private}", chat="shared")
    await driver.say("what did ada say?", chat="shared", who="bob")
    claim = await driver.claim("shared")
    done = await driver.db.write(run_command(claim, driver.command_run(message, f"/resume {private}")))
    assert (done.switched, "visible" in done.text) == (False, True)
    assert await live(driver, "ada-only") == private


async def test_a_private_session_is_resumed_where_only_the_message_of_an_agent_waits(driver):
    private = await driver.chat("secret", chat="ada-only")
    await driver.chat("hi", chat="desk")
    message = await driver.say(f"/resume {private}", chat="desk")
    await driver.say("here is the answer", chat="desk", who="agent:moss", human=False)
    claim = await driver.claim("desk")
    done = await driver.db.write(run_command(claim, driver.command_run(message, f"/resume {private}")))
    assert (done.switched, done.session) == (True, private)


async def test_a_private_session_is_not_resumed_where_somebody_spoke_and_took_their_session_away(driver):
    """No session of the chat is theirs any longer, and still they read it."""
    private = await driver.chat("secret", chat="ada-only")
    theirs = (await driver.talk("hi", chat="shared", who="bob")).session
    assert (await driver.command(f"/resume {theirs}", chat="bobs", who="bob")).switched
    done = await driver.command(f"/resume {private}", chat="shared", rank=Rank.OPERATOR)
    assert (done.switched, "visible" in done.text) == (False, True)


async def test_a_private_session_is_not_resumed_where_somebody_spoke_who_was_the_same_person_then(driver):
    private = await driver.chat("secret", chat="ada-only")
    await driver.chat("hi", chat="desk")
    ada, pat = Principal("ada"), Principal("pat")
    link = LinkRequest(principal=ada, person=pat, by="operator", operation=OperationId("op_1"))
    await driver.db.write(link_principals(link))
    await driver.command("/new", chat="desk", who=pat)
    theirs = (await driver.talk("hi", chat="desk", who=pat)).session
    assert (await driver.command(f"/resume {theirs}", chat="work", who=pat)).switched
    await driver.db.write(unlink_principal(ada, named="operator", operation=OperationId("op_2")))
    done = await driver.command(f"/resume {private}", chat="desk", rank=Rank.OPERATOR)
    assert (done.switched, "visible" in done.text) == (False, True)


async def test_a_session_of_a_group_stays_there_although_one_member_alone_spoke_in_it(driver):
    """It is everybody's: to switch it takes an admin, and in private it would mix with private words."""
    group = (await driver.talk("hello", chat="club", type="group", channel="telegram")).session
    await driver.command("/title plans", chat="club", type="group", channel="telegram")
    for wanted in (group, "plans"):
        done = await driver.command(f"/resume {wanted}")
        assert (done.switched, "visible" in done.text) == (False, True)
    again = await driver.talk("hello again", chat="club", type="group", channel="telegram")
    assert again.session == group
    own = await driver.chat("mine", chat="phone")
    await driver.command("/title plans", chat="phone")
    await driver.talk("newer", chat="club", type="group", channel="telegram")
    assert (await driver.command("/resume plans")).session == own


async def test_a_session_of_a_chat_is_resumed_there_although_several_speak(driver):
    first = await driver.chat("one", chat="shared")
    await driver.talk("two", chat="shared", who="bob")
    assert (await driver.command("/new", chat="shared", who="bob", rank=Rank.OPERATOR)).switched
    await driver.talk("three", chat="shared", who="bob")
    done = await driver.command(f"/resume {first}", chat="shared", rank=Rank.OPERATOR)
    assert (done.switched, done.session) == (True, first)


async def test_a_session_is_resumed_where_the_same_person_spoke_under_a_linked_account(driver):
    private = await driver.chat("one", chat="phone")
    await driver.talk("hi", chat="desk", who="ada-at-work")
    at_work, operation = Principal("ada-at-work"), OperationId("op_1")
    await driver.db.write(
        link_principals(LinkRequest(principal=at_work, person=Principal("ada"), by="operator", operation=operation))
    )
    assert (await driver.command(f"/resume {private}", chat="desk")).session == private


async def test_another_agents_session_is_not_found(driver):
    session = await driver.chat("one")
    await driver.say(f"/resume {session}", agent="moss")
    claim = await driver.db.write(claim_mailbox(driver.node))
    mail = await driver.db.read(read_mail(claim, limit=1))
    run = driver.command_run(mail.waiting[0].message, f"/resume {session}")
    assert not (await driver.db.write(run_command(claim, run))).switched


async def test_an_idle_place_gives_its_session_up_and_its_fence_is_bumped(driver):
    session = await driver.chat("one", chat="phone")
    before = await driver.db.read(find_mailbox(address_of("phone")))
    assert (await driver.command(f"/resume {session}")).switched
    after = await driver.db.read(find_mailbox(address_of("phone")))
    assert (after.session, after.fence) == (None, before.fence + 1)
    assert (await driver.talk("fresh", chat="phone")).session != session


async def test_a_place_with_mail_keeps_its_session(driver):
    session = await driver.chat("one", chat="phone")
    driver.clock.advance(1)
    message = await driver.say(f"/resume {session}")
    driver.clock.advance(1)
    await driver.say("two", chat="phone")
    claim = await driver.claim()
    done = await driver.db.write(run_command(claim, driver.command_run(message, f"/resume {session}")))
    assert (done.switched, "in use" in done.text) == (False, True)
    assert await live(driver, "phone") == session


async def test_a_place_that_is_claimed_keeps_its_session(driver):
    session = await driver.chat("one", chat="phone")
    await driver.say("two", chat="phone")
    phone = await driver.claim("phone")
    await driver.answer(phone, await driver.open(phone))
    assert not (await driver.command(f"/resume {session}")).switched
    with pytest.raises(AssertionError):
        await driver.claim("phone", node=NodeId("node_a"))


async def test_the_claim_of_a_place_that_lost_its_session_is_void(driver):
    session = await driver.chat("one", chat="phone")
    await driver.say("two", chat="phone")
    phone = await driver.claim("phone")
    turn = await driver.open(phone)
    await driver.answer(phone, turn)
    await driver.db.write(release_claim(phone))
    await driver.command(f"/resume {session}")
    with pytest.raises(ClaimLost):
        await driver.answer(phone, turn)


# --- /branch, /undo, /retry ------------------------------------------------------------------------


async def test_a_branch_copies_nothing_and_sees_its_ancestors_up_to_the_fork(driver):
    parent = await driver.chat("one", "two")
    child = (await driver.command("/branch side")).session
    assert await driver.rows("select 1 from entry where session = :s", s=child) == []
    turn = await driver.talk("three")
    assert (turn.session, turn.n, turn.first_seq) == (child, 3, 5)
    await driver.command(f"/resume {parent}")
    await driver.talk("elsewhere")
    assert await driver.texts(child) == ["one", "re: one", "two", "re: two", "three", "re: three"]
    assert await driver.texts(parent) == ["one", "re: one", "two", "re: two", "elsewhere", "re: elsewhere"]
    found = await driver.db.read(read_session(child))
    assert (found.parent, found.fork_seq, found.title) == (parent, 4, "side")


async def test_undo_in_a_branch_hides_inherited_turns_there_only(driver):
    parent = await driver.chat("one", "two")
    child = (await driver.command("/branch")).session
    await driver.command("/undo")
    assert await driver.texts(child) == ["one", "re: one"]
    assert await driver.texts(parent) == ["one", "re: one", "two", "re: two"]


async def test_a_branch_of_a_branch_keeps_the_undos_of_its_line(driver):
    await driver.chat("one", "two")
    await driver.command("/branch")
    await driver.command("/undo")
    await driver.talk("three")
    grandchild = (await driver.command("/branch")).session
    assert await driver.texts(grandchild) == ["one", "re: one", "three", "re: three"]
    await driver.command("/undo 2")
    assert await driver.texts(grandchild) == []


async def test_undo_takes_back_the_last_turns_that_still_count(driver):
    session = await driver.chat("one", "two", "three")
    assert "Took back 1 turn." in (await driver.command("/undo")).text
    assert "Took back 1 turn." in (await driver.command("/undo 1")).text
    assert await driver.texts(session) == ["one", "re: one"]
    await driver.talk("four")
    assert "only 2 of the 5" in (await driver.command("/undo 5")).text
    assert await driver.texts(session) == []
    assert "no turn" in (await driver.command("/undo")).text
    assert len(await driver.db.read(list_entries(session))) == 11


@pytest.mark.parametrize("text", ["/undo 0", "/undo many", "/undo 101"])
async def test_an_undo_that_names_no_number_changes_nothing(driver, text):
    session = await driver.chat("one")
    await driver.command(text)
    assert (await driver.db.read(read_session(session))).undo_count == 0


async def test_undo_behind_a_summary_voids_it_and_the_earlier_one_counts_again(driver):
    session = await driver.chat("one", "two", "three")
    first = await driver.summarise(session, through=2, text="first")
    await driver.summarise(session, through=4, text="second")
    await driver.command("/undo")
    assert (await driver.db.read(read_context(session))).summary.n == 2
    await driver.command("/undo")
    context = await driver.db.read(read_context(session))
    assert (context.summary, context.entries) == (first, ())
    third = await driver.summarise(session, through=context.committed_seq, text="third")
    assert (third.n, third.base_n, third.covers_from) == (3, 1, 3)


async def test_a_branch_goes_on_with_a_summary_that_its_parent_voided_later(driver):
    parent = await driver.chat("one", "two")
    made = await driver.summarise(parent, through=4)
    child = (await driver.command("/branch")).session
    await driver.command(f"/resume {parent}")
    await driver.command("/undo")
    assert (await driver.db.read(read_context(parent))).summary is None
    assert (await driver.db.read(read_context(child))).summary == made


async def test_a_branch_does_not_see_summaries_made_after_the_fork(driver):
    parent = await driver.chat("one", "two")
    child = (await driver.command("/branch")).session
    await driver.summarise(parent, through=2, text="of the parent")
    assert (await driver.db.read(read_context(child))).summary is None
    made = await driver.summarise(child, through=4, text="of the child")
    assert (made.session, made.n) == (child, 1)


async def test_an_undo_before_the_fork_shows_a_branch_no_summary_made_after_it(driver):
    parent = await driver.chat("one", "two")
    await driver.command("/undo")
    child = (await driver.command("/branch")).session
    await driver.command(f"/resume {parent}")
    await driver.summarise(parent, through=2, text="of the parent")
    assert (await driver.db.read(read_context(parent))).summary.text == "of the parent"
    assert (await driver.db.read(read_context(child))).summary is None


async def test_undoing_an_inherited_turn_keeps_a_summary_of_those_before_it(driver):
    parent = await driver.chat("one", "two")
    made = await driver.summarise(parent, through=2)
    child = (await driver.command("/branch")).session
    await driver.command("/undo")
    context = await driver.db.read(read_context(child))
    assert (context.summary, context.entries) == (made, ())
    assert await driver.rows("select ref from entry where kind = 'undo'") == [(3,)]


async def test_undo_voids_a_summary_that_ends_with_the_first_words_of_the_turn(driver):
    session = await driver.chat("one", "two")
    await driver.summarise(session, through=3, text="they said one, and two")
    await driver.command("/undo")
    assert (await driver.db.read(read_context(session))).summary is None


async def test_retry_takes_back_the_last_turn_and_owns_the_new_one(driver):
    session = await driver.chat("one", "two")
    message = await driver.say("/retry")
    claim = await driver.claim()
    turn = await driver.open(claim, retry=True)
    await driver.answer(claim, turn, "better")
    assert (turn.n, turn.messages) == (3, (message,))
    assert (await driver.texts(session))[-1] == "better"
    assert "two" not in await driver.texts(session)
    assert (await driver.db.read(trace_message(message))).reply.text == "better"


# --- /title, /delete -------------------------------------------------------------------------------


async def test_what_was_deleted_is_known_when_it_comes_again(driver):
    arrival = driver.arrival("My cat is called Byron.")
    await driver.accept(arrival)
    claim = await driver.claim()
    await driver.answer(claim, await driver.open(claim))
    await driver.db.write(release_claim(claim))
    await driver.delete()
    again = await driver.accept(arrival)
    assert isinstance(again, Duplicate)
    assert again.message == arrival.message


async def test_a_title_is_one_line_of_limited_length(driver):
    session = await driver.chat("one")
    await driver.command("/title  a\tb\nc\0 " + "x" * 500)
    title = (await driver.db.read(read_session(session))).title
    assert title.startswith("a b c x")
    assert len(title) == 120


async def test_commands_without_a_session_say_so(driver):
    for text in ("/branch", "/undo", "/title x", "/delete"):
        done = await driver.command(text)
        assert (done.session, "no session here" in done.text) == (None, True)


async def test_delete_blanks_every_word_and_keeps_the_envelopes(driver):
    await driver.say("canary one")
    claim = await driver.claim()
    await driver.db.write(commit_turn(claim, await driver.open(claim), driver.commit("canary reply")))
    await driver.write("update reply set state = 'pending', settled_at = null")  # as if somebody still had to send it
    await driver.db.write(release_claim(claim))
    session = await live(driver)
    await driver.command("/title canary title")
    await driver.say("/status canary")
    await driver.summarise(session, through=2, text="canary summary")
    done = await driver.delete()
    assert (done.session, done.switched) == (None, True)
    for table in ("entry", "summary", "inbound", "reply"):
        assert not [row for row in await driver.rows(f"select body from {table}") if b"canary" in bytes(row[0])]
    found = await driver.db.read(read_session(session))
    assert (found.state, found.title, found.turns) == (SessionState.DELETED, None, 1)
    ((state, reason, settled_at),) = await driver.rows("select state, reason, settled_at from reply where turn = 1")
    assert (state, reason) == ("failed", "its words were deleted")
    assert settled_at is not None
    assert not (await driver.command(f"/resume {session}")).switched
    assert (await driver.talk("again")).session != session


async def test_an_uncertain_reply_stays_uncertain_when_its_words_are_deleted(driver):
    await driver.talk("one")
    await driver.write("update reply set state = 'pending', doubts = 1")
    await driver.delete()
    assert await driver.rows("select state from reply where turn = 1") == [("uncertain",)]


@pytest.mark.parametrize("generations", [1, 2, 3])
async def test_delete_takes_inherited_words_from_branches_and_leaves_their_own(driver, generations):
    parent = await driver.chat("canary")
    for _ in range(generations):
        child = (await driver.command("/branch")).session
    await driver.talk("mine")
    await driver.summarise(child, through=2, text="about the canary")
    assert (await driver.db.read(read_context(child))).summary is not None
    await driver.command(f"/resume {parent}")
    await driver.delete()
    context = await driver.db.read(read_context(child))
    assert context.summary is None
    assert [entry.text for entry in context.entries] == ["", "", "mine", "re: mine"]
    assert context.estimated_tokens() == sum(entry.tokens for entry in context.entries[2:])


@pytest.mark.parametrize("generations", [0, 1])
async def test_delete_leaves_the_summary_of_a_child_that_inherited_no_words(driver, generations):
    parent = line = await driver.chat("canary")
    for _ in range(generations):
        line = (await driver.command("/branch")).session
    child = (await driver.db.write(record_turn(record("k1", parent=line)))).session
    await driver.summarise(child, through=2, text="about the child")
    before = await driver.db.read(read_context(child))
    await driver.command(f"/resume {parent}")
    await driver.delete()
    assert before.summary is not None
    assert await driver.db.read(read_context(child)) == before


async def test_deleting_a_branch_leaves_its_parent_whole(driver):
    parent = await driver.chat("one")
    await driver.command("/branch")
    await driver.talk("two")
    await driver.delete()
    assert await driver.texts(parent) == ["one", "re: one"]
