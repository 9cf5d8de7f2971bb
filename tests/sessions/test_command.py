"""A message is a command only if it is one beyond doubt; every other message reaches the model unchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.sessions.command import (
    ALIASES,
    HELP,
    SIGNALS,
    UNDO_TURNS_MAX,
    Command,
    CommandVerb,
    help_text,
    meant_by,
    parse_command,
)

EVERY_VERB = pytest.mark.parametrize("verb", CommandVerb, ids=lambda verb: verb.value)


@EVERY_VERB
def test_each_command_is_known_by_its_name(verb):
    assert parse_command(f"/{verb.value}") == Command(verb)


@EVERY_VERB
def test_upper_case_and_space_around_the_argument_do_not_matter(verb):
    assert parse_command(f"/{verb.value.upper()}   some  words \n") == Command(verb, "some  words")


@EVERY_VERB
def test_only_a_word_right_after_the_slash_is_a_command(verb):
    for text in (
        verb.value,
        f"\n/{verb.value}",
        f"\u00a0/{verb.value}",
        f"/ {verb.value}",
        f"//{verb.value}",
        f"/{verb.value}s",
        f"\\/{verb.value}",
    ):
        assert parse_command(text) is None, text


@EVERY_VERB
def test_space_before_a_command_does_not_matter(verb):
    """Slack keeps what begins with a slash to itself, so people put a space before it."""
    for before in (" ", "   ", "\t", " \t "):
        assert parse_command(f"{before}/{verb.value} K7M2QX") == Command(verb, "K7M2QX")


@given(st.text(alphabet=" \t\n/aprovedny K7", max_size=20) | st.text(max_size=20))
def test_space_before_a_text_makes_nothing_a_command_that_was_none(text):
    assert parse_command(f" \t{text}") == parse_command(text)
    if parse_command(text) is not None:
        assert text.lstrip(" \t").startswith("/")


@EVERY_VERB
def test_a_command_word_with_a_second_line_is_plain_text(verb):
    """Otherwise the words of the second line would be lost without anyone having read them."""
    assert parse_command(f"/{verb.value}\nand something else") is None


@EVERY_VERB
def test_help_says_how_each_command_is_written(verb):
    usage, what = HELP[verb]
    assert usage.split()[0] == f"/{verb.value}"
    assert what
    assert f"{usage} " in f"{help_text()} "


def test_help_lists_every_command_once():
    assert set(HELP) == set(CommandVerb)
    assert len(help_text().splitlines()) == len(CommandVerb)


def test_reset_is_new():
    assert parse_command("/reset") == Command(CommandVerb.NEW)
    assert set(ALIASES) == {"reset", *(verb.value for verb in CommandVerb)}


def test_stop_status_and_decisions_are_the_signals():
    expected = {CommandVerb.STOP, CommandVerb.STATUS, CommandVerb.APPROVE, CommandVerb.DENY}
    assert {verb for verb in CommandVerb if Command(verb).is_signal} == SIGNALS == expected


@pytest.mark.parametrize("text", ["", "/", "/ ", "hello", "/etc/passwd is a file", "/unknown", "/new?", "/2"])
def test_an_unknown_word_after_a_slash_is_plain_text(text):
    assert parse_command(text) is None


@pytest.mark.parametrize(
    ("argument", "count"),
    [
        ("", 1),
        ("1", 1),
        ("100", UNDO_TURNS_MAX),
        ("007", 7),
        ("0", None),
        ("101", None),
        ("-1", None),
        ("+1", None),
        ("1.5", None),
        ("two", None),
        ("²", None),
        ("\u0661", None),
        ("1 2", None),
        ("1_0", None),
        ("9" * 5_000, None),
    ],
)
def test_undo_takes_a_plain_number_from_1_to_100(argument, count):
    assert Command(CommandVerb.UNDO, argument).undo_turns == count


@given(st.integers(1, UNDO_TURNS_MAX))
def test_every_allowed_number_of_turns_can_be_undone(count):
    command = parse_command(f"/undo {count}")
    assert command is not None
    assert command.undo_turns == count


# --- words that are nearly a command ---------------------------------------------------------------

SLIPS = {
    "/tilte My trip": CommandVerb.TITLE,
    "/titel": CommandVerb.TITLE,
    "/nwe": CommandVerb.NEW,
    "/neww": CommandVerb.NEW,
    "/rset": CommandVerb.NEW,
    "/undoo 2": CommandVerb.UNDO,
    "/unod": CommandVerb.UNDO,
    "/HLEP": CommandVerb.HELP,
    "/stpo": CommandVerb.STOP,
    " /sttaus": CommandVerb.STATUS,
    "/stats": CommandVerb.STATUS,
    "/aprove K7M2QX": CommandVerb.APPROVE,
    "/dney K7M2QX": CommandVerb.DENY,
    "/comress the names": CommandVerb.COMPRESS,
    "/brnch": CommandVerb.BRANCH,
    "/resum Cats": CommandVerb.RESUME,
    "/retyr": CommandVerb.RETRY,
    "/delte": CommandVerb.DELETE,
}
TALK = [
    *("/etc/hosts", "/etc/hosts is empty, why?", "/shrug", "/me waves", "/tmp", "/usr", "/home", "/var/log", "/"),
    *("/start", "/settings", "/weather Paris", "/now", "/net", "/imagine a cat", "//title", "/title2", "/ti-tle"),
    *("/stop.", "/títle", "title", "see /tilte", "/tilte\nand a second line", "/n", "/dev", "/bin", "/skip", "/test"),
]


@pytest.mark.parametrize(("text", "verb"), SLIPS.items())
def test_a_slip_of_the_finger_is_known_for_what_was_meant(text, verb):
    assert parse_command(text) is None
    assert meant_by(text) is verb


@pytest.mark.parametrize("text", TALK)
def test_paths_and_other_words_after_a_slash_are_plain_text(text):
    assert meant_by(text) is None


@EVERY_VERB
def test_a_command_that_is_spelt_right_is_no_slip(verb):
    assert meant_by(f"/{verb.value} words") is None


@EVERY_VERB
def test_each_neighbouring_pair_of_letters_may_be_swapped(verb):
    """Unless the result is a command itself; of a word with two equal neighbours nothing changes."""
    for n in range(len(verb.value) - 1):
        letters = list(verb.value)
        letters[n], letters[n + 1] = letters[n + 1], letters[n]
        swapped = f"/{''.join(letters)}"
        assert parse_command(swapped) is not None or meant_by(swapped) is verb, swapped


@given(st.text(max_size=40))
def test_any_text_can_be_judged(text):
    meant_by(f"/{text}")
