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


def broken(verb):
    """The invariants that are broken when the answer of some call of the verb is lost, in an otherwise calm story."""
    found = set()
    with scratch() as folder:
        for occurrence in OCCURRENCES:
            plan = FaultPlan((VerbFails(CrashPoint(verb, "after"), occurrence),))
            verdict = run_history(SEED, folder=folder, plan=plan, says=STORY)
            found |= {violation.invariant for violation in verdict.violations}
    return found


@pytest.mark.parametrize(
    "verb", ["claim_work", "end_turn", "begin_operation", "release_claim", "accept_message", "commit_summary"]
)
def test_nothing_stays_taken(verb):
    assert broken(verb) == set()


def test_a_claim_without_a_name_would_stay_taken(monkeypatch):
    honest = claim_mailboxes.script

    def nameless(node, *, name="", limit):
        return (yield from honest(node, limit=limit))

    monkeypatch.setattr(claim_mailboxes, "script", nameless)
    assert "I15" in broken("claim_work")


def test_a_compression_begun_unheard_of_would_stay_open(monkeypatch):
    async def forgetful(_compressor):
        return None

    monkeypatch.setattr(Compressor, "_end_unsure", forgetful)
    assert "I15" in broken("begin_operation")
