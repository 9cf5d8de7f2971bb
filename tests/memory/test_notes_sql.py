"""The promise: operations on an agent's memory are kept for ever, each origin once, a batch whole or not at all."""

import asyncio
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.kernel.errors import InvalidInput, InvalidName, StoreUnavailable
from holdfast.kernel.ids import AgentName, Principal, Provider
from holdfast.memory.delivery import DeliveryPolicy
from holdfast.memory.notes import (
    Applied,
    Capacity,
    MemoryBatch,
    MemoryUndo,
    MemoryVerb,
    NotApplied,
    Target,
    stream_of,
)
from holdfast.memory.notes_sql import (
    apply_memory,
    list_memory_operations,
    list_memory_subjects,
    memory_notes,
    read_memory,
    undo_memory,
)
from holdfast.store.script import Call, rows
from tests.memory.test_notes_plan import CHANGES, add, remove, swap
from tests.store.test_atomic import STATEMENTS_MAX, Cutting

FERN = AgentName("fern")
EXAMPLES = count()
TABLES = ("memory", "memory_batch", "memory_op", "cursor", "lane", "delivery")
MIRRORED = (
    DeliveryPolicy(provider=Provider("honcho"), memory=True),
    DeliveryPolicy(provider=Provider("files"), memory=True, turns=False),
    DeliveryPolicy(provider=Provider("turns-only")),
)
DELIVERIES = "select provider, place, from_seq, through_seq, op, principal, state from delivery order by n"


def batch(origin, *changes, subject="", **options):
    return MemoryBatch(agent=FERN, subject=subject, origin=origin, changes=changes, **options)


async def applied(db, origin, *changes, **options):
    outcome = await db.write(apply_memory(batch(origin, *changes, **options)))
    assert isinstance(outcome, Applied), outcome
    return outcome.seqs


async def texts(db, target=Target.MEMORY, subject=""):
    return [entry.text for entry in (await db.read(read_memory(FERN, subject))).of(target)]


async def undo(db, seq, **options):
    return await db.write(undo_memory(MemoryUndo(agent=FERN, subject="", seq=seq, **options)))


# --- what holds ----------------------------------------------------------------------------------------


async def test_what_was_added_replaced_and_removed_is_what_holds(db):
    assert await applied(db, "a", add("tea"), add("coffee"), add("Ada", Target.USER)) == (1, 2, 3)
    assert await applied(db, "b", swap("tea", "green tea"), remove("coffee"), add("milk")) == (4, 5, 6)
    memory = await db.read(read_memory(FERN))
    assert [(entry.seq, entry.place, entry.text) for entry in memory.of(Target.MEMORY)] == [
        (4, 1, "green tea"),
        (6, 6, "milk"),
    ]
    assert memory.head == 6
    assert [entry.text for entry in memory.of(Target.USER)] == ["Ada"]


async def test_an_entry_says_who_wrote_it_when_and_why(db, clock):
    clock.advance(5_000)
    await applied(db, "tool:s:1:c", add("tea"), by="model", principal=Principal("ada"))
    (entry,) = (await db.read(read_memory(FERN))).entries
    assert (entry.by, entry.origin, entry.at) == ("model", "tool:s:1:c", clock.now())
    (operation,) = await db.read(list_memory_operations(FERN))
    assert (operation.principal, operation.live) == ("ada", True)


async def test_any_bytes_that_people_write_come_back_as_they_were(db):
    text = "Ümläut, 茶, \U0001f468\u200d\U0001f469\u200d\U0001f467, 'quoted' :name $1 /*lock*/ --"
    await applied(db, "a", add(text))
    assert await texts(db) == [text]


async def test_subjects_and_agents_are_strangers_to_each_other(db):
    await applied(db, "a", add("tea"))
    await applied(db, "a", add("coffee"), subject="ada")
    await applied(db, "a", add("milk"), subject="a:b")
    await db.write(apply_memory(replace(batch("a", add("beer")), agent=AgentName("moss"))))
    assert await texts(db) == ["tea"]
    assert await texts(db, subject="ada") == ["coffee"]
    assert await db.read(list_memory_subjects(FERN)) == ["", "a:b", "ada"]
    assert await db.read(list_memory_subjects(FERN, after="", limit=1)) == ["a:b"]
    assert (await db.read(read_memory(AgentName("nobody")))).head == 0


