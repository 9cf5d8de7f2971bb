"""The promise: contexts are held in RAM up to a bound that no number or length of conversations can pass."""

from typing import Any, cast

import pytest

from holdfast.kernel.ids import AgentName, Instant, SessionId
from holdfast.turns import context_cache
from holdfast.turns.context import ENTRY_BYTES, Context
from holdfast.turns.context_cache import CONTEXT_BYTES, ContextCache
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


SMALL = CONTEXT_BYTES + 3 * (ENTRY_BYTES + 1)  # a context of three entries, each of one ASCII character


@pytest.fixture
def kept(monkeypatch):
    """A cache with room for four small contexts."""
    monkeypatch.setattr(context_cache, "BYTES_MAX", 4 * SMALL)
    monkeypatch.setattr(context_cache, "EACH_BYTES_MAX", 2 * SMALL)
    return ContextCache(cast("Any", None))


def names(kept):
    return [n for n in range(9) if kept.get(SessionId(f"s{n}")) is not None]


def test_what_was_kept_is_given_again_in_its_newest_form(kept):
    kept.keep(context("a", 2))
    newest = context("a", 3)
    kept.keep(newest)
    assert kept.get(SessionId("a")) is newest
    assert kept.bytes == SMALL


def test_the_bytes_of_all_contexts_together_are_bounded(kept):
    for n in range(9):
        kept.keep(context(f"s{n}", 3))
        assert kept.bytes <= 4 * SMALL
    assert names(kept) == [5, 6, 7, 8], "the ones used longest ago went first"


def test_using_a_context_keeps_it_longer(kept):
    for n in range(4):
        kept.keep(context(f"s{n}", 3))
    kept.keep(context("s0", 3))
    kept.keep(context("s8", 3))
    assert names(kept) == [0, 2, 3, 8]


def test_a_very_long_context_is_not_held_and_drives_no_other_out(kept):
    kept.keep(context("s0", 3))
    kept.keep(context("s1", 3))
    kept.keep(context("s1", 200))
    assert (names(kept), kept.bytes) == ([0], SMALL)


def test_the_number_of_contexts_is_bounded_though_they_are_empty(kept):
    for n in range(100):
        kept.keep(context(f"s{n}", 0))
    assert kept.bytes <= 4 * SMALL


def test_it_can_be_cleared(kept):
    kept.keep(context("s1", 3))
    kept.clear()
    assert (names(kept), kept.bytes) == ([], 0)
