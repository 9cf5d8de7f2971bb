"""No fault of processes, models and platforms makes an acknowledged message lost, doubled or misfiled.

Each history is one seed: two or three nodes on one database, people who talk, and faults of every kind. `holdfast sim
--replay SEED` prints the events of a failing one; its seed is then added to seeds.json, which is replayed here forever.
"""

import json
from pathlib import Path

import pytest

from holdfast.testing.campaign import run_chunk
from holdfast.testing.history import run_history, scratch
from holdfast.testing.report import describe
from tests.simulation.short import FIRST, OTHERS, short

CHUNK = 40
# Of the chunks, one in so many runs before every push and the others in the soak. The hardest mutant needs at most 240
# histories of any kind to be killed (test_mutants.py), and `make sim` runs 2,000 whole ones with other seeds.
STRIDE = 9
CORPUS = json.loads((Path(__file__).parent / "seeds.json").read_text(encoding="utf-8"))


def told(verdicts):
    return "\n".join(describe(one.seed, one.violations) for one in verdicts if one.violations)


def chunks():
    for n, first in enumerate(OTHERS[::CHUNK]):
        yield first if n % STRIDE == 0 else pytest.param(first, marks=pytest.mark.soak)


@pytest.mark.parametrize("first", list(chunks()))
def test_no_history_breaks_an_invariant(first):
    with scratch() as folder:
        verdicts = [short(seed, folder) for seed in range(first, first + CHUNK)]
    assert len(verdicts) == CHUNK
    assert told(verdicts) == ""


@pytest.mark.parametrize("kept", CORPUS, ids=lambda kept: str(kept["seed"]))
def test_a_seed_that_once_failed_stays_mended(kept):
    with scratch() as folder:
        assert told([run_history(kept["seed"], folder=folder)]) == ""


def test_histories_meet_every_kind_of_fault_and_a_fifth_of_all_calls_to_providers_goes_wrong():
    """A simulator that breaks nothing proves nothing."""
    verdicts = run_chunk(range(FIRST, FIRST + 30))
    assert sum(one.kills for one in verdicts) > 10
    assert sum(one.pauses for one in verdicts) > 10
    assert sum(one.stops for one in verdicts) > 3
    assert {kind for one in verdicts for kind in one.crashes} == {
        "verb",
        "failed verb",
        "statement",
        "commit",
        "committed",
    }
    assert sum(one.counts["summary"] for one in verdicts) > 30
    assert sum(one.counts["delivery"] for one in verdicts) > 100
    assert sum(one.counts["effect"] for one in verdicts) > 100
    assert sum(one.counts["finalisation"] for one in verdicts) > 5
    calls = sum(one.counts["provider_call"] for one in verdicts)
    assert calls > 600
    assert 0.15 < sum(one.counts["provider_fault"] for one in verdicts) / calls < 0.25
    assert all(one.counts["provider_fault"] for one in verdicts if one.counts["provider_call"] > 20)
