"""Each guarantee, broken on purpose, is detected by its checker within a budget of histories.

Rules: D37.
"""

from pathlib import Path

import pytest

from holdfast.store.script import Verb
from holdfast.testing.campaign import run_mutant
from holdfast.testing.invariants import CHECKS
from holdfast.testing.mutants import MUTANTS

ROOT = Path(__file__).parents[2]

# Checked by a second recovery, by a second run, and in histories in which a person is forgotten; an error that no fault
# explains is found in the log.
JUDGED_ELSEWHERE = {"I13", "I16", "I18", "surprise"}


RARE = {name for name, mutant in MUTANTS.items() if mutant.rare}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.soak) if name in RARE else name for name in MUTANTS]
)
def test_the_mutant_dies_within_its_budget(name):
    fate = run_mutant(name)
    assert fate.killed, f"{name} survived {fate.histories} histories: {MUTANTS[name].what}"


@pytest.mark.parametrize("name", sorted(RARE))
def test_a_mutant_that_few_histories_show_names_a_test_that_shows_it(name):
    path, _, test = MUTANTS[name].rare.partition("::")
    assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8")


def test_every_invariant_has_a_mutant():
    guarded = {name for name, _ in CHECKS} | JUDGED_ELSEWHERE
    assert guarded == set().union(*(mutant.breaks for mutant in MUTANTS.values()))


def test_a_mutant_leaves_no_trace():
    for mutant in MUTANTS.values():
        patches = mutant.patches()
        before = [patched(target, name) for target, name, _ in patches]
        with mutant.applied():
            assert [patched(target, name) for target, name, _ in patches] != before
        assert [patched(target, name) for target, name, _ in patches] == before


def patched(target, name):
    """What a patch replaces: of a verb, its script."""
    found = getattr(target, name)
    return found.script if isinstance(found, Verb) else found
