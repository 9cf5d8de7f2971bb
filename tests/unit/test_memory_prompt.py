"""The promise: the model sees memory as data with provenance, the same bytes while memory is the same."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.ids import Instant
from holdfast.core.memory import Capacity, Target
from holdfast.core.memory_prompt import FRAME, is_nearly_full, memory_block
from holdfast.core.visibility import ShownEntry, ShownNotes
from tests.unit.test_memory_rules import holding

ROOM = Capacity(memory_chars=100, user_chars=50)


def of(memory, *others):
    return ShownNotes(replace(memory, subject="ada"), others)


def test_what_others_wrote_is_told_apart_and_has_no_version():
    (entry,) = (replace(one, by="user") for one in holding("tea at five").entries)
    (linked,) = (replace(one, by="model") for one in holding("has a cat", target=Target.USER).entries)
    shown = of(holding(), ShownEntry("", entry, ""), ShownEntry("phone", linked, "phone"))
    assert memory_block(shown, ROOM) == (
        f"{FRAME}\n\n"
        "MEMORY (shared by the operator):\n"
        "- [user] tea at five\n\n"
        "USER (about the person you talk to), 0 % full, 0 of 50 characters:\n"
        "- [model] has a cat"
    )


def test_a_chats_own_notes_are_not_said_to_be_about_one_person():
    block = memory_block(ShownNotes(replace(holding("Ada", target=Target.USER), subject="chat:x")), ROOM)
    assert "USER (about the people of this chat), 6 % full" in block


def test_the_block_says_who_wrote_what_and_how_full_memory_is():
    memory = holding("tea", "two\nlines")
    memory = replace(memory, entries=tuple(replace(entry, by="model") for entry in memory.entries))
    person = replace(holding("Ada", target=Target.USER).entries[0], seq=3, place=3)
    memory = replace(memory, entries=(*memory.entries, person))
    block = memory_block(of(memory), ROOM, soul="You are kind.\n")
    assert block == (
        f"You are kind.\n\n{FRAME}\n\n"
        "MEMORY (your own notes), 15 % full, 15 of 100 characters:\n"
        "- [1, model] tea\n"
        "- [2, model] two\n  lines\n\n"
        "USER (about the person you talk to), 6 % full, 3 of 50 characters:\n"
        "- [3, unknown] Ada"
    )


def test_the_block_does_not_change_with_time():
    memory = holding("tea")
    later = replace(memory, entries=tuple(replace(entry, at=Instant(9)) for entry in memory.entries))
    assert memory_block(of(memory), ROOM) == memory_block(of(later), ROOM)


def test_nothing_to_show_is_an_empty_block():
    assert memory_block(of(holding()), ROOM, soul=" \n") == ""


def test_what_may_not_be_shown_is_named_and_not_shown():
    block = memory_block(of(holding("tea", "x</memory-context>y")), ROOM, soul="be\u202ekind")
    assert "[BLOCKED: it holds a tag that frames what a model is told]" in block
    assert block.startswith("[BLOCKED: it holds the character U+202E, which people cannot see]")
    assert "</memory-context>" not in block
    assert "- [1, unknown] tea" in block


def test_a_blank_soul_leaves_no_gap_before_the_notes():
    notes = of(holding("tea"))
    assert memory_block(notes, ROOM, soul=" \n") == memory_block(notes, ROOM)


def test_a_soul_without_end_is_not_shown():
    assert memory_block(of(holding()), ROOM, soul="x" * 20_001) == "[BLOCKED: it has more than 20000 characters]"


@given(st.lists(st.text(), max_size=4))
def test_no_line_of_a_note_begins_at_the_margin(texts):
    memory = holding(*texts)
    frame = memory_block(of(memory), ROOM).split("characters:\n")[-1] if texts else ""
    assert all(line.startswith(("- [", "  ")) for line in frame.split("\n") if line)


def test_memory_is_nearly_full_above_ninety_percent():
    assert not is_nearly_full(holding("x" * 90), Target.MEMORY, ROOM)
    assert is_nearly_full(holding("x" * 91), Target.MEMORY, ROOM)
    assert is_nearly_full(holding("x"), Target.MEMORY, Capacity(memory_chars=0))
