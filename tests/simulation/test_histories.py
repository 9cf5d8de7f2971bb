"""No fault of processes, models and platforms makes an acknowledged message lost, doubled or misfiled.

Each history is one seed: two or three nodes on one database, people who talk, and faults of every kind. `holdfast sim
--replay SEED` prints the events of a failing one; its seed is then added to seeds.json, which is replayed here forever.
"""

import json
from pathlib import Path

import pytest

from holdfast.testing.history import run_history, scratch
from holdfast.testing.report import describe
from tests.simulation.short import OTHERS, short

CHUNK = 40
# Of the chunks, one in so many runs before every push, after the 200 histories of test_coverage, and the others in the
# soak. The hardest mutant needs at most 240 histories of any kind to be killed (test_mutants.py), and `make sim` runs
# 2,000 whole ones with other seeds.
STRIDE = 45
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
