"""When the store has done its work and its answer is lost, the caller asks again, and nothing stays claimed.

Found by the simulator: a claim without a name stayed with a node that did not know of it, and its chat stood still;
a compression that had begun unheard of kept every later one of its session out.
"""

import pytest

from holdfast.inbox.mailbox_sql import claim_mailboxes
from holdfast.sessions.compressor import Compressor
from holdfast.testing import CrashPoint, FaultPlan
from holdfast.testing.faults import VerbFails
from holdfast.testing.history import run_history, scratch
from tests.simulation.test_crash_points import SEED, STORY

OCCURRENCES = range(1, 11)
ODD_AND_EVEN = (OCCURRENCES[::2], OCCURRENCES[1::2])
EACH = [(occurrence,) for occurrence in OCCURRENCES]
VERBS = ["claim_work", "end_turn", "begin_operation", "release_claim", "accept_message", "commit_summary"]


def broken(verb, lost):
    """The invariants that are broken when answers of the verb are lost, some in each of several calm stories."""
    with scratch() as folder:
        for occurrences in lost:
            plan = FaultPlan(tuple(VerbFails(CrashPoint(verb, "after"), n) for n in occurrences))
            verdict = run_history(SEED, folder=folder, plan=plan, says=STORY)
            yield from (violation.invariant for violation in verdict.violations)


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_stays_taken(verb):
    assert set(broken(verb, ODD_AND_EVEN)) == set()


@pytest.mark.soak
@pytest.mark.parametrize("verb", VERBS)
def test_nothing_stays_taken_when_one_answer_is_lost(verb):
    assert set(broken(verb, EACH)) == set()


def test_a_claim_without_a_name_would_stay_taken(monkeypatch):
    honest = claim_mailboxes.script

    def nameless(node, *, name="", limit):
        return (yield from honest(node, limit=limit))

    monkeypatch.setattr(claim_mailboxes, "script", nameless)
    assert "I15" in broken("claim_work", EACH)


def test_a_compression_begun_unheard_of_would_stay_open(monkeypatch):
    async def forgetful(_compressor):
        return None

    monkeypatch.setattr(Compressor, "_end_unsure", forgetful)
    assert "I15" in broken("begin_operation", EACH)
