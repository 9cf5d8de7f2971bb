"""A command that loses or decides something for others changes nothing unless its sender may give it, and is answered.

Who may is read in the transaction of the command: whose turns they are, who else spoke, what was known of the sender
when the message came.
"""

import pytest

from holdfast.audit.action import ActionOutcome
from holdfast.audit.action_sql import list_actions
from holdfast.inbox.identity_sql import link_principals, unlink_principal
from holdfast.inbox.mailbox_sql import read_mail, release_claim
from holdfast.kernel.ids import OperationId, Principal
from holdfast.sessions.command_rights import NotAllowed, Rank
from holdfast.sessions.command_sql import run_command
from holdfast.sessions.history_sql import read_session
from holdfast.turns.open_turn_sql import open_turn
from holdfast.turns.turn import Turn
from tests.inbox.test_identity_sql import linking
from tests.support.driver import confirmed
from tests.turns.test_approval_sql import told, waiting

GROUP = {"channel": "telegram", "type": "group"}
ADA, BOB, EVE = "telegram:1", "telegram:2", "telegram:3"
GUARDED = ("/delete", "/new", "/reset", "/resume x", "/branch b", "/undo", "/undo 2")
TABLES = ("session", "turn", "entry", "summary", "delivery", "cursor", "approval", "finalisation")


async def kept(driver):
    """What a command could have changed."""
    return {table: sorted(map(str, await driver.rows(f"select * from {table}"))) for table in TABLES}


async def give(driver, text, *, operators=(), **options):
    """A whole command with the agent's operators; what it did."""
    message = await driver.say(text, **options)
    claim = await driver.claim()
    run = driver.command_run(message, text, who=options.get("who", "ada"))
    done = await driver.db.write(run_command(claim, _with(run, operators=frozenset(operators))))
    await driver.db.write(release_claim(claim))
    assert await driver.state(message) == "command"
    return done


def _with(value, **fields):
    return type(value)(**{**{name: getattr(value, name) for name in type(value).__dataclass_fields__}, **fields})


async def group(driver, *who):
    for one in who:
        turn = await driver.talk(f"{one} said this", who=one, **GROUP)
    return turn.session


# --- groups --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", GUARDED)
async def test_a_member_of_a_group_changes_nothing_for_everybody(driver, text):
    await group(driver, ADA, BOB)
    before = await kept(driver)
    done = await give(driver, text, who=EVE, **GROUP)
    assert done.refused == "not_yours"
    assert done.text.endswith("Nothing was changed.")
    assert not done.switched
    assert await kept(driver) == before


@pytest.mark.parametrize("text", GUARDED[:-2])
@pytest.mark.parametrize("who", [ADA, BOB])
async def test_nor_does_who_spoke_there(driver, text, who):
    await group(driver, ADA, BOB)
    before = await kept(driver)
    assert (await give(driver, text, who=who, **GROUP)).refused == "not_yours"
    assert await kept(driver) == before


@pytest.mark.parametrize("how", [{"rank": Rank.ADMIN}, {"rank": Rank.OPERATOR}, {"operators": (EVE,)}], ids=str)
@pytest.mark.parametrize("text", ["/new", "/branch b", "/undo 2"])
async def test_an_admin_or_an_operator_does(driver, text, how):
    session = await group(driver, ADA, BOB)
    done = await give(driver, text, who=EVE, **GROUP, **how)
    assert done.refused == ""
    assert done.switched is (text != "/undo 2")
    assert (await driver.db.read(read_session(session))).undo_count == (text == "/undo 2")


async def test_a_rank_that_the_platform_could_not_be_asked_for_is_none(driver):
    await group(driver, ADA)
    done = await give(driver, "/new", who=EVE, rank=Rank.UNKNOWN, **GROUP)
    assert done.refused == "not_yours"
    assert "could not be asked" in done.text


async def test_a_linked_account_of_an_operator_is_the_operator(driver):
    await group(driver, ADA)
    await driver.db.write(link_principals(linking(driver, EVE, "discord:9")))
    assert (await give(driver, "/new", who=EVE, operators=("discord:9",), **GROUP)).refused == ""
    await driver.db.write(unlink_principal(Principal(EVE), named="test", operation=OperationId(driver.id("op"))))
    assert (await give(driver, "/new", who=EVE, operators=("discord:9",), **GROUP)).refused == "not_yours"


