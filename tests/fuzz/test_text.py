"""Every generated text is accepted or refused with an error of ours; no other exception is raised and no text is
understood in part.
"""

from contextlib import suppress

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.inbox.address import agent_name, check_part, parse
from holdfast.inbox.message import Limits, MessageKind, check_text, kind_of
from holdfast.kernel.errors import (
    EmptyMessage,
    InvalidAddress,
    InvalidName,
    InvalidUnicode,
    MessageTooLarge,
)
from holdfast.sessions.command import ALIASES, meant_by, parse_command
from holdfast.sessions.session import clean_title
from holdfast.turns.journal import UserSaid, decode_body, encode_body

anything = st.text(st.characters())  # lone surrogates too
odd = st.text(st.sampled_from("agent:main%0Aé/ \0\n\ud800😀.-_\u200b3"), max_size=60)
escapes = st.sampled_from(
    ["%", "%3A", "%3a", "%C3", "%00", ":", "::", "a", "", "\ud800", "é", "%25", "agent", "main", "%ED%A0%80"]
)
spellings = st.lists(escapes, max_size=10).map(lambda parts: "agent:main:http:dm:" + "".join(parts)) | st.lists(
    escapes, max_size=9
).map(":".join)
slashed = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["/", "/ ", "//", " /", ""]),
    st.sampled_from([*ALIASES, *map(str.upper, ALIASES), "\u017ftop", "unknown", ""]),
    st.sampled_from([" ", "\n", "\t", "\u00a0", "", "  "]),
    anything | st.integers().map(str),
)


@given(anything | odd | spellings)
@example("agent:main:http:dm:" + "%" * 2_000)
@example("agent:" * 2_000)
def test_an_address_is_read_and_written_back_the_same_or_refused(text):
    with suppress(InvalidAddress):
        assert str(parse(text)) == text


@given(anything | odd | slashed)
@example("/undo " + "9" * 100_000)
@example("/undo " + "٣" * 10)
@example("/title \ud800")
@example("/" + " " * 100_000 + "new")
def test_a_command_is_understood_or_left_as_text(text):
    command = parse_command(text)
    if command is None:
        assert kind_of(text) is (MessageKind.TEXT if meant_by(text) is None else MessageKind.SIGNAL)
        assert kind_of(text, human=False) is MessageKind.TEXT
        assert kind_of(text, addressed=False) is MessageKind.OBSERVED
        return
    assert kind_of(text) is (MessageKind.SIGNAL if command.is_signal else MessageKind.COMMAND)
    assert text.lstrip(" \t")[1:].lower().startswith(tuple(ALIASES))
    assert command.argument in text
    turns = command.undo_turns
    assert turns is None or 1 <= turns <= 100


@given(anything | odd, st.integers(0, 60))
@example("\u3164", 256)
@example("\U000e0001", 256)
def test_a_text_is_kept_unchanged_for_ever_or_refused_by_name(text, bytes_max):
    try:
        kept = check_text(text, Limits(message_bytes_max=bytes_max))
    except InvalidUnicode:
        assert any("\ud800" <= char <= "\udfff" for char in text)
    except MessageTooLarge:
        assert len(text.encode()) > bytes_max
    except EmptyMessage:
        assert not any(char.isalnum() for char in text)
    else:
        assert kept == text
        stored = decode_body("user", encode_body(UserSaid(text=kept, principal="ada")))
        assert stored.text == text  # type: ignore[union-attr]


@given(anything | odd)
def test_a_name_or_an_id_from_outside_is_kept_or_refused(text):
    for check in (agent_name, lambda id_: check_part("message id", id_)):
        with suppress(InvalidName):
            assert check(text) == text
            assert text.encode()


@given(anything | odd)
def test_a_title_can_be_shown_and_kept_anywhere(text):
    title = clean_title(text)
    assert title.encode("utf-8") == title.encode("utf-8", "replace")
    assert len(title) <= 120
    assert title == clean_title(title) or len(title) == 120
    assert not any(ord(char) < 32 for char in title)
