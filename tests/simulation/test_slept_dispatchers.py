"""A dispatcher that slept through its lease sends nothing: no fence reaches a request that is under way.

Found by the simulator: a node was stopped between taking a lane and calling the provider. Another one took the lane
over, learned that nothing had landed and sent it; then the first one woke up and sent it too.
"""

from dataclasses import replace

from holdfast.testing import CrashPoint, FaultPlan, scope, world
from holdfast.testing.faults import PauseAtVerb
from holdfast.testing.history import run_history, scratch
from holdfast.testing.providers import DISPATCH_POLICY
from tests.simulation.test_crash_points import STORY

TAKEN = CrashPoint("claim_lanes", "after")
LONG_MS = 3 * scope.LEASE_MS
SEED = 51  # one in which another node takes the lane over and sends before the first wakes up


def broken():
    """The invariants that are broken when a dispatcher is paused while it holds a lane."""
    found = set()
    with scratch() as folder:
        for occurrence in range(1, 11):
            plan = FaultPlan((PauseAtVerb(TAKEN, occurrence, LONG_MS),))
            verdict = run_history(SEED, folder=folder, plan=plan, says=STORY)
            found |= {violation.invariant for violation in verdict.violations}
    return found


def test_a_dispatcher_that_slept_through_its_lease_sends_nothing():
    assert broken() == set()


def test_a_dispatcher_that_ignored_its_lease_would_send_twice(monkeypatch):
    monkeypatch.setattr(world, "DISPATCH_POLICY", replace(DISPATCH_POLICY, send_within_ms=10 * LONG_MS))
    assert broken() == {"I7"}
