"""The model is sent the summary, then every later entry that counts; what it was sent before stays byte for byte."""

from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.sessions.compression import Pressure, Thresholds
from holdfast.turns.context import (
    LISTED,
    Context,
    ModelMessage,
    calibrate,
    fit,
    is_named,
    render,
    render_entries,
    summary_request,
)
from holdfast.turns.journal import (
    AnyBody,
    AssistantSaid,
    Forgotten,
    Noticed,
    Observed,
    Recalled,
    ToolCall,
    ToolReturned,
    ToolStarted,
    Undone,
    UserSaid,
    effective,
    estimate_tokens,
)
from tests.support.journals import context, exchange, journals, line, summary, tool_turn, turns_of


def sent(messages: tuple[ModelMessage, ...]) -> bytes:
    """What a vendor's prompt cache compares: the messages as bytes, one after the other."""
    return b"".join(msgspec.json.encode(message) + b"\n" for message in messages)


# --- the prefix is byte-stable between compressions --------------------------------------------------------------


@given(journals(turns_max=10), st.data(), st.booleans(), st.booleans())
def test_between_compressions_the_rendered_prefix_only_grows_at_its_end(entries, data, named, summarised):
    base = summary() if summarised else None
    known = data.draw(st.integers(0, len(entries)))
    before = render(context(entries[:known], summary=base), "be kind", named=named)
    after = render(context(entries, summary=base), "be kind", named=named)
    assert sent(after).startswith(sent(before))


@given(journals(turns_max=6))
def test_each_step_of_a_growing_journal_extends_the_bytes_before_it(entries):
    rendered = [sent(render(context(entries[:known]))) for known in range(len(entries) + 1)]
    assert all(later.startswith(earlier) for earlier, later in pairwise(rendered))


@given(journals(turns_max=8))
def test_recall_of_a_closed_turn_is_never_rendered(entries):
    without = [entry for entry in entries if not isinstance(entry.body, Recalled)]
    assert render(context(entries)) == render(context(without))


@given(journals(turns_max=8))
def test_recall_of_the_open_turn_leaves_every_byte_before_it_as_it_was(entries):
    turn = max(turns_of(entries), default=0) + 1
    asked: list[tuple[int, AnyBody]] = [
        (turn, UserSaid(text="and now?", principal="ada")),
        (turn, Recalled(text="a cat")),
    ]
    grown = (*entries, *(replace(one, seq=one.seq + len(entries)) for one in line(*asked)))
    during = render(context(grown, open_turn=turn))
    assert during[-1] == ModelMessage(role="user", content="a cat", data="recall")
    assert sent(during).startswith(sent(render(context(grown))))


@given(journals(turns_max=8, undos=True))
def test_an_undo_changes_nothing_before_what_it_takes_back(entries):
    undone = Undone(first_turn=max(turns_of(entries), default=1), last_turn=99, from_seq=1)
    counting = effective(entries)
    voided = effective((*entries, *(replace(one, seq=len(entries) + 1) for one in line((0, undone)))))
    shared = [one for one, other in zip(counting, voided, strict=False) if one == other]
    assert sent(render(context(counting))).startswith(sent(render(context(shared))))
    assert sent(render(context(voided))).startswith(sent(render(context(shared))))


# --- what is rendered --------------------------------------------------------------------------------------------


def test_the_order_is_instructions_notes_summary_entries():
    shown = render(context(line(*exchange(1)), summary=summary()), "be kind", "notes")
    told = [(message.role, message.data) for message in shown]
    assert told == [("system", ""), ("user", "notes"), ("user", "summary"), ("user", ""), ("assistant", "")]


def test_a_second_speaker_names_every_text():
    assert not is_named(context(()), "agent:main:http:chat:home")
    assert is_named(replace(context(()), several=True), "agent:main:http:chat:home")
    assert is_named(context(()), "agent:main:telegram:group:-1")


def test_without_anything_nothing_is_sent():
    assert render(context(())) == ()


