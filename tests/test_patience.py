"""A test's limit means that it hangs: a slow machine does not reach it, and a test that hangs does."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import CROWDING_MAX, Watch, crowding, within

ROOT = Path(__file__).parents[1]


class Time:
    def __init__(self) -> None:
        self.now = 0.0
        self.crowded = 1.0

    def watch(self, limit_s: float) -> Watch:
        return Watch(limit_s, now=lambda: self.now, crowded=lambda: self.crowded)


def test_on_a_quiet_machine_a_second_is_a_second():
    time = Time()
    watch = time.watch(10)
    time.now = 9
    assert watch.left_s() == 1
    time.now = 10
    assert watch.left_s() == 0


def test_on_a_crowded_machine_a_second_counts_as_the_share_that_a_process_gets():
    time = Time()
    watch = time.watch(10)
    time.now, time.crowded = 60, 12
    assert watch.left_s() == 5
    time.now, time.crowded = 65, 1  # the others have gone
    assert watch.left_s() == 0


def test_however_crowded_a_machine_says_it_is_a_limit_ends():
    assert 1 <= crowding() <= CROWDING_MAX


async def test_what_hangs_on_an_event_loop_is_given_up():
    with pytest.raises(TimeoutError):
        async with within(0.05):
            await asyncio.Event().wait()


async def test_what_ends_in_time_is_left_alone():
    async with within(30):
        await asyncio.sleep(0)


PROGRAM = """
import asyncio, threading
def test_waits(): threading.Event().wait()
async def test_awaits(): await asyncio.Event().wait()
def test_is_well(): pass
"""


def test_a_test_that_hangs_fails_and_the_next_one_runs(tmp_path):
    (tmp_path / "test_hanging.py").write_text(PROGRAM)
    words = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.support.time_limit",
        "--timeout",
        "0.5",
        "-c",
        str(ROOT / "pyproject.toml"),
    ]
    command = [sys.executable, "-m", "pytest", *words, "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "2 failed, 1 passed" in done.stdout, done.stdout
    assert "Timeout" in done.stdout
