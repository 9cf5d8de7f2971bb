"""A turn that waits for a human, with the process dying before and after the verbs of it and before its statements.

Each question is answered by the people of the simulator: seed 0 with a yes that names the digest of the call, seed 3
with a no, seed 1 not at all, seed 10 with the digest of another call. Seed 4 wishes for a call that cannot be shown.
"""

import pytest

from holdfast.testing import CrashPoint, FaultPlan
from holdfast.testing.faults import CrashAtStatement, CrashAtVerb, VerbFails
from holdfast.testing.history import run_history, scratch
from holdfast.testing.report import describe
from holdfast.testing.workload import CHATS, Say

HOME = CHATS[0]
STORY = [
    Say(n=n, at_ms=300 * n, chat=HOME, sender="ada", text=text, addressed=True, human=True, conflicts=False)
    for n, text in enumerate(("m00 use fire look", "m01"))
]
YES, OTHER_DIGEST, UNSHOWABLE = 0, 10, 4
SEEDS = {YES: "approved", 3: "denied", 1: "expired"}
VERBS = ("take_step", "release_claim", "resume_turn", "accept_message")
POINTS = [CrashPoint(verb, side) for verb in VERBS for side in ("before", "after")]
STRIDE = 40  # of the statements, one in so many before every push and the others in the soak


def live(seed, *faults):
    with scratch() as folder:
        return run_history(seed, folder=folder, plan=FaultPlan(faults), says=STORY)


@pytest.mark.parametrize("seed", SEEDS, ids=SEEDS.values())
def test_it_is_decided_as_the_people_said(seed):
    verdict = live(seed)
    assert describe(seed, verdict.violations) == describe(seed, ())
    assert verdict.counts[f"approval {SEEDS[seed]}"] == 1


def test_a_yes_with_the_digest_of_another_call_decides_nothing():
    verdict = live(OTHER_DIGEST)
    assert describe(OTHER_DIGEST, verdict.violations) == describe(OTHER_DIGEST, ())
    assert verdict.counts["approval expired"] == 1


def test_no_approval_is_requested_for_a_call_that_cannot_be_shown():
    verdict = live(UNSHOWABLE)
    assert describe(UNSHOWABLE, verdict.violations) == describe(UNSHOWABLE, ())
    assert not [name for name in verdict.counts if name.startswith("approval ")]


@pytest.mark.parametrize("occurrence", [2, pytest.param(3, marks=pytest.mark.soak)])
@pytest.mark.parametrize("point", POINTS, ids=str)
def test_the_process_may_die_at_its_verbs_and_their_answers_be_lost(point, occurrence):
    for fault in (CrashAtVerb(point, occurrence, down_ms=300), VerbFails(point, occurrence)):
        verdict = live(YES, fault)
        assert describe(YES, verdict.violations) == describe(YES, ())


@pytest.mark.parametrize("offset", [1, *(pytest.param(n, marks=pytest.mark.soak) for n in range(2, STRIDE + 1))])
@pytest.mark.parametrize("seed", SEEDS, ids=SEEDS.values())
def test_the_process_may_die_before_its_statements(seed, offset):
    statements = live(seed).passed["statement"]
    for occurrence in range(seed + offset, statements + 1, STRIDE):
        verdict = live(seed, CrashAtStatement(occurrence, down_ms=300))
        assert describe(occurrence, verdict.violations) == describe(occurrence, ())
