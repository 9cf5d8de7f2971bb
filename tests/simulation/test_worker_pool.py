"""The promise: no worker process of a campaign outlives it, whether it was terminated, interrupted or killed; off a
terminal a long campaign says that it goes on."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support.patience import HANGS_S

SIM = [sys.executable, "-m", "holdfast", "sim", "--histories", "400", "--jobs", "2", "--no-mutants"]
WORKERS = 2
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def children_of(pid):
    """The processes below a process."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *children_of(int(child))]
    return found


async def begun(tmp_path):
    """A campaign whose workers are at work, and a descriptor of each."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = await asyncio.create_subprocess_exec(*SIM, stderr=asyncio.subprocess.PIPE, env=environment)
    assert process.stderr is not None
    workers: list[int] = []
    while len(workers) < WORKERS:
        line = await asyncio.wait_for(process.stderr.readline(), HANGS_S)
        assert line.startswith(b"histories and mutants: "), line
        workers = children_of(process.pid)
    return process, [os.pidfd_open(pid) for pid in workers]


async def end_of(worker):
    """Wait until the process of a descriptor has ended."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(worker, ended.set)
    await asyncio.wait_for(ended.wait(), HANGS_S)
    asyncio.get_running_loop().remove_reader(worker)
    os.close(worker)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)],
    ids=["terminated", "interrupted", "killed"],
)
async def test_its_workers_end_with_a_campaign(tmp_path, number, code):
    process, workers = await begun(tmp_path)
    process.send_signal(number)
    _, errors = await asyncio.wait_for(process.communicate(), HANGS_S)
    for worker in workers:
        await end_of(worker)
    assert (process.returncode, b"Traceback" in errors) == (code, False), errors
    if number is not signal.SIGKILL:
        assert not list(tmp_path.glob("holdfast-sim-*")), "its temporary files are removed"
