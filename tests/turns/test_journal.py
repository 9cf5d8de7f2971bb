"""What is written in a journal is read back unchanged, by this release and by every later one."""

import json
from typing import ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.errors import InvariantBroken
from holdfast.turns import journal
from holdfast.turns.journal import (
    BODIES,
    UPCASTS,
    AssistantSaid,
    Body,
    Entry,
    Forgotten,
    Noticed,
    Observed,
    Recalled,
    SpokenBody,
    ToolCall,
    ToolReturned,
    ToolStarted,
    Undone,
    UserSaid,
    body_tokens,
    decode_body,
    effective,
    encode_body,
    estimate_tokens,
    is_storable,
    is_undone,
    storable,
)
from tests.support.journals import bodies, exchange, journals, line

# --- bodies ------------------------------------------------------------------------------------------------------


@given(bodies)
def test_a_body_is_read_back_as_it_was_written(body):
    assert decode_body(body.kind, encode_body(body)) == body


@pytest.mark.parametrize("text", ["", "\0", "a\0b", "😀", "\u2028", "\U0010ffff", '"\\', "x" * 2_000_000, "\x1b[0m"])
def test_any_text_is_kept_byte_for_byte(text):
    body = UserSaid(text=text, principal="ada")
    assert decode_body("user", encode_body(body)) == body


def test_the_kinds_and_field_names_are_stored_names():
    """A change here needs an upcast: journals of old releases are read with these names."""
    stored = {kind: body.__struct_fields__ for kind, body in BODIES.items()}
    assert stored == {
        "user": ("text", "principal", "message", "event_id", "name"),
        "assistant": ("text", "calls", "model"),
        "tool_started": ("call", "name"),
        "tool": ("call", "name", "text", "outcome"),
        "observed": ("text", "principal", "message", "event_id", "name"),
        "recall": ("text", "session", "epoch", "head_seq", "principal", "sources"),
        "notice": ("text",),
        "undo": ("first_turn", "last_turn", "from_seq", "by"),
        "forgotten": (),
    }


def test_every_body_has_a_kind_of_its_own():
    shapes = {*Body.__subclasses__(), *SpokenBody.__subclasses__()} - {SpokenBody}
    assert {shape.kind for shape in shapes if shape.__module__ == journal.__name__} == set(BODIES)


def test_defaults_are_not_stored():
    assert encode_body(UserSaid(text="hi", principal="ada")) == b'{"text":"hi","principal":"ada"}'


@pytest.mark.parametrize("kind", [*BODIES, "unheard-of"])
def test_a_blanked_body_is_read_as_forgotten_whatever_it_was(kind):
    assert decode_body(kind, b"") == Forgotten()


@pytest.mark.parametrize("raw", [b"{", b"[]", b"null", b'{"text":1}', b"\xff", b"{}", b'{"principal":"ada"}'])
def test_a_damaged_body_is_our_error_and_not_a_guess(raw):
    with pytest.raises(InvariantBroken, match="a user entry cannot be read"):
        decode_body("user", raw)


def test_an_unknown_kind_is_our_error():
    with pytest.raises(InvariantBroken, match="unknown kind 'unheard-of'"):
        decode_body("unheard-of", b"{}")


# --- upcasts -----------------------------------------------------------------------------------------------------


class NoticedLater(Body, frozen=True, omit_defaults=True):
    """A `notice` as a later release might have it: the text split in two, then a severity added."""

    kind: ClassVar[str] = "notice"
    version: ClassVar[int] = 3
    head: str
    rest: str = ""
    severity: int = 0


@pytest.fixture
def later_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "BODIES", {**BODIES, "notice": NoticedLater})
    monkeypatch.setitem(UPCASTS, ("notice", 1), lambda old: {"head": old["text"].split(" ", 1)[0], "all": old["text"]})
    monkeypatch.setitem(UPCASTS, ("notice", 2), lambda old: {"head": old["head"], "rest": old["all"], "severity": 1})


def decoded(raw: bytes) -> Body:
    return decode_body("notice", raw)


@pytest.mark.usefixtures("later_release")
def test_a_body_of_the_first_release_is_upcast_version_by_version():
    old = encode_body(Noticed(text="one two"))
    assert decoded(old) == NoticedLater(head="one", rest="one two", severity=1)


@pytest.mark.usefixtures("later_release")
def test_a_body_is_upcast_from_where_it_stands():
    middle = json.dumps({"v": 2, "head": "one", "all": "one two"}).encode()
    assert decoded(middle) == NoticedLater(head="one", rest="one two", severity=1)