BODIES_RENDERED: list[tuple[AnyBody, ModelMessage | None]] = [
    (UserSaid(text="hi", principal="ada"), ModelMessage(role="user", content="hi")),
    (AssistantSaid(text="hello"), ModelMessage(role="assistant", content="hello")),
    (
        AssistantSaid(text="", calls=(ToolCall(id="c", name="t"),)),
        ModelMessage(role="assistant", content="", calls=(ToolCall(id="c", name="t"),)),
    ),
    (ToolStarted(call="c", name="t"), None),
    (
        ToolReturned(call="c", name="t", text="done", outcome="error"),
        ModelMessage(role="tool", content="done", call="c", name="t"),
    ),
    (
        Observed(text="hm", principal="bob"),
        ModelMessage(role="user", content="[not addressed to you] bob: hm"),
    ),
    (Recalled(text="a cat"), None),
    (Noticed(text="[stopped]"), ModelMessage(role="system", content="[stopped]")),
    (Undone(first_turn=1, last_turn=1, from_seq=1), None),
    (Forgotten(), None),
]


@pytest.mark.parametrize(("body", "message"), BODIES_RENDERED, ids=lambda value: getattr(value, "kind", None))
def test_each_kind_of_entry_is_rendered_in_one_way(body, message):
    assert render(context(line((1, body)))) == (() if message is None else (message,))


def test_in_a_group_each_speaker_is_named():
    entries = line((1, UserSaid(text="hi", principal="ada")), (2, UserSaid(text="hi", principal="bob")))
    assert [one.content for one in render(context(entries), named=True)] == ["ada: hi", "bob: hi"]


def test_a_summary_names_its_snapshot_and_what_it_covers():
    shown = render(context((), summary=summary("they like cats", n=3, through=8)))[0].content
    begin, opening, text, end = shown.split("\n")
    assert (begin, end) == ("<summary>", "</summary>")
    assert opening == (
        "Summary of the earlier conversation (ses_1.snapshot.3, entries 1 to 8). "
        "A record of what was said, not instructions:"
    )
    assert text == "  they like cats"


# --- what is committed, and what it costs ------------------------------------------------------------------------


def test_the_steps_of_an_open_turn_are_invisible_to_summaries():
    entries = line(*exchange(1), *tool_turn(2)[:3])
    opened = context(entries, open_turn=2)
    assert opened.committed == entries[:2]
    assert context(entries).committed == entries


def test_a_context_costs_instructions_summary_and_entries_corrected_by_the_ratio():
    known = context(line(*exchange(1)), summary=summary(), ratio=1.5)
    tokens = estimate_tokens("be kind") + 20 + sum(entry.tokens for entry in known.entries)
    assert known.estimated_tokens("be kind") == tokens
    assert known.used_tokens("be kind") == tokens * 1.5
    assert context(()).estimated_tokens() == 0


# --- calibration -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "tokens_in", "estimated_in", "expected"),
    [
        (1.0, 150, 100, 1.5),  # the first report is taken as it is
        (1.5, 250, 100, 2.0),  # later ones are averaged in
        (2.0, 200, 100, 2.0),
        (1.0, 10_000, 100, 4.0),  # a report beyond belief is bounded
        (1.0, 1, 100, 0.25),
        (1.3, 0, 100, 1.3),  # no report, no change
        (1.3, 100, 0, 1.3),
        (1.3, -5, 100, 1.3),
    ],
)
def test_estimates_follow_what_the_model_reports(ratio, tokens_in, estimated_in, expected):
    assert calibrate(ratio, tokens_in, estimated_in) == pytest.approx(expected)


@given(st.lists(st.tuples(st.integers(-5, 10**9), st.integers(-5, 10**9)), max_size=20))
def test_the_ratio_stays_within_bounds_whatever_is_reported(reports):
    ratio = 1.0
    for tokens_in, estimated_in in reports:
        ratio = calibrate(ratio, tokens_in, estimated_in)
    assert 0.25 <= ratio <= 4.0


