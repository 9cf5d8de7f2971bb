"""The promise: a batch is applied whole or not at all, duplicates are found, and history folds to what holds now."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.ids import AgentName, Instant, Principal
from holdfast.memory.notes import (
    AgentNotes,
    Capacity,
    MemoryBatch,
    MemoryEntry,
    MemoryOperation,
    MemoryUndo,
    MemoryVerb,
    NotApplied,
    NoteChange,
    Target,
    stream_of,
)
from holdfast.memory.notes_plan import CHANGES_MAX, MemoryPlan, PlannedOperation, plan_batch, undo_batch

FERN = AgentName("fern")


def add(text, target=Target.MEMORY, **options):
    return NoteChange(verb=MemoryVerb.ADD, target=target, text=text, **options)


def swap(old, text, target=Target.MEMORY, **options):
    return NoteChange(verb=MemoryVerb.REPLACE, target=target, old=old, text=text, **options)


def remove(old="", target=Target.MEMORY, **options):
    return NoteChange(verb=MemoryVerb.REMOVE, target=target, old=old, **options)


def batch(*changes, **options):
    return MemoryBatch(agent=FERN, subject="", origin="o", changes=changes, **options)


def holding(*texts, target=Target.MEMORY):
    entries = tuple(
        MemoryEntry(seq=n, place=n, target=target, text=text, at=Instant(0)) for n, text in enumerate(texts, start=1)
    )
    return AgentNotes(agent=FERN, subject="", entries=entries, head=len(texts))


def planned(memory, *changes, **options):
    plan = plan_batch(memory, batch(*changes, **options))
    assert isinstance(plan, MemoryPlan), plan
    return plan


def refused(memory, *changes, **options):
    outcome = plan_batch(memory, batch(*changes, **options))
    assert isinstance(outcome, NotApplied), outcome
    assert outcome.memory == memory
    return outcome.code, outcome.position


def texts(memory, target=Target.MEMORY):
    return [entry.text for entry in memory.of(target)]


# --- single changes --------------------------------------------------------------------------------------


def test_an_exact_duplicate_is_found_and_not_added():
    plan = planned(holding("tea"), add("tea"), add("  tea\r\n"), add("coffee"), add("coffee"))
    assert plan.seqs == (0, 0, 2, 0)
    assert [(one.seq, one.text) for one in plan.operations] == [(2, "coffee")]


def test_the_same_text_may_stand_in_both_targets():
    assert planned(holding("tea"), add("tea", Target.USER)).seqs == (2,)


def test_a_replaced_entry_keeps_its_place_in_the_order():
    plan = planned(holding("a", "b", "c"), swap("b", "B"))
    assert texts(plan.memory) == ["a", "B", "c"]
    (operation,) = plan.operations
    assert (operation.kills, operation.old_text, operation.place, operation.seq) == (2, "b", 2, 4)


def test_an_entry_is_named_by_its_whole_text_before_a_part_of_it():
    memory = holding("tea", "green tea")
    assert texts(planned(memory, remove("tea")).memory) == ["green tea"]
    assert texts(planned(memory, remove("green")).memory) == ["tea"]


def test_a_part_that_several_entries_have_is_ambiguous_and_one_that_none_has_is_no_match():
    assert refused(holding("green tea", "black tea"), remove("tea")) == ("ambiguous", 0)
    assert refused(holding("green tea"), add("x"), remove("coffee")) == ("no_match", 1)


def test_a_part_is_looked_for_in_its_own_target_only():
    assert refused(holding("tea"), remove("tea", Target.USER)) == ("no_match", 0)


def test_a_version_names_an_entry_exactly_and_is_stale_when_the_entry_changed():
    memory = holding("green tea", "black tea")
    assert texts(planned(memory, remove(version=2)).memory) == ["green tea"]
    assert refused(memory, remove(version=7)) == ("stale", 0)
    assert refused(memory, swap("", "oolong", version=1), remove(version=1)) == ("stale", 1)


def test_replacing_by_a_text_that_is_there_already_only_removes_the_old_one():
    plan = planned(holding("tea", "coffee"), swap("coffee", "tea"))
    assert texts(plan.memory) == ["tea"]
    assert [(one.verb, one.text, one.old_text) for one in plan.operations] == [(MemoryVerb.REMOVE, "", "coffee")]


def test_replacing_an_entry_by_itself_changes_nothing():
    assert planned(holding("tea"), swap("tea", "tea")).seqs == (0,)


@pytest.mark.parametrize("change", [add(" \n "), swap("tea", ""), remove(""), swap("", "x")])
def test_an_empty_text_or_an_empty_part_is_said_to_be_empty(change):
    assert refused(holding("tea"), change) == ("empty", 0)


@pytest.mark.parametrize("count", [0, CHANGES_MAX + 1])
def test_a_batch_without_changes_or_with_too_many_is_refused(count):
    assert refused(holding(), *[add("x")] * count)[0] == "empty"


def test_a_batch_may_have_as_many_changes_as_it_says():
    plan = plan_batch(holding(), batch(*[add("x")] * CHANGES_MAX))
    assert isinstance(plan, MemoryPlan)


def test_a_blocked_text_refuses_the_whole_batch():
    assert refused(holding(), add("fine"), add("\U000e0041")) == ("blocked", 1)


# --- capacity ------------------------------------------------------------------------------------------

TEN = Capacity(memory_chars=10, user_chars=10)


def test_capacity_counts_the_delimiters():
    planned(holding(), add("1234567890"), capacity=TEN)
    planned(holding(), add("123"), add("4567"), capacity=TEN)  # 3 + 3 + 4
    assert refused(holding(), add("123"), add("45678"), capacity=TEN) == ("over_capacity", 1)


def test_capacity_is_judged_by_what_the_whole_batch_leaves_behind():
    memory = holding("1234567890")
    assert texts(planned(memory, add("abc"), remove("1234567890"), capacity=TEN).memory) == ["abc"]


def test_a_full_memory_takes_what_makes_it_smaller():
    memory = holding("12345678901234567890")
    assert texts(planned(memory, swap("123", "123456789012345"), capacity=TEN).memory) == ["123456789012345"]
    assert refused(memory, add("x"), capacity=TEN)[0] == "over_capacity"


def test_one_target_full_does_not_keep_the_other_from_growing():
    assert planned(holding("12345678901234567890"), add("x", Target.USER), capacity=TEN).seqs == (2,)


def test_a_reason_holds_numbers_and_never_words():
    outcome = plan_batch(holding("private"), batch(add("secretsecret"), capacity=TEN))
    assert isinstance(outcome, NotApplied)
    assert outcome.reason == "memory would have 22 characters of 10; it has 7 now"


# --- stale history ---------------------------------------------------------------------------------------


def test_a_batch_from_stale_history_only_adds():
    for change in (swap("tea", "coffee"), remove("tea"), remove(version=1)):
        assert refused(holding("tea"), change, add_only=True) == ("stale", 0)
    assert planned(holding("tea"), add("coffee"), add_only=True).seqs == (2,)


def test_stale_history_never_brings_back_what_was_removed_since():
    gone = {(Target.MEMORY, "likes tea")}
    plan = plan_batch(holding(), batch(add("likes tea"), add("new"), add_only=True), gone=gone)
    assert isinstance(plan, MemoryPlan)
    assert plan.seqs == (0, 1)
    fresh = plan_batch(holding(), batch(add("likes tea")), gone=gone)
    assert isinstance(fresh, MemoryPlan)
    assert fresh.seqs == (1,)


# --- properties ------------------------------------------------------------------------------------------

WORDS = st.sampled_from(["a", "b", "ab", "abc", "tea", "green tea", "", "\u202e"])
CHANGES = st.builds(
    NoteChange,
    verb=st.sampled_from(MemoryVerb),
    target=st.sampled_from(Target),
    text=WORDS,
    old=WORDS,
    version=st.none() | st.integers(1, 12),
    place=st.none() | st.integers(-1, 12),
)
BATCHES = st.lists(
    st.builds(
        MemoryBatch,
        agent=st.just(FERN),
        subject=st.just(""),
        origin=st.just("o"),
        changes=st.lists(CHANGES, max_size=4).map(tuple),
        capacity=st.just(Capacity(memory_chars=14, user_chars=9)),
        add_only=st.booleans(),
    ),
    max_size=12,
)


def fold(operations):
    """What holds after a history, told a second time and more simply: rows that live, in the order of places."""
    live: dict[int, tuple[int, Target, str]] = {}
    for one in operations:
        live.pop(one.kills, None)
        if one.verb is not MemoryVerb.REMOVE:
            live[one.seq] = (one.place, one.target, one.text)
    return [(target, text, seq) for seq, (place, target, text) in sorted(live.items(), key=lambda item: item[1][0])]


@given(BATCHES)
def test_history_folds_to_what_holds_and_a_refused_batch_leaves_no_trace(batches):
    memory = AgentNotes(agent=FERN, subject="")
    operations: list[PlannedOperation] = []
    for one in batches:
        plan = plan_batch(memory, one)
        if isinstance(plan, NotApplied):
            assert plan.memory == memory
            continue
        assert len(plan.seqs) == len(one.changes)
        memory = plan.memory
        operations.extend(plan.operations)
        assert [operation.seq for operation in operations] == list(range(1, memory.head + 1))
        assert [(entry.target, entry.text, entry.seq) for entry in memory.entries] == fold(operations)
        assert len({(entry.target, entry.text) for entry in memory.entries}) == len(memory.entries)
        assert len({entry.place for entry in memory.entries}) == len(memory.entries)


@given(BATCHES)
def test_a_batch_of_many_is_the_same_as_its_changes_one_by_one_where_all_of_them_fit(batches):
    roomy = [replace(one, capacity=Capacity()) for one in batches]
    memory = AgentNotes(agent=FERN, subject="")
    for one in roomy:
        together = plan_batch(memory, one)
        if isinstance(together, NotApplied):
            continue
        apart = memory
        for change in one.changes:
            step = plan_batch(apart, replace(one, changes=(change,)))
            assert isinstance(step, MemoryPlan)
            apart = step.memory
        assert apart == together.memory
        memory = together.memory


# --- going back ------------------------------------------------------------------------------------------


def operation(plan, seq):
    one = next(one for one in plan.operations if one.seq == seq)
    return MemoryOperation(
        seq=one.seq,
        target=one.target,
        verb=one.verb,
        text=one.text,
        old_text=one.old_text,
        place=one.place,
        origin="o",
        by="model",
        principal=Principal(""),
        live=True,
        at=Instant(0),
    )


@pytest.mark.parametrize("change", [add("new"), swap("b", "B"), remove("b")])
def test_undoing_any_operation_restores_words_and_order(change):
    before = holding("a", "b", "c")
    plan = planned(before, change)
    undo = undo_batch(MemoryUndo(agent=FERN, subject="", seq=4), operation(plan, 4))
    restored = plan_batch(plan.memory, undo)
    assert isinstance(restored, MemoryPlan)
    assert texts(restored.memory) == ["a", "b", "c"]


def test_undoing_what_was_changed_again_is_stale():
    plan = planned(holding(), add("a"), swap("a", "b"))
    undo = undo_batch(MemoryUndo(agent=FERN, subject="", seq=1), operation(plan, 1))
    outcome = plan_batch(plan.memory, undo)
    assert isinstance(outcome, NotApplied)
    assert outcome.code == "stale"


# --- names -------------------------------------------------------------------------------------------------


@given(st.tuples(st.text(max_size=8), st.text(max_size=8)), st.tuples(st.text(max_size=8), st.text(max_size=8)))
def test_no_two_memories_share_a_stream(one, other):
    def escaped(pair):
        agent, subject = (part.encode("utf-8", "replace").decode() for part in pair)
        return agent, subject

    one, other = escaped(one), escaped(other)
    assert (stream_of(*one) == stream_of(*other)) == (one == other)


def test_the_operator_widens_a_note_that_an_earlier_release_kept_for_one_person():
    """Adding the same text says that all may see it; an equal note of the operator's own is found and left alone."""
    held = holding("has a cat")
    narrow = replace(held, entries=tuple(replace(e, by="model", principal=Principal("ada")) for e in held.entries))
    wish = MemoryBatch(agent=held.agent, subject="", origin="o", changes=(add("has a cat"),), by="user")
    plan = plan_batch(narrow, wish)
    assert isinstance(plan, MemoryPlan)
    assert [(op.verb, op.text, op.kills) for op in plan.operations] == [(MemoryVerb.REPLACE, "has a cat", 1)]
    again = plan_batch(held, wish)
    assert isinstance(again, MemoryPlan)
    assert again.operations == ()
