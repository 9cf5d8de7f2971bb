"""The promise: a file reads back as it was written, and an edit means what the person saw and changed."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.ids import AgentName, Instant
from holdfast.memory.notes import AgentNotes, MemoryBatch, MemoryEntry, Target
from holdfast.memory.notes_plan import MemoryPlan, normal, plan_batch
from holdfast.memory.notes_safety import reason_to_block
from holdfast.memory.notes_text import (
    Version,
    arranged,
    digest,
    edit_changes,
    nearest,
    parse_entries,
    render_entries,
    version_of,
)
from tests.memory.test_notes_plan import holding

TEXTS = (
    st.text("aé茶§ \n\t\u3000-", max_size=12)
    .map(normal)
    .filter(lambda text: bool(text) and reason_to_block(text) is None)
)
WORDS = st.lists(st.sampled_from("abcdefgh"), max_size=6, unique=True)


def written(memory: AgentNotes) -> Version:
    entries = memory.of(Target.MEMORY)
    return version_of(memory, entries, render_entries([entry.text for entry in entries]).encode())


def after(memory, changes):
    if not changes:
        return memory
    batch = MemoryBatch(agent=AgentName("fern"), subject="", origin="o", changes=changes)
    plan = plan_batch(memory, batch)
    assert isinstance(plan, MemoryPlan), plan
    return plan.memory


def texts(memory):
    return [entry.text for entry in memory.of(Target.MEMORY)]


@given(st.lists(TEXTS))
def test_what_was_rendered_reads_back_the_same(entries):
    assert list(parse_entries(render_entries(entries))) == entries


@given(st.text())
def test_any_file_can_be_read_and_what_was_read_reads_back(text):
    once = parse_entries(text)
    assert parse_entries(render_entries(once)) == once


def test_files_of_hermes_read_as_hermes_reads_them():
    assert parse_entries("one\n§\ntwo\nlines\n§\nthree") == ("one", "two\nlines", "three")
    assert parse_entries("") == parse_entries("\n§\n \n§\n") == ()


@given(WORDS, WORDS)
def test_an_edit_of_what_holds_makes_what_the_file_says_hold(before, edited):
    memory = holding(*before)
    changes = edit_changes(written(memory), edited, memory, Target.MEMORY)
    assert sorted(texts(after(memory, changes))) == sorted(edited)
    if sorted(before) == sorted(edited):
        assert changes == ()


@given(WORDS, WORDS, WORDS)
def test_an_edit_loses_nothing_that_the_agent_wrote_meanwhile(before, edited, meanwhile):
    """The agent's new entries survive any edit of the version before them, and so does all the person wrote."""
    seen = holding(*before)
    fresh = tuple(
        MemoryEntry(seq=n, place=n, target=Target.MEMORY, text=f"agent {text}", at=Instant(0))
        for n, text in enumerate(meanwhile, start=seen.head + 1)
    )
    now = replace(seen, entries=seen.entries + fresh, head=seen.head + len(fresh))
    held = texts(after(now, edit_changes(written(seen), edited, now, Target.MEMORY)))
    assert sorted(held) == sorted([*edited, *(entry.text for entry in fresh)])


def test_the_version_that_shares_most_is_the_one_that_was_edited_and_the_oldest_of_equals():
    older, newer = written(holding("a", "b")), written(holding("a", "b", "c"))
    assert nearest([older, newer], ["a", "b", "x"]) is older
    assert nearest([older, newer], ["a", "c"]) is newer
    assert nearest([], ["a"]) is None


def test_entries_stand_in_the_order_of_the_file_and_new_ones_behind():
    memory = holding("a", "b", "c", "d")
    assert [entry.text for entry in arranged(memory.entries, ["c", "a"], [])] == ["c", "a", "b", "d"]
    rewritten = replace(memory, entries=(replace(memory.entries[0], text="A", seq=5), *memory.entries[1:]))
    order = arranged(rewritten.entries, ["c", "a"], [written(memory)])
    assert [entry.text for entry in order] == ["c", "A", "b", "d"]


def test_a_version_holds_no_words():
    version = written(holding("private words"))
    assert "private" not in repr(version)
    assert version.shown[0].digest == digest("private words")