# --- whole or not at all -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ((add("new"), remove("no such thing")), "no_match"),
        ((add("new"), remove("tea")), "ambiguous"),
        ((add("new"), remove(version=9)), "stale"),
        ((add("new"), add("\u202eevil")), "blocked"),
        ((add("new"), add("x" * 3_000)), "over_capacity"),
        ((add("new"), add(" ")), "empty"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_one_change_that_cannot_be_made_leaves_the_others_unmade(driver, changes, code):
    await applied(driver.db, "a", add("green tea"), add("black tea"))
    before = await everything(driver)
    outcome = await driver.db.write(apply_memory(batch("b", *changes, policies=MIRRORED)))
    assert isinstance(outcome, NotApplied)
    assert (outcome.code, outcome.position) == (code, 1)
    assert [entry.text for entry in outcome.memory.entries] == ["green tea", "black tea"]
    assert await everything(driver) == before


async def test_a_refused_batch_may_be_repeated_once_there_is_room(db):
    small = Capacity(memory_chars=10)
    await applied(db, "a", add("1234567890"))
    wish = batch("b", add("abc"), capacity=small)
    assert isinstance(await db.write(apply_memory(wish)), NotApplied)
    await applied(db, "c", remove("123"))
    assert await db.write(apply_memory(wish)) == Applied((3,))


async def test_a_batch_cut_off_anywhere_leaves_no_trace(driver, database):
    await applied(driver.db, "a", add("tea"), add("coffee"))
    cutting = Cutting(database)
    wish = batch("b", swap("tea", "green tea"), remove("coffee"), add("milk"), policies=MIRRORED)
    before = await everything(driver)
    for at in range(STATEMENTS_MAX):
        cutting.at = at
        try:
            outcome = await cutting.write(apply_memory(wish))
        except StoreUnavailable:
            assert await everything(driver) == before, f"cut off before statement {at}"
        else:
            break
    assert outcome == Applied((3, 4, 5))
    assert at > 5


async def everything(driver):
    return await driver.db.read(Call("look", _everything))


def _everything():
    found = {}
    for table in TABLES:
        found[table] = sorted(map(str, (yield from rows(f"select * from {table}"))))
    return found


# --- each origin once ------------------------------------------------------------------------------------


async def test_a_repeated_origin_gets_the_first_result_and_changes_nothing(driver):
    db = driver.db
    wish = batch("a", add("tea"), add("tea"), add("milk"), policies=MIRRORED)
    assert await db.write(apply_memory(wish)) == Applied((1, 0, 2))
    before = await everything(driver)
    assert await db.write(apply_memory(wish)) == Applied((1, 0, 2), repeated=True)
    assert await everything(driver) == before


async def test_a_late_repeat_does_not_bring_back_what_was_removed_since(db):
    await applied(db, "a", add("tea"))
    assert await applied(db, "b", add("tea")) == (0,)
    await applied(db, "c", remove("tea"))
    for origin, seqs in (("a", (1,)), ("b", (0,))):
        assert await db.write(apply_memory(batch(origin, add("tea")))) == Applied(seqs, repeated=True)
    assert await texts(db) == []


async def test_the_same_origin_from_many_callers_at_once_is_applied_once(db):
    wish = batch("a", add("tea"), add("milk"))
    outcomes = await asyncio.gather(*(db.write(apply_memory(wish)) for _ in range(8)))
    assert {outcome.seqs for outcome in outcomes} == {(1, 2)}
    assert [outcome.repeated for outcome in outcomes].count(False) == 1
    assert await texts(db) == ["tea", "milk"]


async def test_fifty_callers_at_once_all_land_in_one_order_without_gaps(db):
    wishes = [batch(f"o{n}", add(f"note {n}"), policies=MIRRORED) for n in range(50)]
    outcomes = await asyncio.gather(*(db.write(apply_memory(wish)) for wish in wishes))
    assert sorted(seq for outcome in outcomes for seq in outcome.seqs) == list(range(1, 51))
    assert sorted(await texts(db)) == sorted(f"note {n}" for n in range(50))


async def test_of_two_who_replace_the_same_version_one_is_told_that_it_is_stale(db):
    await applied(db, "a", add("tea"))
    wishes = [batch(f"o{n}", swap("", f"tea {n}", version=1)) for n in range(2)]
    outcomes = await asyncio.gather(*(db.write(apply_memory(wish)) for wish in wishes))
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Applied", "NotApplied"]
    assert [outcome.code for outcome in outcomes if isinstance(outcome, NotApplied)] == ["stale"]


async def test_stale_history_adds_only_and_never_brings_back_what_was_removed(db):
    await applied(db, "a", add("likes tea"), add("likes milk"))
    await applied(db, "b", remove("likes tea"), swap("likes milk", "likes oat milk"))
    wish = batch("c", add("likes tea"), add("likes milk"), add("has a dog"), add_only=True)
    assert await db.write(apply_memory(wish)) == Applied((0, 0, 5))
    outcome = await db.write(apply_memory(batch("d", remove("has a dog"), add_only=True)))
    assert isinstance(outcome, NotApplied)
    assert outcome.code == "stale"
    assert await texts(db) == ["likes oat milk", "has a dog"]


# --- mirrored to providers -----------------------------------------------------------------------------------


async def test_every_operation_is_mirrored_to_each_provider_that_takes_them(driver):
    who = Principal("ada")
    await applied(driver.db, "a", add("tea"), add("tea"), add("milk"), policies=MIRRORED, principal=who)
    found = await driver.rows(DELIVERIES)
    assert {(provider, seq) for provider, _, seq, *_ in found} == {
        ("honcho", 1),
        ("honcho", 2),
        ("files", 1),
        ("files", 2),
    }
    assert {row[4:] for row in found} == {("remember", "ada", "scheduled")}


async def test_a_duplicate_is_not_mirrored_again(driver):
    await applied(driver.db, "a", add("tea"), policies=MIRRORED)
    before = await driver.rows(DELIVERIES)
    await applied(driver.db, "b", add("tea"), policies=MIRRORED)
    assert await driver.rows(DELIVERIES) == before


async def test_a_provider_that_is_added_later_is_told_of_what_happens_from_then_on(driver):
    await applied(driver.db, "a", add("tea"))
    await applied(driver.db, "b", add("tea"), policies=MIRRORED)
    assert await driver.rows(DELIVERIES) == []
    await applied(driver.db, "c", add("milk"), policies=MIRRORED)
    assert {(provider, seq) for provider, _, seq, *_ in await driver.rows(DELIVERIES)} == {("honcho", 2), ("files", 2)}


async def test_a_note_tells_what_holds_now_and_what_held_before(driver):
    await applied(driver.db, "a", add("tea"), swap("tea", "coffee"), remove("coffee"), subject="ada")
    notes = await driver.db.read(Call("notes", lambda: memory_notes(stream_of(FERN, "ada"), 1, 9)))
    assert [(note.seq, note.op, note.text, note.old_text, note.subject) for note in notes] == [
        (1, "add", "tea", "", "ada"),
        (2, "replace", "coffee", "tea", "ada"),
        (3, "remove", "", "coffee", "ada"),
    ]
    assert [
        note.seq for note in await driver.db.read(Call("n", lambda: memory_notes(stream_of(FERN, "ada"), 2, 2)))
    ] == [2]


# --- history and undo ----------------------------------------------------------------------------------------


async def test_history_is_kept_in_pages(db):
    await applied(db, "a", add("tea"), swap("tea", "coffee"), remove("coffee"))
    whole = await db.read(list_memory_operations(FERN))
    assert [(one.seq, one.verb.value, one.text, one.old_text, one.live) for one in whole] == [
        (1, "add", "tea", "", False),
        (2, "replace", "coffee", "tea", False),
        (3, "remove", "", "coffee", False),
    ]
    assert [one.seq for one in await db.read(list_memory_operations(FERN, after=1, limit=1))] == [2]


async def test_every_operation_can_be_undone_and_the_undoing_too(db):
    await applied(db, "a", add("tea"), add("coffee"), add("milk"))
    await applied(db, "b", remove("coffee"), swap("milk", "oat milk"))
    assert await undo(db, 4) == Applied((6,))
    assert await undo(db, 5) == Applied((7,))
    assert await texts(db) == ["tea", "coffee", "milk"]
    assert await undo(db, 7) == Applied((8,))
    assert await texts(db) == ["tea", "coffee", "oat milk"]
    assert await undo(db, 1) == Applied((9,))
    assert await texts(db) == ["coffee", "oat milk"]


async def test_an_operation_is_undone_once(driver):
    await applied(driver.db, "a", add("tea"), policies=MIRRORED)
    assert await undo(driver.db, 1, policies=MIRRORED) == Applied((2,))
    before = await everything(driver)
    assert await undo(driver.db, 1, policies=MIRRORED) == Applied((2,), repeated=True)
    assert await everything(driver) == before
    assert len(await driver.rows(DELIVERIES)) == 4


async def test_what_was_changed_again_or_never_happened_is_not_undone(db):
    await applied(db, "a", add("tea"), swap("tea", "coffee"))
    codes = [(await undo(db, seq)).code for seq in (1, 9, 0, -1)]
    assert codes == ["stale", "no_match", "no_match", "no_match"]
    assert await texts(db) == ["coffee"]


# --- names that cannot be ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"origin": ""},
        {"origin": "x" * 513},
        {"origin": "a\0b"},
        {"subject": "a\nb"},
        {"subject": "\ud800"},
        {"by": ""},
        {"principal": Principal("\0")},
        {"agent": AgentName("../x")},
    ],
    ids=str,
)
async def test_a_name_that_cannot_be_kept_is_refused_with_a_sentence(driver, wrong):
    with pytest.raises((InvalidName, InvalidInput)):
        await driver.db.write(apply_memory(replace(batch("a", add("tea")), **wrong)))
    assert await driver.rows("select * from memory") == []


