"""The doctor on homes that a real Hermes left: silent on healthy ones, right about damaged ones, silent after a repair.

`HOLDFAST_HERMES_PYTHON_OLD` names the interpreter of Hermes 0.14.0; without it, only the current release is tried.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.hermes.doctor.examination import examine
from holdfast.hermes.doctor.finding import Severity
from holdfast.hermes.doctor.repair import repair_in_place

pytestmark = [pytest.mark.hermes, pytest.mark.timeout(900)]
RUN = Path(__file__).with_name("gateway_run.py")
SIZES = ("tokens=4500", "chars=2000")
OLD = os.environ.get("HOLDFAST_HERMES_PYTHON_OLD", "")
needs_old = pytest.mark.skipif(not OLD, reason="HOLDFAST_HERMES_PYTHON_OLD names no Hermes 0.14.0")


def run(python, home, scenario, *options, code=0):
    done = subprocess.run(
        [str(python), str(RUN), str(home), scenario, *options], check=False, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def wrong(home):
    found = examine(home, time.time() + 600).findings
    return [one.kind.code for one in found if one.severity is not Severity.INFO]


def repaired(python, home):
    """Repair the home, let the real Hermes compress and answer, and search in it."""
    result = repair_in_place(home, home / "backups" / "before", time.time() + 600)
    assert result.after.is_silent
    assert wrong(home) == []
    assert "Answer to: A message about a heron." in run(python, home, "compress")
    with sqlite3.connect(home / "state.db") as db:
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert db.execute("select count(*) from messages_fts where messages_fts match 'heron'").fetchone()[0] >= 1


def test_a_compressed_chat_is_healthy(hermes_python, tmp_path):
    run(hermes_python, tmp_path, "rotate", "turns=12", *SIZES)
    assert wrong(tmp_path) == []


@pytest.mark.parametrize(("in_place", "kind"), [("true", "turn_archived_uncovered"), ("false", "turn_left_in_parent")])
def test_a_turn_that_was_answered_during_compress(in_place, kind, hermes_python, tmp_path):
    run(hermes_python, tmp_path, "busy", f"in_place={in_place}")
    assert kind in wrong(tmp_path)
    repaired(hermes_python, tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="the process kills itself with SIGKILL")
@pytest.mark.parametrize("at", [2, 8, 9])
def test_a_gateway_that_was_killed_while_it_rotated(at, hermes_python, tmp_path):
    run(hermes_python, tmp_path, "killed", f"at={at}", "turns=8", "in_place=false", *SIZES, code=-signal.SIGKILL)
    assert "stale_lock" in wrong(tmp_path)
    repaired(hermes_python, tmp_path)


@needs_old
def test_an_old_rotating_chat_is_healthy(tmp_path):
    run(OLD, tmp_path, "rotate", "turns=14", *SIZES)
    assert wrong(tmp_path) == []


@needs_old
def test_an_old_hermes_deletes_a_turn_that_was_answered_during_compress(tmp_path):
    run(OLD, tmp_path, "busy")
    assert wrong(tmp_path) == ["turn_lost"]
    repaired(OLD, tmp_path)


@needs_old
@pytest.mark.parametrize(
    ("at", "kind"), [(1, "ended_without_child"), (2, "empty_continuation"), (3, "routing_to_ended")]
)
def test_an_old_gateway_that_was_killed_while_it_rotated(at, kind, tmp_path):
    run(OLD, tmp_path, "killed", f"at={at}", "turns=8", *SIZES, code=-signal.SIGKILL)
    assert kind in wrong(tmp_path)
    repaired(OLD, tmp_path)