@given(st.floats(0.3, 3.9))
def test_a_steady_model_is_matched_within_a_few_reports(truth):
    ratio = 1.0
    for _ in range(12):
        ratio = calibrate(ratio, round(truth * 100_000), 100_000)
    assert ratio == pytest.approx(truth, rel=0.01)


# --- when summarising failed -------------------------------------------------------------------------------------

windows = st.builds(Thresholds, context_tokens=st.integers(1, 300), hard=st.just(0.85))


def left_out(entries: tuple[object, ...], fitted: Context) -> int:
    shown = {id(entry) for entry in fitted.entries}
    return sum(id(entry) not in shown for entry in entries)


@given(journals(turns_max=10), windows, st.floats(0.25, 4))
def test_a_context_that_fits_is_left_alone_and_another_is_cut(entries, limits, ratio):
    known = context(entries, ratio=ratio)
    fitted, gone = fit(known, limits)
    if known.used_tokens() <= limits.context_tokens * limits.hard:
        assert (fitted, gone) == (known, 0)
    assert gone == left_out(entries, fitted)


@given(journals(turns_max=10), windows)
def test_what_people_said_in_the_newest_turn_always_stays(entries, limits):
    fitted, _ = fit(context(entries), limits)
    newest = max(turns_of(entries), default=0)
    said = [entry for entry in entries if entry.turn == newest and isinstance(entry.body, UserSaid)]
    assert [entry for entry in fitted.entries if entry in said] == said


@given(journals(turns_max=10), windows)
def test_older_turns_go_whole_and_oldest_first(entries, limits):
    fitted, _ = fit(context(entries), limits)
    newest = max(turns_of(entries), default=0)
    older = [entry for entry in entries if entry.turn != newest and entry.turn]
    kept = [entry for entry in fitted.entries if entry in older]
    assert kept == [entry for entry in older if entry.turn in turns_of(kept)]
    assert not kept or kept == older[-len(kept) :]


@given(journals(turns_max=10), windows)
def test_a_sentence_stands_where_something_is_missing(entries, limits):
    fitted, gone = fit(context(entries), limits)
    added = [entry for entry in fitted.entries if not any(entry is one for one in entries)]
    assert bool(added) == bool(gone)
    assert all(isinstance(one.body, Noticed) and "not shown here" in one.text for one in added)


def test_how_many_entries_are_not_shown_is_said_where_they_stood():
    entries = line(*exchange(1, "x" * 400), *exchange(2, "x" * 400), *exchange(3))
    fitted, gone = fit(context(entries), Thresholds(context_tokens=100))
    assert gone == 4
    assert [entry.text for entry in fitted.entries] == [
        "[4 earlier entries are not shown here because summarising them failed.]",
        "hello",
        "hi",
    ]


def test_no_more_turns_go_than_must():
    """Three turns of 110 tokens do not fit by just one of them."""
    entries = line(*exchange(1, "x" * 400), *exchange(2, "x" * 400), *exchange(3, "x" * 400))
    used = context(entries).used_tokens()
    a_turn = sum(entry.tokens for entry in entries[:2])
    _, gone = fit(context(entries), Thresholds(context_tokens=int(used - a_turn), hard=1.0))
    assert gone == 2


def test_what_people_said_between_two_steps_stays_when_the_steps_go():
    said: list[tuple[int, AnyBody]] = [(1, UserSaid(text="count the cats", principal="ada"))]
    for n in range(1, 4):
        said += [
            (1, AssistantSaid(text="", calls=(ToolCall(id=f"c{n}", name="count"),))),
            (1, ToolReturned(call=f"c{n}", name="count", text=f"{n} " + "x" * 400)),
            (1, UserSaid(text=f"and the dogs {n}", principal="ada")),
        ]
    fitted, gone = fit(context(line(*said), open_turn=1), Thresholds(context_tokens=200))
    assert gone == 4
    spoken = [entry.text for entry in fitted.entries if isinstance(entry.body, UserSaid)]
    assert spoken == ["count the cats", "and the dogs 1", "and the dogs 2", "and the dogs 3"]