@pytest.mark.usefixtures("later_release")
def test_a_body_of_a_later_version_carries_it_and_needs_no_upcast():
    body = NoticedLater(head="one", rest="two", severity=7)
    assert msgspec.json.decode(encode_body(body))["v"] == 3
    assert decoded(encode_body(body)) == body


@pytest.mark.usefixtures("later_release")
def test_other_kinds_are_read_as_before():
    assert decode_body("user", encode_body(UserSaid(text="a", principal="b"))) == UserSaid(text="a", principal="b")


def test_a_body_of_a_newer_release_is_refused_and_not_half_read():
    with pytest.raises(InvariantBroken, match="its version is 2; this release knows 1 to 1"):
        decode_body("notice", b'{"v":2,"text":"what does this mean by then?"}')


@pytest.mark.usefixtures("later_release")
@pytest.mark.parametrize("raw", [b"[]", b"{", b"null", b'{"v":"two"}', b'{"v":4,"head":"x"}', b'{"v":0}'])
def test_a_damaged_body_of_a_later_version_is_our_error_too(raw):
    with pytest.raises(InvariantBroken, match="a notice entry cannot be read"):
        decode_body("notice", raw)


# --- what is undone ----------------------------------------------------------------------------------------------


def counts(entry: Entry, entries: tuple[Entry, ...]) -> bool:
    """The rule as one would tell it: an entry counts unless it is an undo or a later undo names its turn."""
    if isinstance(entry.body, Undone):
        return False
    for later in entries[entry.seq :]:
        body = later.body
        if isinstance(body, Undone) and entry.turn in range(body.first_turn, body.last_turn + 1):
            return False
    return True


@given(journals(undos=True))
def test_what_still_counts_is_what_no_later_undo_names(entries):
    assert effective(entries) == [entry for entry in entries if counts(entry, entries)]


@given(journals(undos=True))
def test_an_undo_never_takes_back_what_comes_after_it_or_belongs_to_no_turn(entries):
    undos = [entry for entry in entries if isinstance(entry.body, Undone)]
    for entry in entries:
        if not any(undo.seq > entry.seq for undo in undos) or entry.turn == 0:
            assert not is_undone(entry, undos)


def test_turns_after_an_undo_count_though_they_follow_undone_ones():
    entries = line(*exchange(1), *exchange(2), (0, Undone(first_turn=2, last_turn=2, from_seq=3)), *exchange(3))
    assert [entry.turn for entry in effective(entries)] == [1, 1, 3, 3]


# --- tokens ------------------------------------------------------------------------------------------------------


@given(st.text(), st.text())
def test_more_text_never_costs_fewer_tokens(text, more):
    assert estimate_tokens(text) <= estimate_tokens(text + more)
    assert estimate_tokens(text + more) <= estimate_tokens(text) + estimate_tokens(more)


def test_a_token_is_about_four_bytes():
    assert [estimate_tokens("x" * count) for count in (0, 1, 4, 5, 4_000)] == [4, 5, 5, 6, 1_004]
    assert estimate_tokens("😀") == 5
    assert estimate_tokens("\ud800") == 5


@given(bodies)
def test_only_what_is_rendered_costs_tokens(body):
    free = isinstance(body, Recalled | ToolStarted | Undone | Forgotten)
    assert (body_tokens(body) == 0) == free


def test_a_tool_call_costs_its_name_and_arguments():
    call = ToolCall(id="c", name="look_up", arguments='{"what": "cats"}')
    assert body_tokens(AssistantSaid(text="", calls=(call,))) == estimate_tokens('look_up{"what": "cats"}')
    assert body_tokens(Observed(text="abcd", principal="a")) == body_tokens(ToolReturned(call="", name="", text="abcd"))


# --- words of others ---------------------------------------------------------------------------------------------


@given(st.text(st.characters()))
def test_every_text_can_be_made_storable_and_a_storable_one_stays(text):
    made = storable(text)
    assert is_storable(made)
    assert encode_body(Noticed(text=made))
    assert (made == text) == is_storable(text)


def test_what_is_not_text_is_not_storable():
    assert not is_storable(None)
    assert not is_storable(b"bytes")
    assert not is_storable("\ud800")


@given(st.builds(Entry, seq=st.just(1), turn=st.just(1), body=bodies, tokens=st.just(1), at=st.just(1)))
def test_an_entry_has_the_kind_of_its_body_and_its_text_if_any(entry):
    assert entry.kind in BODIES
    assert entry.text == getattr(entry.body, "text", "")
