"""A fault plan is a value: drawn from a seed, fired once per fault, and divisible."""

import pytest

from holdfast.testing import Armed, CrashPoint, FaultPlan, FaultScope, draw, shrink
from holdfast.testing.faults import (
    CrashAtStatement,
    CrashAtVerb,
    Fault,
    Kill,
    Message,
    ModelFailure,
    ModelFault,
    Pause,
    PauseAtVerb,
    PlatformFailure,
    PlatformFault,
    ProviderFailure,
    ProviderFault,
    Stop,
)

POINTS = (CrashPoint("accept", "before"), CrashPoint("commit_turn", "after"))
SCOPE = FaultScope(points=POINTS, naps=POINTS, statements=400, model_calls=30, provider_calls=30, lease_ms=10_000)


def test_a_seed_always_draws_the_same_plan():
    assert draw(5, SCOPE) == draw(5, SCOPE)
    assert len({draw(seed, SCOPE) for seed in range(50)}) == 50


def test_every_kind_of_fault_is_drawn_within_the_scope():
    faults = [fault for seed in range(300) for fault in draw(seed, SCOPE).faults]
    assert {type(fault) for fault in faults} == set(Fault.__args__)
    occurrences = [fault.occurrence for fault in faults if isinstance(fault, CrashAtStatement)]
    assert (min(occurrences), max(occurrences) <= 400) == (1, True)
    assert {fault.failure for fault in faults if isinstance(fault, ModelFault)} == set(ModelFailure)


def test_some_pauses_outlast_the_lease_and_some_do_not():
    pauses = [fault.length_ms for seed in range(50) for fault in draw(seed, SCOPE).of(Pause)]
    assert min(pauses) < SCOPE.lease_ms < max(pauses)


def test_what_is_not_in_the_scope_is_not_broken():
    plan = [fault for seed in range(50) for fault in draw(seed, FaultScope(messages=0)).faults]
    assert {type(fault) for fault in plan} == {Kill, Pause, Stop}


def test_parts_can_be_left_out_and_the_rest_stays_in_order():
    plan = draw(5, SCOPE)
    dropped = plan.faults[1]
    assert plan.without(dropped).faults == plan.faults[:1] + plan.faults[2:]
    assert plan.without(dropped).messages == plan.messages
    assert plan.only(reversed(plan.parts)) == plan


def test_a_fault_fires_at_its_occurrence_and_only_then():
    crash = CrashAtVerb(POINTS[1], occurrence=2, down_ms=0)
    late = PlatformFault(4, PlatformFailure.LATE, delay_ms=9)
    armed = Armed(FaultPlan((crash, CrashAtStatement(3, 0), late)))
    assert [armed.at_verb("commit_turn", "after") for _ in range(4)] == [None, crash, None, None]
    assert armed.at_verb("commit_turn", "before") is None
    assert [armed.at_statement() is not None for _ in range(4)] == [False, False, True, False]
    assert (armed.at_model_call(), armed.at_provider_call(), armed.at_message(3)) == (None, None, None)
    assert armed.at_message(4) == late
    assert armed.fired == [crash, CrashAtStatement(3, 0), late]


def test_nothing_fires_after_healing():
    armed = Armed(FaultPlan((CrashAtStatement(1, 0),)))
    armed.heal()
    assert armed.at_statement() is None


def plan_with(*needed):
    """A big plan in which only the given parts matter."""
    noise = draw(11, SCOPE)
    faults = tuple(part for part in needed if not isinstance(part, Message))
    return FaultPlan((*noise.faults, *faults), noise.messages)


@pytest.mark.parametrize(
    "needed",
    [
        (),
        (Kill(77, 0, 1),),
        (Kill(77, 0, 1), Message(3)),
        (Kill(77, 0, 1), Pause(78, 1, 5), CrashAtStatement(9, 1), Message(0), Message(19)),
    ],
    ids=len,
)
def test_shrinking_finds_the_minimal_plan(needed):
    found = shrink(plan_with(*needed), lambda plan: set(needed) <= set(plan.parts))
    assert set(found.parts) == set(needed)


def test_shrinking_handles_failures_that_need_one_of_several_parts():
    plan = plan_with(Kill(77, 0, 1))
    found = shrink(plan, lambda p: len(p.messages) >= 2 and len(p.faults) >= 1)
    assert (len(found.messages), len(found.faults)) == (2, 1)


def test_shrinking_stops_at_its_limit_with_a_plan_that_still_fails():
    needed = (Kill(77, 0, 1), Message(3))
    runs = []

    def fails(plan):
        runs.append(plan)
        return set(needed) <= set(plan.parts)

    found = shrink(plan_with(*needed), fails, runs_max=6)
    assert len(runs) == 6
    assert fails(found)
    assert len(found.parts) < len(plan_with(*needed).parts)


def test_a_plan_that_passes_cannot_be_shrunk():
    with pytest.raises(ValueError, match="does not fail"):
        shrink(draw(1, SCOPE), lambda plan: False)


def test_a_node_sleeps_at_a_verb_and_only_then():
    nap = PauseAtVerb(POINTS[0], occurrence=2, length_ms=9)
    armed = Armed(FaultPlan((nap,)))
    assert [armed.at_verb("accept", "before") for _ in range(3)] == [None, nap, None]


def test_every_history_breaks_a_fifth_of_the_calls_to_providers_in_every_way():
    plans = [draw(seed, FaultScope(provider_calls=400)).of(ProviderFault) for seed in range(50)]
    assert all(50 <= len(plan) <= 115 for plan in plans)
    assert 0.18 < sum(len(plan) for plan in plans) / (50 * 400) < 0.22
    assert {fault.failure for plan in plans for fault in plan} == set(ProviderFailure)


def test_provider_faults_are_counted_by_themselves():
    plan = draw(3, SCOPE)
    armed = Armed(plan)
    fired = [armed.at_provider_call() for _ in range(30)]
    assert [fault for fault in fired if fault] == list(plan.of(ProviderFault))
