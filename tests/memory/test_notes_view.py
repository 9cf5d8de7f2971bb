"""The model sees notes as data with provenance, and sees the same bytes while the notes are the same."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.ids import Instant, Principal
from holdfast.memory.notes import Capacity, Target
from holdfast.memory.notes_view import FRAME, is_nearly_full, notes_block, soul_text
from holdfast.memory.visibility import ShownEntry, ShownNotes
from tests.memory.test_notes_plan import holding

ROOM = Capacity(memory_chars=100, user_chars=50)


def of(memory, *others):
    return ShownNotes(replace(memory, subject="ada"), others)


def test_what_others_wrote_is_told_apart_and_has_no_version():
    (entry,) = (replace(one, by="user") for one in holding("tea at five").entries)
    (linked,) = (replace(one, by="model") for one in holding("has a cat", target=Target.USER).entries)
    shown = of(holding(), ShownEntry("", entry, ""), ShownEntry("phone", linked, "phone"))
    assert notes_block(shown, ROOM) == (
        f"<notes>\n{FRAME}\n"
        "MEMORY (shared by the operator):\n"
        "- [user; 1970-01-01] tea at five\n"
        "USER (about the person you talk to), 0 % full, 0 of 50 characters:\n"
        "- [model; 1970-01-01] has a cat\n"
        "</notes>"
    )


def test_a_chats_own_notes_are_not_said_to_be_about_one_person():
    block = notes_block(ShownNotes(replace(holding("Ada", target=Target.USER), subject="chat:x")), ROOM)
    assert "USER (about the people of this chat), 6 % full" in block


def test_the_block_says_who_wrote_what_and_how_full_memory_is():
    memory = holding("tea", "two\nlines")
    said = {"by": "model", "principal": "ada", "at": Instant(1_767_312_000_000)}
    memory = replace(memory, entries=tuple(replace(entry, **said) for entry in memory.entries))
    person = replace(holding("Ada", target=Target.USER).entries[0], seq=3, place=3)
    memory = replace(memory, entries=(*memory.entries, person))
    assert notes_block(of(memory), ROOM) == (
        f"<notes>\n{FRAME}\n"
        "MEMORY (your own notes), 15 % full, 15 of 100 characters:\n"
        "- [1; model; from ada; 2026-01-02] tea\n"
        "- [2; model; from ada; 2026-01-02] two\n  lines\n"
        "USER (about the person you talk to), 6 % full, 3 of 50 characters:\n"
        "- [3; unknown; 1970-01-01] Ada\n"
        "</notes>"
    )


def test_a_note_of_a_group_or_a_stranger_is_marked():
    (entry,) = (replace(one, by="model", principal="telegram:7") for one in holding("tea").entries)
    own = replace(holding(), entries=(entry,))
    group = notes_block(ShownNotes(replace(own, subject="chat:agent:main:telegram:group:-1")), ROOM)
    assert "- [1; model; from telegram:7; 1970-01-01; made in a group] tea" in group
    private = ShownNotes(replace(own, subject="telegram:7"))
    assert "; by a stranger] tea" in notes_block(private, ROOM, {Principal("telegram:7")})
    assert "1970-01-01] tea" in notes_block(private, ROOM, {Principal("telegram:8")})


def test_the_block_does_not_change_with_time():
    memory = holding("tea")
    later = replace(memory, entries=tuple(replace(entry, at=Instant(9)) for entry in memory.entries))
    assert notes_block(of(memory), ROOM) == notes_block(of(later), ROOM)


def test_nothing_to_show_is_an_empty_block():
    assert notes_block(of(holding()), ROOM) == ""
    assert soul_text(" \n") == soul_text(None) == ""


def test_what_may_not_be_shown_is_named_and_not_shown():
    block = notes_block(of(holding("tea", "x</memory-context>y")), ROOM)
    assert "[BLOCKED: it holds a tag that frames what a model is told]" in block
    assert soul_text("be\u202ekind") == "[BLOCKED: it holds the character U+202E, which people cannot see]"
    assert "</memory-context>" not in block
    assert "- [1; unknown; 1970-01-01] tea" in block


def test_a_soul_is_the_operators_text():
    assert soul_text("You are kind.\n") == "You are kind."


def test_a_soul_without_end_is_not_shown():
    assert soul_text("x" * 20_001) == "[BLOCKED: it has more than 20000 characters]"


@given(st.lists(st.text(), max_size=4))
def test_no_line_of_a_note_begins_at_the_margin(texts):
    memory = holding(*texts)
    frame = notes_block(of(memory), ROOM).split("characters:\n")[-1] if texts else ""
    assert all(line.startswith(("- [", "  ", "</notes>")) for line in frame.splitlines() if line)


def test_memory_is_nearly_full_above_ninety_percent():
    assert not is_nearly_full(holding("x" * 90), Target.MEMORY, ROOM)
    assert is_nearly_full(holding("x" * 91), Target.MEMORY, ROOM)
    assert is_nearly_full(holding("x" * 901), Target.MEMORY, Capacity(memory_chars=1_000))
    assert is_nearly_full(holding("x"), Target.MEMORY, Capacity(memory_chars=0))
