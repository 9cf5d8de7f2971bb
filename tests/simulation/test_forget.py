"""A forgotten person has no byte left in the database, its log or a provider, under every fault; others lose nothing
(I16).

Each history is one seed, as in `test_histories`. Mutants of forgetting are tried in `test_mutants`.
"""

import pytest

from holdfast.testing.crash import CrashPoint
from holdfast.testing.forgetting import VERBS, run_forgetting
from holdfast.testing.history import scratch
from holdfast.testing.report import describe

HISTORIES = 36
FIRST = 20_000


@pytest.fixture(scope="module")
def verdicts():
    with scratch() as folder:
        return [run_forgetting(seed, folder=folder) for seed in range(FIRST, FIRST + HISTORIES)]


def total(verdicts, what):
    return sum(one.counts[what] for one in verdicts)


def test_nothing_of_a_forgotten_person_is_left_and_others_lose_nothing(verdicts):
    assert "\n".join(describe(one.seed, one.violations) for one in verdicts if one.violations) == ""


def test_histories_forget_something_and_meet_every_kind_of_fault(verdicts):
    """A history without faults in which the person said nothing proves nothing."""
    assert total(verdicts, "entries") > 100
    assert total(verdicts, "summaries") > 20
    assert total(verdicts, "recalls") > 20
    assert total(verdicts, "erasure") > 50
    assert total(verdicts, "unanswered") > 5
    assert total(verdicts, "done") > 20
    assert total(verdicts, "pending") > 2
    assert {kind for one in verdicts for kind in one.crashes} == {
        "verb",
        "failed verb",
        "statement",
        "commit",
        "committed",
    }
    for verb in VERBS:
        before, after = (sum(one.passed[CrashPoint(verb, side)] for one in verdicts) for side in ("before", "after"))
        assert before > after > 0, f"no node died during {verb}"


def test_the_same_seed_forgets_in_the_same_way(verdicts):
    with scratch() as folder:
        assert run_forgetting(FIRST, folder=folder).digest == verdicts[0].digest
