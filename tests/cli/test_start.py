"""What a command loads before it does anything: the start of a process is most of what a short command costs.

Counted in modules, in a process of its own: seconds differ from machine to machine.
"""

import gc
import os
import subprocess
import sys

import pytest

from holdfast.cli import IMPORT_THRESHOLD
from holdfast.cli.output import OK
from holdfast.cli.running import COLLECT_THRESHOLD, outcome
from tests.support.patience import HANGS_S

HEAVY = {"discord", "httpx", "mcp", "openai", "pydantic_ai", "rich", "starlette", "uvicorn"}
SUBJECTS = {f"holdfast.{name}" for name in ("inbox", "memory", "outbox", "runtime", "sessions", "turns")}


def loaded(*arguments: str) -> set[str]:
    """The modules that a command has loaded when it ends."""
    command = (sys.executable, "-X", "importtime", "-m", "holdfast", *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_S, check=False, env=dict(os.environ))
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert "holdfast.cli.commands" in {line.rpartition("|")[2].strip() for line in lines}, done.stderr
    return {line.rpartition("|")[2].strip() for line in lines}


def of_holdfast(modules: set[str]) -> list[str]:
    return sorted(one for one in modules if one.startswith("holdfast"))


@pytest.mark.parametrize(("command", "modules_max"), [("--help", 10), ("version", 32)])
def test_a_command_that_opens_no_folder_loads_no_subject(command, modules_max):
    found = loaded(command)
    assert found.isdisjoint(HEAVY | SUBJECTS)
    assert len(of_holdfast(found)) <= modules_max, of_holdfast(found)


@pytest.mark.parametrize("command", ["sessions", "health", "token list"])
def test_a_command_that_reads_loads_no_server_and_no_vendor(tmp_path, command):
    found = loaded(*command.split(), "--data", str(tmp_path))
    assert found.isdisjoint(HEAVY)
    assert "holdfast.runtime.app" in found, "it came as far as the folder"
    assert len(of_holdfast(found)) <= 245, len(of_holdfast(found))


def test_a_command_collects_garbage_as_python_does():
    """Imports run with a higher threshold, which would let a server grow if it stayed."""
    before, found = gc.get_threshold(), list[tuple[bool, int]]()

    async def work() -> int:
        found.append((gc.isenabled(), gc.get_threshold()[0]))
        return OK

    gc.set_threshold(IMPORT_THRESHOLD)
    try:
        assert outcome(work, as_json=False) == OK
    finally:
        gc.set_threshold(*before)
    assert found == [(True, COLLECT_THRESHOLD)]
