"""The promise: an end moves along one table, forwards only, and a failed attempt is put off or given up, never lost."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.errors import InvariantBroken
from holdfast.kernel.ids import AgentName, Instant, Principal, SessionId
from holdfast.kernel.time_zones import zone_offset
from holdfast.sessions import finalisation
from holdfast.sessions.finalisation import (
    ENDED,
    TRANSITIONS,
    Finalisation,
    FinishEvent,
    FinishPolicy,
    FinishStep,
    advance,
    put_off,
)
from holdfast.sessions.session import Purpose
from holdfast.turns.policy import ExpiryPolicy

cutoffs: Any = finalisation.cutoffs  # instants of tests are plain numbers
expires_at: Any = finalisation.expires_at

PAIRS = [(step, event) for step in FinishStep for event in FinishEvent]


def row(step: FinishStep, *, attempts: int = 1, answer: bytes = b"") -> Finalisation:
    return Finalisation(
        session=SessionId("s"),
        epoch=1,
        agent=AgentName("fern"),
        principal=Principal("ada"),
        purpose=Purpose.CONVERSATION,
        cause="idle",
        from_seq=1,
        through_seq=2,
        said_at=Instant(0),
        step=step,
        attempts=attempts,
        fence=1,
        owner=None,
        due_at=Instant(0),
        started_at=Instant(0),
        answer=answer,
    )


@pytest.mark.parametrize(("step", "event"), PAIRS)
def test_every_pair_is_in_the_table_or_our_bug(step, event):
    if event in TRANSITIONS[step]:
        assert advance(step, event) is TRANSITIONS[step][event]
    else:
        with pytest.raises(InvariantBroken):
            advance(step, event)


def test_no_event_leads_from_a_stored_answer_back_to_the_model_but_forgetting_it():
    back = {event for step in (FinishStep.ASKED, FinishStep.APPLIED) for event, to in TRANSITIONS[step].items()
            if to is FinishStep.BEGUN}  # fmt: skip
    assert back == {FinishEvent.FORGOTTEN}


def test_only_what_failed_can_be_taken_up_after_its_end():
    assert {step for step in ENDED if TRANSITIONS[step]} == {FinishStep.FAILED}


def test_every_step_can_come_to_an_end():
    for step in set(FinishStep) - ENDED:
        reached, seen = {step}, set[FinishStep]()
        while reached - seen:
            seen |= reached
            reached = {to for each in seen for to in TRANSITIONS[each].values()} | seen
        assert FinishStep.CLOSED in reached


def test_attempts_run_out_only_while_nothing_is_written():
    policy = FinishPolicy(attempts_max=3)
    for step in (FinishStep.BEGUN, FinishStep.ASKED):
        assert put_off(row(step, attempts=2), policy) is FinishEvent.POSTPONED
        assert put_off(row(step, attempts=3), policy) is FinishEvent.GAVE_UP
    assert put_off(row(FinishStep.APPLIED, attempts=9), policy) is FinishEvent.POSTPONED


@pytest.mark.parametrize(
    ("step", "answer", "outcome"),
    [
        (FinishStep.BEGUN, b"", "running"),
        (FinishStep.ASKED, b"{}", "running"),
        (FinishStep.CLOSED, b"{}", "done"),
        (FinishStep.CLOSED, b"", "nothing"),
        (FinishStep.FAILED, b"", "failed"),
        (FinishStep.CANCELLED, b"", "cancelled"),
    ],
)
def test_how_it_ended_is_told_in_a_word(step, answer, outcome):
    assert row(step, answer=answer).outcome == outcome
    assert row(step).origin == "finish:s:1"


@given(st.integers(0, 10**12), st.integers(1, 5_000), st.integers(0, 24 * 60 - 1), st.booleans())
def test_the_announced_end_of_a_session_is_the_first_instant_at_which_it_has_expired(active_at, idle, minute, both):
    policy = ExpiryPolicy(
        idle_minutes=idle if both else None, daily_at=f"{minute // 60:02}:{minute % 60:02}", time_zone="Europe/Berlin"
    )
    offset = zone_offset(policy.time_zone)
    end, why = expires_at(policy, active_at, offset)
    assert cutoffs(policy, end, offset).latest >= active_at
    assert cutoffs(policy, end, offset).cause(active_at) == why
    assert cutoffs(policy, end - 1, offset).latest < active_at


def test_a_session_without_a_rule_never_expires():
    assert expires_at(ExpiryPolicy(), 0, zone_offset("UTC")) is None