async def test_somebody_undoes_their_own_turns_and_no_further(driver):
    session = await group(driver, ADA, BOB, BOB)
    before = await kept(driver)
    assert (await give(driver, "/undo 3", who=BOB, **GROUP)).refused == "not_yours"
    assert (await give(driver, "/undo 2", who=ADA, **GROUP)).refused == "not_yours"
    assert await kept(driver) == before
    assert "Took back 2 turns" in (await give(driver, "/undo 2", who=BOB, **GROUP)).text
    assert "Took back 1 turn." in (await give(driver, "/undo", who=ADA, **GROUP)).text
    assert (await driver.db.read(read_session(session))).undo_count == 2


async def test_a_turn_in_a_session_that_was_branched_from_stays_its_speakers(driver):
    await group(driver, ADA, BOB)
    assert (await give(driver, "/branch b", who=EVE, rank=Rank.ADMIN, **GROUP)).switched
    assert (await give(driver, "/undo", who=ADA, **GROUP)).refused == "not_yours"
    assert "Took back 1 turn." in (await give(driver, "/undo", who=BOB, **GROUP)).text
    assert "Took back 1 turn." in (await give(driver, "/undo", who=ADA, **GROUP)).text


async def test_what_was_said_as_one_of_ones_accounts_is_ones_own(driver):
    await group(driver, ADA)
    await driver.db.write(link_principals(linking(driver, "telegram:77", ADA)))
    assert "Took back 1 turn." in (await give(driver, "/undo", who="telegram:77", **GROUP)).text


async def test_a_session_of_ones_own_in_a_group_is_private(driver):
    own = {"user": "home", **GROUP}  # the driver tells addresses by their ends
    await driver.talk("mine", who=ADA, **own)
    assert (await give(driver, "/new", who=ADA, **own)).switched


# --- /retry ---------------------------------------------------------------------------------------------


async def retried(driver, who, **options):
    message = await driver.say("/retry", who=who, **GROUP, **options)
    claim = await driver.claim()
    mail = await driver.db.read(read_mail(claim, limit=1))
    found = await driver.db.write(open_turn(claim, driver.opening(mail.session, mail.waiting, retry=True)))
    if isinstance(found, Turn):
        await driver.answer(claim, found)
    else:
        done = await driver.db.write(
            run_command(claim, driver.command_run(message, "/retry", who=who, answer=found.text))
        )
        assert (done.refused, done.text) == (found.code, found.text)
        assert await driver.state(message) == "command"
    await driver.db.write(release_claim(claim))
    return found


@pytest.mark.parametrize(
    ("who", "options", "may"),
    [
        (BOB, {}, True),
        (ADA, {}, False),
        (EVE, {}, False),
        (EVE, {"rank": Rank.ADMIN}, True),
        (BOB, {"human": False}, False),
        (EVE, {"human": False, "rank": Rank.ADMIN}, False),
    ],
    ids=str,
)
async def test_who_may_have_the_last_turn_answered_again(driver, who, options, may):
    session = await group(driver, ADA, BOB)
    before = await kept(driver)
    found = await retried(driver, who, **options)
    assert isinstance(found, Turn if may else NotAllowed)
    assert (await kept(driver) == before) is not may
    assert (await driver.db.read(read_session(session))).undo_count == may


async def test_a_turn_that_an_admin_had_answered_again_is_still_its_speakers(driver):
    await group(driver, BOB)
    message = await driver.say("/retry", who=EVE, rank=Rank.ADMIN, **GROUP)
    claim = await driver.claim()
    mail = await driver.db.read(read_mail(claim, limit=1))
    opening = driver.opening(mail.session, mail.waiting, retry=True)
    entries = tuple(type(one)(text="again", principal=BOB, message=message) for one in opening.entries)
    turn = await driver.db.write(open_turn(claim, _with(opening, entries=entries, principal=BOB)))
    assert isinstance(turn, Turn)
    await driver.answer(claim, turn)
    await driver.db.write(release_claim(claim))
    assert (await give(driver, "/undo", who=EVE, **GROUP)).refused == "not_yours"
    assert "Took back 1 turn." in (await give(driver, "/undo", who=BOB, **GROUP)).text