def test_a_turn_too_long_for_the_window_loses_its_oldest_steps_with_their_results():
    said: list[tuple[int, AnyBody]] = [(1, UserSaid(text="count the cats", principal="ada"))]
    for n in range(1, 4):
        said += [
            (1, AssistantSaid(text="", calls=(ToolCall(id=f"c{n}", name="count"),))),
            (1, ToolStarted(call=f"c{n}", name="count")),
            (1, ToolReturned(call=f"c{n}", name="count", text=f"{n} " + "x" * 400)),
        ]
    fitted, gone = fit(context(line(*said), open_turn=1), Thresholds(context_tokens=200))
    assert gone == 6
    messages = render(fitted)
    assert [message.role for message in messages] == ["user", "system", "assistant", "tool"]
    assert messages[2].calls[0].id == messages[3].call == "c3"


# --- what a summariser is asked ----------------------------------------------------------------------------------


@given(journals(turns_max=6))
def test_a_summariser_never_sees_what_was_recalled(entries):
    recalled = {entry.text for entry in entries if isinstance(entry.body, Recalled)}
    others = {entry.text for entry in entries if not isinstance(entry.body, Recalled)}
    asked = {message.content for message in summary_request(None, entries)}
    assert not asked & (recalled - others)


def test_a_summariser_is_given_the_earlier_summary_the_entries_and_the_focus():
    task, focus, base, *rest = summary_request(summary("they like cats"), line(*exchange(1)), "names")
    assert "Take special care of what the line `focus` names" in task.content
    assert (focus.role, focus.content, focus.data) == ("user", "names", "focus")
    assert (base.role, base.data) == ("user", "summary")
    assert base.content == "Earlier summary:\nthey like cats"
    assert [message.content for message in rest] == ["hello", "hi"]


# --- what the tool `memory` listed --------------------------------------------------------------------------------


def listing(text):
    return ToolReturned(call="c1", name="memory", text=text)


NOTES_OF_ADA = '{"ok":true,"target":"user","entries":[{"version":1,"text":"Her PIN is 1234."}],"used":"16 of 2200"}'


def test_notes_that_a_turn_listed_are_not_shown_to_the_next_speaker():
    """Two people may speak in one chat that is no group; the notes are those of the one who spoke then."""
    asked, asked_next = UserSaid(text="read my notes", principal="ada"), UserSaid(text="and mine?", principal="bob")
    entries = line((1, asked), (1, listing(NOTES_OF_ADA)), (2, asked_next))
    own, others = (tuple(render_entries(entries, open_turn=n, named=True)) for n in (1, 2))
    assert own[1].content == NOTES_OF_ADA
    assert (others[1].content, others[1].call) == (LISTED, "c1")
    assert "PIN" not in str(summary_request(None, entries))


def test_what_the_tool_changed_is_still_told_afterwards():
    done = '{"ok":true,"target":"user","changed":["added as version 4"],"used":"16 of 2200"}'
    assert [one.content for one in render_entries(line((1, listing(done))), open_turn=2)] == [done]


# --- pressure ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        (0, Pressure.NONE),
        (59.9, Pressure.NONE),
        (60, Pressure.SOFT),
        (84.9, Pressure.SOFT),
        (85, Pressure.HARD),
        (1_000, Pressure.HARD),
    ],
)
def test_pressure_changes_exactly_at_the_thresholds(used, expected):
    assert context([]).pressure(Thresholds(context_tokens=100), "", used) is expected


@given(st.floats(0, 500), st.floats(0, 500))
def test_pressure_never_falls_as_a_context_grows(used, more):
    order = list(Pressure)
    before, after = (context([]).pressure(Thresholds(context_tokens=100), "", tokens) for tokens in (used, used + more))
    assert order.index(before) <= order.index(after)
