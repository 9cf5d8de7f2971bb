"""`holdfast sim` tells the truth: 0 only when nothing was lost, and a failure small enough to be understood."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from holdfast.cli.commands import app
from holdfast.testing import campaign
from holdfast.testing.campaign import run_chunk, shrunk
from holdfast.testing.history import run_history, scratch
from holdfast.testing.mutants import MUTANTS
from holdfast.testing.report import Violation
from holdfast.testing.world import World

SHORTEST = "2"  # the seed of a history with few steps


def sim(*arguments):
    return CliRunner().invoke(app, ["sim", *arguments])


def test_the_digest_of_a_run_does_not_depend_on_the_number_of_workers(monkeypatch):
    monkeypatch.setattr(campaign, "CHUNK", 2)  # three pieces of work, for one worker and for two:
    monkeypatch.setattr(campaign, "MEASURED_MAX", 2)  # one is measured, and two may be under way at once
    alone = sim("--histories", "5", "--seed", SHORTEST, "--no-mutants", "--jobs", "1", "--json")
    assert all(line.startswith("histories and mutants: ") for line in alone.stderr.splitlines())
    spread = sim("--histories", "5", "--seed", SHORTEST, "--no-mutants", "--jobs", "2", "--json")
    assert (alone.exit_code, spread.exit_code) == (0, 0)
    assert json.loads(alone.stdout) == json.loads(spread.stdout)
    report = json.loads(alone.stdout)
    assert (report["ok"], report["histories"], report["violations"]) == (True, 5, [])
    assert report["coverage"]["histories"] == 2


def test_a_broken_guarantee_is_reported_with_its_seed_and_a_small_plan():
    with MUTANTS["order"].applied():
        found = sim("--histories", "1", "--seed", SHORTEST, "--no-mutants", "--jobs", "1", "--json")
    assert found.exit_code == 1
    (violation,) = json.loads(found.stdout)["violations"]
    assert str(violation["seed"]) == SHORTEST
    assert "I3" in {one["invariant"] for one in violation["violations"]}
    assert all(part.startswith("Message") for part in violation["plan"])
    assert len(violation["plan"]) <= 4
    assert f"seed {SHORTEST} broke I3: " in found.stderr


def test_people_get_the_same_in_words():
    told = sim("--histories", "1", "--seed", SHORTEST, "--no-mutants", "--jobs", "1")
    assert told.exit_code == 0
    assert "0 histories broke an invariant" in told.stdout


def test_a_history_can_be_told():
    told = sim("--replay", SHORTEST)
    assert told.exit_code == 0
    assert "turn.committed" in told.stdout
    assert "every invariant holds" in told.stdout


def test_a_sound_history_cannot_be_shrunk():
    (verdict,) = run_chunk([int(SHORTEST)])
    with pytest.raises(ValueError, match="does not fail"):
        shrunk(verdict.with_violation(Violation("I1", "made up")))


@pytest.mark.parametrize("error", [LookupError("a bug"), asyncio.CancelledError()], ids=repr)
def test_an_error_that_reaches_a_client_is_a_finding_of_its_history(monkeypatch, error):
    async def fails(_world):
        raise error

    monkeypatch.setattr(World, "live_through", fails)
    with scratch() as folder:
        (found,) = run_history(1, folder=folder).violations
    assert found.invariant == "surprise"
    assert repr(error) in found.what
    assert "in fails (test_command.py:" in found.what