# --- signals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("who", "options", "may"),
    [
        (ADA, {}, True),
        (BOB, {}, False),
        (BOB, {"rank": Rank.UNKNOWN}, False),
        (BOB, {"rank": Rank.ADMIN}, True),
        (BOB, {"operators": frozenset({BOB})}, True),
        (ADA, {"human": False}, False),
        (BOB, {"human": False, "rank": Rank.ADMIN, "operators": frozenset({BOB})}, False),
    ],
    ids=str,
)
async def test_who_may_stop_a_turn(driver, who, options, may):
    await driver.say("think hard", who=ADA, **GROUP)
    turn = await driver.open(await driver.claim())
    answer = await told(driver, "/stop", who=who, **GROUP, **options)
    assert answer.startswith("Stopping turn" if may else "Only the person" if options.get("human", True) else "/stop")
    ((stop_at,),) = await driver.rows("select stop_at from turn")
    assert (stop_at is not None) is may
    trail = await driver.db.read(list_actions())
    assert [(row.verb, row.outcome.value, row.subject) for row in trail] == (
        [] if may and who == ADA else [("turn.stopped", "done" if may else "refused", f"{turn.session}/{turn.n}")]
    )


async def test_nothing_that_runs_is_stopped_by_anybody(driver):
    await group(driver, ADA)
    assert await told(driver, "/stop", who=EVE, **GROUP) == "Nothing is running."


@pytest.mark.parametrize(
    ("who", "options", "approvers", "may"),
    [
        (ADA, {}, (), True),
        (BOB, {}, (), False),
        (BOB, {"rank": Rank.ADMIN}, (), True),
        (BOB, {"operators": frozenset({BOB})}, (), True),
        (ADA, {}, (BOB,), False),
        (EVE, {"rank": Rank.ADMIN}, (BOB,), False),
        (EVE, {"operators": frozenset({EVE})}, (BOB,), True),
        (BOB, {}, (BOB,), True),
        (BOB, {"human": False}, (BOB,), False),
        (BOB, {"human": False, "rank": Rank.OPERATOR}, (), False),
    ],
    ids=str,
)
async def test_who_may_decide_about_a_call_in_a_group(driver, who, options, approvers, may):
    text = "/deny K7M2QX" if may and approvers else "/approve K7M2QX"
    await waiting(driver, who=ADA, approvers=approvers, channel="telegram", type="group")
    answer = await told(driver, text, who=who, **GROUP, **options)
    ((decision,),) = await driver.rows("select decision from approval")
    assert (decision is not None) is may
    assert answer.startswith(("Approved", "Denied")) is may
    (row,) = await driver.db.read(list_actions())
    assert (row.verb, row.outcome) == ("approval.decided", ActionOutcome.DONE if may else ActionOutcome.REFUSED)


# --- programs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [*GUARDED, "/title t", "/compress"])
@pytest.mark.parametrize("place", [{}, {"channel": "telegram", "type": "dm"}], ids=["http", "private"])
async def test_a_program_changes_nothing_in_its_own_chat(driver, text, place):
    await driver.talk("one", human=False, **place)
    before = await kept(driver)
    done = await give(driver, text, human=False, operators=("ada",), rank=Rank.OPERATOR, **place)
    assert (done.refused, done.text.split(maxsplit=1)[0]) == ("robot", text.split()[0].replace("reset", "new"))
    assert await kept(driver) == before


@pytest.mark.parametrize("text", ["/help", "/status"])
async def test_it_may_ask(driver, text):
    assert await told(driver, "/status", human=False) == "Nothing is running. 0 messages waiting. Session: none yet."
    assert (await give(driver, "/help", human=False)).refused == ""


# --- chats over HTTP ------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", GUARDED)
async def test_a_chat_in_which_several_senders_spoke_is_a_group_without_admins(driver, text):
    await driver.talk("one", who="ada")
    await driver.talk("two", who="bob")
    before = await kept(driver)
    for who in ("ada", "eve"):
        done = await give(driver, text, who=who, rank=Rank.ADMIN)
        assert done.refused == "not_yours"
        assert "where several people talk" in done.text
    assert await kept(driver) == before
    done = await give(driver, text, who="eve", rank=Rank.OPERATOR)
    assert done.refused == ""


async def test_the_first_words_of_somebody_in_anothers_chat_are_no_command(driver):
    session = await driver.chat("mine")
    assert (await give(driver, "/delete", who="mallory")).refused == "not_yours"
    assert (await driver.db.read(read_session(session))).state.value == "open"


async def test_an_agent_that_answered_does_not_count_as_a_speaker(driver):
    await driver.talk("one", who="ada")
    await driver.talk("the answer", who="agent:moss", human=False)
    assert (await give(driver, "/new", who="ada")).switched