# --- the store folds as the rules do -------------------------------------------------------------------------


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories=st.lists(st.lists(CHANGES, min_size=1, max_size=4), min_size=1, max_size=6))
async def test_live_rows_equal_the_fold_of_all_operations_and_repeats_change_nothing(db, histories):
    # One database serves every example; the subject keeps them apart.
    subject = f"example {next(EXAMPLES)}"
    small = Capacity(memory_chars=14, user_chars=9)
    for n, changes in enumerate(histories):
        wish = batch(f"o{n}", *changes, subject=subject, capacity=small)
        before = await db.read(read_memory(FERN, subject))
        outcome = await db.write(apply_memory(wish))
        after = await db.read(read_memory(FERN, subject))
        if isinstance(outcome, NotApplied):
            assert (outcome.memory, after) == (before, before)
            continue
        assert await db.write(apply_memory(wish)) == replace(outcome, repeated=True)
        assert await db.read(read_memory(FERN, subject)) == after
        assert [(e.target, e.text) for e in after.entries] == folded(
            await db.read(list_memory_operations(FERN, subject))
        )


def folded(operations):
    """Told a second time and more simply than the rules do: each place holds the last text written there."""
    held: dict[int, tuple[Target, str]] = {}
    for one in operations:
        if one.verb is MemoryVerb.REMOVE:
            assert held.pop(one.place) == (one.target, one.old_text)
        else:
            assert held.get(one.place, (one.target, "")) == (one.target, one.old_text)
            held[one.place] = (one.target, one.text)
    return [held[place] for place in sorted(held)]
