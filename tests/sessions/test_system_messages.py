"""What the runtime says to people is short, true and in one voice."""

import pytest

from holdfast.inbox.message import Status
from holdfast.kernel.ids import SessionId
from holdfast.sessions import system_messages
from holdfast.sessions.command import UNDO_TURNS_MAX


def test_an_idle_mailbox_says_so():
    assert system_messages.status_text(Status(session=None, depth=0, turn=None)) == (
        "Nothing is running. 0 messages waiting. Session: none yet."
    )


def test_a_running_turn_is_told_with_its_phase_and_what_waits_behind_it():
    status = Status(session=SessionId("ses_1"), depth=3, turn=3, in_turn=2, attempt=2, phase="acting")
    assert system_messages.status_text(status) == "Turn 3 is acting (attempt 2). 1 message waiting. Session: ses_1."


def test_a_turn_that_is_being_stopped_is_told_as_such():
    status = Status(session=SessionId("ses_1"), depth=1, turn=3, in_turn=1, attempt=1, phase="thinking", stopping=True)
    assert "Turn 3 is thinking (attempt 1), stopping. 0 messages waiting." in system_messages.status_text(status)


def test_stopping_names_the_turn_or_says_that_nothing_runs():
    assert system_messages.stop_text(3) == "Stopping turn 3."
    assert system_messages.stop_text(None) == "Nothing is running."


@pytest.mark.parametrize(
    ("count", "asked", "sentence"),
    [
        (0, 1, "There is no turn to take back."),
        (1, 1, "Took back 1 turn. "),
        (2, 2, "Took back 2 turns. "),
        (1, 3, "Took back 1 turn (only 1 of the 3 asked for existed). "),
    ],
)
def test_undo_says_how_much_it_took_back(count, asked, sentence):
    assert system_messages.undone_text(count, asked).startswith(sentence)


def test_undo_says_that_the_effects_of_tools_stay():
    assert system_messages.UNDO_NOTE in system_messages.undone_text(1, 1)


def test_the_limit_of_undo_is_the_limit_that_is_told():
    assert f"from 1 to {UNDO_TURNS_MAX}" in system_messages.BAD_UNDO


def test_switches_name_the_session_and_its_title():
    assert system_messages.new_text("ses_2", had_one=True) == "New session ses_2."
    assert system_messages.new_text("ses_2", had_one=False) == "This session is already new: ses_2."
    assert system_messages.resumed_text("ses_1", None, epoch=1) == "Resumed ses_1."
    assert system_messages.resumed_text("ses_1", "cats", epoch=2) == (
        "Resumed “cats” (ses_1). It was closed and is open again (epoch 2)."
    )
    assert (
        system_messages.branched_text("ses_2", "ses_1", "cats")
        == "Branched ses_1 into ses_2 “cats”. The original is unchanged."
    )
    assert (
        system_messages.branched_text("ses_2", "ses_1", None) == "Branched ses_1 into ses_2. The original is unchanged."
    )


def test_a_failure_says_that_the_message_is_kept_and_what_to_do():
    assert system_messages.failed_text("The model is away.") == (
        "I could not answer this message: The model is away. It is kept; send /retry to try again."
    )
    assert system_messages.interrupted_text("stopped") == "Interrupted (stopped)."


def test_what_is_not_found_is_quoted_so_that_odd_characters_show():
    assert "'a\\x1b'" in system_messages.not_found_text("a\x1b")
    assert "'cats'" in system_messages.live_elsewhere_text("cats")
