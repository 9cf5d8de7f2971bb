"""A turn is kept however its process ends, and however many processes of Hermes use one home."""

import os
import signal
import subprocess
import sys

import pytest

from holdfast.hermes.spool_reader import SpoolReader

AGENT = """
import os, signal, sys, threading
from holdfast.hermes.plugin import HoldfastMemory
home, name = sys.argv[1:]
def agent(session):
    memory = HoldfastMemory()
    memory.initialize(session, hermes_home=home, platform="cli", agent_context="primary")
    return memory
memory = agent(name)
memory.sync_turn(f"{name} 0", "a", session_id=name)
"""
ENDS = {
    "exit without atexit": ("os._exit(0)", 0),
    "kill -9": ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    "an exception": ("raise SystemExit(3)", 3),
}


def start(home, name, then):
    command = [sys.executable, "-c", AGENT + then, str(home), name]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ))


def turns(home):
    records = SpoolReader(home / "holdfast" / "spool").waiting()
    return [(one.content["session"], one.content["user"]) for one in records]


@pytest.mark.parametrize("end", ENDS)
def test_an_acknowledged_turn_survives_the_end_of_its_process(tmp_path, end):
    code, expected = ENDS[end]
    with start(tmp_path, "A", code) as process:
        assert process.wait() == expected
    assert turns(tmp_path) == [("A", "A 0")]


def test_several_processes_of_one_home_keep_each_turn_once(tmp_path):
    """All of them have a segment open before any of them goes on."""
    talk = """
print("ready", flush=True)
sys.stdin.readline()
for n in range(1, 20):
    memory.sync_turn(f"{name} {n}", "a", session_id=name)
os._exit(0)
"""
    names = ("A", "B", "C")
    processes = [start(tmp_path, name, talk) for name in names]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in processes:
        process.communicate(b"go\n")
        assert process.returncode == 0
    found = turns(tmp_path)
    for name in names:
        assert [text for session, text in found if session == name] == [f"{name} {n}" for n in range(20)]
    assert len({path.name.split("-")[0] for path in (tmp_path / "holdfast" / "spool").iterdir()}) == 3


def test_agents_that_are_dropped_without_a_call_lose_nothing(tmp_path):
    talk = """
for n in range(1, 5):
    memory = agent(name)  # the one before is evicted: no on_session_end, no shutdown
    memory.sync_turn(f"{name} {n}", "a", session_id=name)
os._exit(0)
"""
    with start(tmp_path, "A", talk) as process:
        assert process.wait() == 0
    assert turns(tmp_path) == [("A", f"A {n}") for n in range(5)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_during_a_turn_leaves_both_processes_usable(tmp_path):
    """The child must not wait for a lock that a thread of its parent held."""
    talk = """
from holdfast.hermes.plugin.spool import spool_of
with spool_of(home)._lock:
    child = os.fork()
    if child == 0:
        memory.sync_turn("child", "a", session_id=name)
        os._exit(0)
assert os.waitpid(child, 0)[1] == 0
memory.sync_turn("parent", "a", session_id=name)
os._exit(0)
"""
    with start(tmp_path, "A", talk) as process:
        assert process.wait() == 0
    assert sorted(text for _, text in turns(tmp_path)) == ["A 0", "child", "parent"]
