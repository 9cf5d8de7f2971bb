"""A turn moves along its table and no other way, and a resumed one knows from its journal where it stands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.inbox.message import UNFINISHED, MessageState
from holdfast.kernel.errors import InvariantBroken
from holdfast.turns.journal import AnyBody, AssistantSaid, ToolCall, ToolReturned, ToolStarted, UserSaid
from holdfast.turns.turn import (
    CLOSED,
    MESSAGE_STATES,
    NOT_RUN,
    TRANSITIONS,
    UNKNOWN_OUTCOME,
    OpenCall,
    Phase,
    TurnEvent,
    advance,
    close_call,
    open_calls,
)
from tests.support.journals import exchange, line, tool_turn

# The table once more, written by hand: a change of the rules must be made in two places.
EXPECTED = {
    ("thinking", "turn.resumed"): "thinking",
    ("thinking", "turn.recalled"): "thinking",
    ("thinking", "turn.joined"): "thinking",
    ("thinking", "turn.called"): "acting",
    ("thinking", "turn.answered"): "committed",
    ("thinking", "turn.failed"): "failed",
    ("thinking", "turn.interrupted"): "interrupted",
    ("acting", "turn.resumed"): "acting",
    ("acting", "turn.stepped"): "acting",
    ("acting", "turn.returned"): "thinking",
    ("acting", "turn.asked"): "awaiting",
    ("acting", "turn.failed"): "failed",
    ("acting", "turn.interrupted"): "interrupted",
    ("awaiting", "turn.resumed"): "awaiting",
    ("awaiting", "turn.decided"): "acting",
    ("awaiting", "turn.returned"): "thinking",
    ("awaiting", "turn.failed"): "failed",
    ("awaiting", "turn.interrupted"): "interrupted",
}


@pytest.mark.parametrize("event", TurnEvent, ids=lambda event: event.value)
@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
def test_every_phase_meets_every_event_as_the_table_says(phase, event):
    after = EXPECTED.get((phase.value, event.value))
    if after is None:
        with pytest.raises(InvariantBroken, match=rf"{event.value} while {phase.value}"):
            advance(phase, event)
    else:
        assert advance(phase, event) is Phase(after)


def test_the_table_names_every_phase():
    assert set(TRANSITIONS) == set(Phase)


def test_a_closed_turn_sees_no_event_and_an_open_one_can_always_end():
    for phase in Phase:
        assert (not TRANSITIONS[phase]) == (phase in CLOSED)
        if phase not in CLOSED:
            assert {TurnEvent.RESUMED, TurnEvent.FAILED, TurnEvent.INTERRUPTED} <= set(TRANSITIONS[phase])


def test_resuming_changes_no_phase():
    assert all(advance(phase, TurnEvent.RESUMED) is phase for phase in Phase if phase not in CLOSED)


def test_each_end_of_a_turn_is_an_end_of_its_messages():
    assert set(MESSAGE_STATES) == CLOSED
    assert not set(MESSAGE_STATES.values()) & UNFINISHED
    assert MESSAGE_STATES[Phase.COMMITTED] is MessageState.ANSWERED


@given(st.lists(st.sampled_from(TurnEvent), max_size=30))
def test_a_turn_ends_at_most_once_whatever_happens(events):
    phase, ended = Phase.THINKING, 0
    for event in events:
        if event in TRANSITIONS[phase]:
            phase = advance(phase, event)
            ended += phase in CLOSED
    assert ended <= 1


# --- where a resumed turn stands ---------------------------------------------------------------------------------

FIRST, SECOND = ToolCall(id="c1", name="look_up"), ToolCall(id="c2", name="send")


def standing(*steps: AnyBody) -> tuple[OpenCall, ...]:
    asked: AnyBody = UserSaid(text="go", principal="ada")
    return open_calls(line(*((1, body) for body in (asked, *steps))))


CALLED = AssistantSaid(text="", calls=(FIRST, SECOND))
STARTED, RETURNED = ToolStarted(call="c1", name="look_up"), ToolReturned(call="c1", name="look_up", text="found")


def test_a_turn_without_calls_has_none_open():
    assert standing() == ()
    assert open_calls(()) == ()
    assert open_calls(line(*exchange(1))) == ()
    assert open_calls(line(*tool_turn(1))) == ()


def test_each_call_is_open_until_its_result_is_journaled():
    assert standing(CALLED) == (OpenCall(FIRST, started=False), OpenCall(SECOND, started=False))
    assert standing(CALLED, STARTED) == (OpenCall(FIRST, started=True), OpenCall(SECOND, started=False))
    assert standing(CALLED, STARTED, RETURNED) == (OpenCall(SECOND, started=False),)


def test_only_the_newest_step_counts():
    """Models reuse the ids of calls from one step to the next."""
    again = AssistantSaid(text="", calls=(FIRST,))
    assert standing(CALLED, STARTED, RETURNED, again) == (OpenCall(FIRST, started=False),)


@given(st.lists(st.sampled_from(["start", "return", "skip"]), min_size=1, max_size=6))
def test_open_calls_are_those_without_a_result_in_the_order_of_the_model(fates):
    calls = tuple(ToolCall(id=f"c{n}", name="t") for n in range(len(fates)))
    steps: list[AnyBody] = [AssistantSaid(text="", calls=calls)]
    for call, fate in zip(calls, fates, strict=True):
        steps += [ToolStarted(call=call.id, name="t")] if fate != "skip" else []
        steps += [ToolReturned(call=call.id, name="t", text="")] if fate == "return" else []
    expected = [OpenCall(call, fate == "start") for call, fate in zip(calls, fates, strict=True) if fate != "return"]
    assert list(standing(*steps)) == expected


def test_a_started_call_is_closed_as_unknown_and_an_unstarted_one_as_not_run():
    unknown = close_call(OpenCall(FIRST, started=True))
    assert unknown == ToolReturned(call="c1", name="look_up", text=UNKNOWN_OUTCOME, outcome="unknown")
    not_run = close_call(OpenCall(FIRST, started=False))
    assert not_run == ToolReturned(call="c1", name="look_up", text=NOT_RUN, outcome="not_run")


def test_a_closed_call_is_no_longer_open():
    closed = [close_call(call) for call in standing(CALLED, STARTED)]
    assert standing(CALLED, STARTED, *closed) == ()
