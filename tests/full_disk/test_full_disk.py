"""On a real full file system every write fails with `store_full`.

Each test mounts a small tmpfs, which needs root. Opening is tried with every amount of space from none to enough,
because each file that SQLite and Holdfast make fails in a way of its own.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import statvfs
from pathlib import Path

import pytest

from holdfast.cli.status import StatusFile
from holdfast.kernel.errors import HoldfastError
from holdfast.memory.delivery import Delivered, Unreachable
from holdfast.models.practice import PracticeModel
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.testing.provider_guest import Guest
from holdfast.turns.policy import AgentPolicy
from tests.support.live import serve
from tests.support.local_provider import open_local

pytestmark = [pytest.mark.full_disk, pytest.mark.timeout(300)]
DISK_KIB = 4_096
FREE_KIB = (*range(0, 64, 4), 80, 96, 128)
ENOUGH_KIB = 1_024


@contextmanager
def mounted(folder: Path) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_KIB}k", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(disk: Path, free_kib: int) -> None:
    """Leave so much space and no more."""
    (disk / "ballast").unlink(missing_ok=True)
    found = statvfs(disk)
    size = found.f_bavail * found.f_bsize - free_kib * 1024
    with suppress(OSError):  # the gateway wrote in the meantime, and the disk is full already
        (disk / "ballast").write_bytes(bytes(max(0, size)))


def agents():
    return make_agents(model=PracticeModel(), policy=AgentPolicy(memory={}))


@pytest.mark.parametrize("is_new", [True, False], ids=["a new folder", "a folder that was used"])
async def test_opening_needs_space_and_says_so_whichever_file_does_not_fit(tmp_path, is_new):
    met = []
    for free_kib in FREE_KIB:
        with mounted(tmp_path / "disk") as disk:
            if not is_new:
                async with await open_runtime(disk / "data", agents=agents()) as runtime:
                    await runtime.ask("c", "My cat is called Byron.")
            fill(disk, free_kib)
            try:
                async with await open_runtime(disk / "data", agents=agents()):
                    pass
            except HoldfastError as error:
                met.append((free_kib, error.code))
            (disk / "ballast").unlink()
            async with await open_runtime(disk / "data", agents=agents()) as runtime:
                await runtime.ask("c", "My dog is called Max.")
    assert len(met) > 5
    assert {code for _, code in met} == {"store_full"}


async def test_messages_are_refused_as_long_as_the_disk_is_full_and_what_was_accepted_is_answered(tmp_path):
    with mounted(tmp_path / "disk") as disk:
        async with serve(disk / "data", model=PracticeModel()) as live:
            assert (await live.say("My cat is called Byron.", id="first")).status_code == 202
            fill(disk, 0)
            refused = [await live.say("x" * 20_000, chat=f"c{n}", id=f"{n}") for n in range(40)]
            last = refused[-1]
            assert (last.status_code, code_of(last), "Retry-After" in last.headers) == (503, "store_full", True)
            assert {(one.status_code, code_of(one)) for one in refused} <= {(202, ""), (503, "store_full")}
            (disk / "ballast").unlink()
            assert (await live.say("My dog is called Max.", id="second")).status_code == 202
            for n, one in enumerate(refused):
                if one.status_code == 202:
                    assert await live.runtime.reply_to(one.json()["message"]), f"{n} was acknowledged"
            assert await live.runtime.reply_to((await live.say("And?", id="third")).json()["message"])


@pytest.mark.parametrize("free_kib", [0, 4, 16, 64])
async def test_health_is_not_ok_while_a_message_does_not_fit_although_a_check_does(tmp_path, free_kib):
    with mounted(tmp_path / "disk") as disk:
        async with serve(disk / "data", model=PracticeModel()) as live:
            assert (await live.get("/healthz")).status_code == 200
            fill(disk, free_kib)
            health = live.runtime._health
            health._proved = None  # the answer of a second ago
            found = await live.get("/healthz")
            assert (found.status_code, found.json()["code"]) == (503, "store_full")
            assert "message" not in found.json()
            assert (await live.get("/v1/status")).json()["code"] == "store_full"
            done = await asyncio.to_thread(run, "health", "--data", str(disk / "data"), "--json")
            assert (done.returncode, json.loads(done.stdout)["code"]) == (1, "store_full")
            (disk / "ballast").unlink()
            health._proved = None
            assert (await live.get("/healthz")).status_code == 200


async def test_the_status_file_of_a_full_disk_is_the_last_one_that_fitted(tmp_path):
    with mounted(tmp_path / "disk") as disk:
        async with serve(disk / "data", model=PracticeModel()) as live:
            file = StatusFile(disk / "data", live.runtime, as_json=True)
            file.keep()
            kept = (disk / "data" / "channels.json").read_bytes()
            await live.runtime.ask("c", "hello")
            fill(disk, 0)
            file.keep()
            assert (disk / "data" / "channels.json").read_bytes() == kept
            assert [path.name for path in (disk / "data").glob("channels*")] == ["channels.json"]
            (disk / "ballast").unlink()
            file.keep()
            assert (disk / "data" / "channels.json").read_bytes() != kept


def code_of(answer) -> str:
    return answer.json()["error"]["code"] if answer.status_code >= 400 else ""


async def test_the_search_index_tells_a_full_disk_at_every_step_and_takes_all_of_it_later(tmp_path):
    reasons = set()
    for free_kib in FREE_KIB:
        with mounted(tmp_path / "disk") as disk:
            provider = open_local(disk)
            guest = Guest(provider)
            fill(disk, free_kib)
            parcel = guest.said("My cat is called Byron. " * 400)
            (outcome,) = await provider.deliver([parcel])
            if not isinstance(outcome, Delivered):
                assert isinstance(outcome, Unreachable)
                reasons.add(outcome.reason)
            (disk / "ballast").unlink()
            assert isinstance((await provider.deliver([parcel]))[0], Delivered)
            await provider.close()
    assert reasons
    assert all("no space is left on the disk" in reason for reason in reasons), reasons


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "holdfast", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("is_new", [True, False], ids=["a new folder", "a folder that was used"])
@pytest.mark.parametrize("command", [["up", "--port", "0"], ["send", "--chat", "c", "hello"]], ids=["up", "send"])
async def test_a_command_on_a_full_disk_says_what_is_wrong_and_what_to_do(tmp_path, command, is_new):
    with mounted(tmp_path / "disk") as disk:
        if not is_new:
            async with await open_runtime(disk / "data", agents=agents()) as runtime:
                await runtime.ask("c", "hello")
        fill(disk, 0)
        done = await asyncio.to_thread(run, *command, "--data", str(disk / "data"), "--json")
        assert done.returncode == 1, done.stderr
        error = json.loads(done.stdout or done.stderr)["error"]
        assert error["code"] == "store_full"
        assert "Free disk space" in error["hint"]
        assert "Traceback" not in done.stderr