async def test_ones_own_turns_in_a_shared_chat_are_ones_own(driver):
    await driver.talk("one", who="ada")
    await driver.talk("two", who="bob")
    assert (await give(driver, "/undo", who="ada")).refused == "not_yours"
    assert "Took back 1 turn." in (await give(driver, "/undo", who="bob")).text


@pytest.mark.parametrize("text", ["/title t", "/compress"])
async def test_what_loses_nothing_is_for_every_person_who_may_talk(driver, text):
    await driver.talk("one", who="ada")
    await driver.talk("two", who="bob")
    assert (await give(driver, text, who="eve")).refused == ""
    await group(driver, ADA, BOB)
    message = await driver.say(text, who=EVE, **GROUP)
    assert (await driver.db.write(run_command(await driver.claim(), driver.command_run(message, text)))).refused == ""


# --- /delete asks once more -----------------------------------------------------------------------------


async def test_the_first_delete_says_what_would_go_and_deletes_nothing(driver):
    session = await driver.chat("one", "two")
    before = await kept(driver)
    done = await give(driver, "/delete")
    word = confirmed(done.text).split()[1]
    assert done.text == (
        f"This would close the session {session} and erase everything said in it: 2 turns. It cannot be undone. "
        f"Nothing was deleted yet. To confirm, send: /delete {word}"
    )
    assert (done.session, done.switched) == (session, False)
    assert await kept(driver) == before
    assert (await give(driver, "/delete")).text == done.text
    assert (await give(driver, f"/delete `{word.lower()}`")).switched
    assert (await driver.db.read(read_session(session))).state.value == "deleted"


async def test_a_repeated_call_gives_the_same_answer_and_deletes_once(driver):
    await driver.chat("one")
    for text in ("/delete", confirmed((await give(driver, "/delete")).text)):
        message = await driver.say(text)
        claim = await driver.claim()
        run = driver.command_run(message, text)
        first = await driver.db.write(run_command(claim, run))
        assert await driver.db.write(run_command(claim, run)) == first
        await driver.db.write(release_claim(claim))
    assert [row.verb for row in await driver.db.read(list_actions())] == ["session.deleted"]


async def test_a_word_is_void_once_more_was_said_in_another_session_and_for_another_person(driver):
    session = await driver.chat("one")
    word = confirmed((await give(driver, "/delete")).text)
    await driver.talk("two")
    await _is_void(driver, word)
    fresh = confirmed((await give(driver, "/delete")).text)
    assert (await give(driver, "/new")).switched
    await driver.talk("three")
    await _is_void(driver, fresh)
    assert (await give(driver, f"/resume {session}")).switched
    await _is_void(driver, fresh, who="eve", rank=Rank.OPERATOR)
    assert (await give(driver, fresh)).switched
    assert (await driver.db.read(read_session(session))).state.value == "deleted"


async def _is_void(driver, text, **options):
    before = await kept(driver)
    done = await give(driver, text, **options)
    assert done.text.startswith(f"{text.split()[1]!r} does not confirm a deletion")
    assert (await kept(driver), done.switched) == (before, False)


@pytest.mark.parametrize("word", ["NOPE", "7KQ2 and more", "🦊", "x" * 5_000])
async def test_a_wrong_word_deletes_nothing(driver, word):
    await driver.chat("one")
    before = await kept(driver)
    assert "Nothing was deleted." in (await give(driver, f"/delete {word}")).text
    assert await kept(driver) == before


# --- the audit trail ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "verb"),
    [
        ("/delete", "session.deleted"),
        ("/undo", "session.undone"),
        ("/new", "session.switched"),
        ("/resume x", "session.switched"),
        ("/branch b", "session.switched"),
    ],
)
async def test_a_refused_command_is_on_record(driver, text, verb):
    session = await group(driver, ADA)
    await give(driver, text, who=EVE, **GROUP)
    (row,) = await driver.db.read(list_actions())
    assert (row.verb, row.outcome, row.subject, row.by.id) == (verb, ActionOutcome.REFUSED, session, EVE)
    assert row.code == "not_yours"


async def test_a_person_who_goes_on_in_another_session_of_their_own_leaves_no_row(driver):
    await driver.chat("one")
    assert (await give(driver, "/new")).switched
    assert await driver.db.read(list_actions()) == []
