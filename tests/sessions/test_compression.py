"""A cut falls between turns, the newest turns stay verbatim, and ranges follow each other without gap or overlap."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.ids import SessionId
from holdfast.sessions.compression import (
    Thresholds,
    choose_cut,
    fault_of,
    snapshot_name,
    summary_tokens_max,
)
from holdfast.turns.journal import AnyBody, Observed, effective
from tests.support.journals import exchange, journals, line, turns_of

thresholds = st.builds(
    Thresholds,
    context_tokens=st.integers(1, 400),
    keep=st.floats(0, 0.9),
    keep_turns_min=st.integers(0, 4),
)
ratios = st.floats(0.25, 4.0)


@given(journals(), thresholds, ratios, st.booleans())
def test_a_cut_falls_between_turns(tail, limits, ratio, forced):
    cut = choose_cut(tail, limits, ratio=ratio, forced=forced)
    if cut is not None:
        covered = [entry for entry in tail if entry.seq <= cut]
        kept = [entry for entry in tail if entry.seq > cut]
        assert covered
        assert kept
        assert not set(turns_of(covered)) & set(turns_of(kept))


@given(journals(), thresholds, ratios, st.booleans())
def test_the_newest_turns_are_never_covered(tail, limits, ratio, forced):
    cut = choose_cut(tail, limits, ratio=ratio, forced=forced)
    newest = turns_of(tail)[-max(1, limits.keep_turns_min) :]
    assert cut is None or all(entry.seq > cut for entry in tail if entry.turn in newest)


@given(journals(), thresholds, ratios)
def test_what_is_kept_fits_its_share_or_is_the_least_that_must_stay(tail, limits, ratio):
    cut = choose_cut(tail, limits, ratio=ratio)
    kept = [entry for entry in tail if entry.seq > (cut or 0)]
    if turns_of(tail) and len(turns_of(kept)) > max(1, limits.keep_turns_min):
        first = next(position for position, entry in enumerate(kept) if entry.turn)
        weight = sum(entry.tokens for entry in kept[first:]) * ratio
        assert weight <= limits.context_tokens * limits.keep + 1e-6


@given(journals(), thresholds)
def test_a_forced_cut_covers_at_least_as_much(tail, limits):
    assert (choose_cut(tail, limits, forced=True) or 0) >= (choose_cut(tail, limits) or 0)


@given(journals(), thresholds)
def test_for_an_open_turn_everything_before_it_is_covered(tail, limits):
    cut = choose_cut(tail, limits, forced=True, in_turn=True)
    assert cut == (tail[-1].seq if tail else None)


@given(journals(turns_max=14, undos=True), thresholds, st.lists(st.integers(1, 5), max_size=8))
def test_the_ranges_of_successive_summaries_follow_each_other(entries, limits, growth):
    """The journal grows between compressions; each summary covers from where the last one ended."""
    ranges, known, end = [], 0, 0
    for step in (*growth, len(entries)):
        known = min(known + step, len(entries))
        tail = [entry for entry in effective(entries[:known]) if entry.seq > end]
        cut = choose_cut(tail, limits, forced=True)
        if cut is not None:
            ranges.append((end + 1, cut))
            end = cut
    assert [first for first, _ in ranges] == [1, *(last + 1 for _, last in ranges)][: len(ranges)]
    assert all(first <= last for first, last in ranges)


def test_the_share_to_keep_counts_the_talk_between_turns():
    talk: list[tuple[int, AnyBody]] = [(0, Observed(text="x" * 4_000, principal="bob"))]
    tail = line(*exchange(1), *talk, *exchange(2))
    assert choose_cut(tail, Thresholds(context_tokens=1_000)) == 3


@pytest.mark.parametrize(("turns", "cut"), [(0, None), (1, None), (2, 2), (5, 8)])
def test_a_forced_compression_keeps_one_turn(turns, cut):
    tail = line(*(entry for turn in range(1, turns + 1) for entry in exchange(turn)))
    assert choose_cut(tail, Thresholds(), forced=True) == cut


def test_a_journal_of_mere_talk_keeps_its_newest_entry():
    said: list[tuple[int, AnyBody]] = [(0, Observed(text="hm", principal="bob"))] * 4
    assert choose_cut(line(*said), Thresholds()) == 3
    assert choose_cut(line(*said[:1]), Thresholds()) is None


# --- what counts as a summary ------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_an_empty_summary_is_refused(text):
    assert fault_of(text, Thresholds()) == "the summariser answered nothing"


def test_a_summary_as_large_as_its_share_is_taken_and_a_larger_one_refused():
    limits = Thresholds(context_tokens=1_000)
    most = summary_tokens_max(limits)
    assert most == 200
    assert fault_of("x" * 4 * (most - 4), limits) is None
    assert "at most 200 are useful" in str(fault_of("x" * 4 * (most - 3), limits))


def test_even_a_tiny_window_allows_a_short_summary():
    assert summary_tokens_max(replace(Thresholds(), context_tokens=10)) == 64


def test_a_snapshot_is_named_after_its_session():
    assert snapshot_name(SessionId("ses_1"), 3) == "ses_1.snapshot.3"
