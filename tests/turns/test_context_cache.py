"""The promise: contexts are held in RAM up to a bound that no number or length of conversations can pass."""

from typing import Any, cast

from holdfast.kernel.ids import AgentName, Instant, SessionId
from holdfast.turns import context_cache
from holdfast.turns.context import Context
from holdfast.turns.context_cache import ContextCache
from holdfast.turns.journal import Entry, Noticed


def context(name, entries):
    said = tuple(Entry(seq=n, turn=1, body=Noticed(text="x"), tokens=1, at=Instant(0)) for n in range(1, entries + 1))
    return Context(
        session=SessionId(name),
        agent=AgentName("fern"),
        summary=None,
        entries=said,
        committed_seq=entries,
        last_seq=entries,
        undo_count=0,
        summaries=0,
        token_ratio=1.0,
        open_turn=None,
    )


def test_what_was_kept_is_given_again_in_its_newest_form():
    kept = ContextCache(cast("Any", None))
    kept.keep(context("a", 2))
    newest = context("a", 4)
    kept.keep(newest)
    assert kept.get(SessionId("a")) is newest
    assert kept.entries == 4


def test_the_entries_of_all_contexts_together_are_bounded():
    kept = ContextCache(cast("Any", None))
    each = context_cache.ENTRIES_EACH_MAX
    for n in range(context_cache.ENTRIES_MAX // each + 5):
        kept.keep(context(f"s{n}", each))
        assert kept.entries <= context_cache.ENTRIES_MAX
    assert kept.get(SessionId("s0")) is None, "the one used longest ago went first"
    assert kept.get(SessionId("s14")) is not None


def test_using_a_context_keeps_it_longer():
    kept = ContextCache(cast("Any", None))
    each = context_cache.ENTRIES_EACH_MAX
    for n in range(context_cache.ENTRIES_MAX // each):
        kept.keep(context(f"s{n}", each))
    kept.keep(context("s0", each))
    kept.keep(context("late", each))
    assert kept.get(SessionId("s0")) is not None
    assert kept.get(SessionId("s1")) is None


def test_a_very_long_context_is_not_held(monkeypatch):
    kept = ContextCache(cast("Any", None))
    kept.keep(context("a", 3))
    kept.keep(context("a", context_cache.ENTRIES_EACH_MAX + 1))
    assert (kept.get(SessionId("a")), kept.entries) == (None, 0)


def test_the_number_of_contexts_is_bounded(monkeypatch):
    monkeypatch.setattr(context_cache, "CONTEXTS_MAX", 3)
    kept = ContextCache(cast("Any", None))
    for n in range(5):
        kept.keep(context(f"s{n}", 0))
    assert [kept.get(SessionId(f"s{n}")) is not None for n in range(5)] == [False, False, True, True, True]


def test_it_can_be_cleared():
    kept = ContextCache(cast("Any", None))
    kept.keep(context("a", 3))
    kept.clear()
    assert (kept.get(SessionId("a")), kept.entries) == (None, 0)
