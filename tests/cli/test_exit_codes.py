"""What the command line's exit codes promise: wrong usage is 2, and a folder that no process serves is not well."""

import asyncio
import json
import os
import pty
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.api.auth.access_token import Scope
from holdfast.cli import Terminal as Output
from holdfast.cli.commands import app
from holdfast.memory.delivery import DeliveryState
from holdfast.memory.notes import Target
from holdfast.outbox.post import ReplyState
from holdfast.sessions.finalisation import FinishStep
from tests.support.processes import Up

QUIET = {"HOLDFAST_DATA": None, "HOLDFAST_CONFIG": None, "HOLDFAST_TOKEN": None, "NO_COLOR": "1", "COLUMNS": "400"}


def run(*arguments: str | Path):
    return CliRunner().invoke(app, [*map(str, arguments)], env=QUIET, prog_name="holdfast")


async def beside(*arguments: str | Path):
    return await asyncio.to_thread(run, *arguments)


def values(states) -> list[str]:
    return [one.value for one in states]


FIXED = [
    (("deliveries", "--state"), values(DeliveryState)),
    (("replies", "--state"), values(ReplyState)),
    (("extractions", "--state"), values(FinishStep)),
    (("finalisations", "--state"), values(FinishStep)),
    (("memory", "add", "tea", "--target"), values(Target)),
    (("memory", "replace", "1", "tea", "--target"), values(Target)),
    (("memory", "remove", "1", "--target"), values(Target)),
    (("token", "new", "--scope"), values(Scope)),
]


@pytest.mark.parametrize(("words", "allowed"), FIXED)
def test_a_value_outside_a_fixed_set_is_wrong_usage_and_the_set_is_named(words, allowed, tmp_path):
    done = run(*words, "foo", "--data", tmp_path)
    assert (done.exit_code, "Traceback" in done.output) == (2, False)
    assert "foo" in done.stderr
    assert all(value in done.stderr for value in allowed)
    helped = run(*[word for word in words[:2] if not word.startswith("-")], "--help").stdout
    assert all(value in helped for value in allowed)
    as_json = run(*words, "foo", "--data", tmp_path, "--json")
    error = json.loads(as_json.stdout)["error"]
    assert (as_json.exit_code, error["code"], "foo" in error["message"]) == (2, "invalid_usage", True)
    assert all(value in error["message"] for value in allowed)


@pytest.mark.parametrize(("words", "allowed"), FIXED)
def test_every_value_of_a_fixed_set_is_taken(words, allowed, tmp_path):
    for value in allowed:
        assert run(*words, value, "--data", tmp_path / "none", "--json").exit_code in {0, 1}


@pytest.mark.parametrize("wrong", [["nonsense"], ["show"], ["sessions", "--limit", "0"], ["sessions", "--colour"]])
def test_wrong_usage_is_told_to_programs_too(wrong):
    done = run(*wrong, "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["error"]["code"] == "invalid_usage"
    assert run(*wrong).stdout == ""


# --- whether a process serves ----------------------------------------------------------------------


async def test_health_and_channels_fail_while_no_process_serves_the_folder(tmp_path):
    data = tmp_path / "data"
    up = await Up.start(data)
    served = await beside("health", "--data", data, "--json")
    assert (served.exit_code, json.loads(served.stdout)["ok"], json.loads(served.stdout)["served"]) == (0, True, True)
    listed = await beside("channels", "--data", data, "--json")
    assert (listed.exit_code, json.loads(listed.stdout)) == (0, {"served": True, "channels": []})

    await up.kill()  # its status file stays behind
    assert (data / "channels.json").exists()
    for words in (("health",), ("channels",)):
        done = await beside(*words, "--data", data)
        assert done.exit_code == 1, words
        assert "no process serves" in done.output.lower()
    dead = json.loads((await beside("health", "--data", data, "--json")).stdout)
    assert (dead["ok"], dead["served"], dead["code"]) == (False, False, "not_served")
    assert isinstance(dead["proved_write_ms"], int)  # the folder itself is well
    assert json.loads((await beside("channels", "--data", data, "--json")).stdout) == {"served": False, "channels": []}

    again = await Up.start(data)
    assert (await beside("health", "--data", data)).exit_code == 0
    assert await again.stop() == 0
    assert (await beside("health", "--data", data)).exit_code == 1


async def test_a_status_file_of_an_earlier_process_with_the_same_number_is_not_believed(tmp_path):
    """In a container every process may have the number 1."""
    data = tmp_path / "data"
    first = await Up.start(data)
    await first.kill()
    left = (data / "channels.json").read_text()
    second = await Up.start(data)
    assert (await beside("channels", "--data", data)).exit_code == 0
    (data / "channels.json").write_text(left.replace(str(first.process.pid), str(second.process.pid)))
    assert json.loads((await beside("channels", "--data", data, "--json")).stdout) == {"served": False, "channels": []}
    assert await second.stop() == 0


# --- a lost terminal -------------------------------------------------------------------------------


@pytest.fixture
def hangups():
    """Processes that this test starts are told of a hangup, even when the suite itself runs under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


class Terminal:
    """A process with a terminal of its own, which can be lost as when a window is closed."""

    def __init__(self, *arguments: str | Path, sees: bytes) -> None:
        pid, self._screen = pty.fork()
        if pid == 0:
            environment = {**os.environ, "NO_COLOR": "1"}
            os.execve(sys.executable, [sys.executable, "-m", "holdfast", *map(str, arguments)], environment)
        self._pid = pid
        self.read_until(sees)

    def read_until(self, sees: bytes) -> None:
        seen = b""
        while sees not in seen:
            seen += os.read(self._screen, 4096)

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def lose(self, then: Callable[[], int] | None = None) -> int:
        """Close the terminal; the exit code of the process, which is told to end after `then` went well."""
        os.close(self._screen)
        if then is not None:
            code = then()
            os.kill(self._pid, signal.SIGTERM)
            assert code == 0
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def test_the_gateway_ends_cleanly_when_its_terminal_is_closed(tmp_path, hangups):
    data = tmp_path / "data"
    terminal = Terminal("up", "--data", data, "--port", "0", sees=b"ready    http")
    assert terminal.lose() == 0
    assert '"runtime.closed"' in (data / "holdfast.log").read_text()


def test_a_chat_whose_terminal_is_closed_ends_cleanly_and_keeps_what_was_said(tmp_path, hangups):
    data = tmp_path / "data"
    terminal = Terminal("chat", "--data", data, sees=b"you> ")
    terminal.type("My cat is called Byron.\n")
    terminal.read_until(b"main> ")
    assert terminal.lose() == 0
    assert '"runtime.closed"' in (data / "holdfast.log").read_text()
    assert run("send", "What is it called?", "--wait", "--data", data).exit_code == 0  # the next process answers both
    (session,) = json.loads(run("sessions", "--data", data, "--json").stdout)["sessions"]
    assert "Byron" in run("show", session["id"], "--data", data).stdout


def test_a_gateway_with_a_terminal_survives_a_hangup_that_is_a_request(tmp_path, hangups):
    data = tmp_path / "data"
    terminal = Terminal("up", "--data", data, "--port", "0", sees=b"ready    http")
    done = run("reload", "--data", data)
    assert (done.exit_code, done.stdout) == (0, "Nothing has changed.\n")
    assert terminal.lose() == 0


def test_a_gateway_under_nohup_survives_its_terminal_and_can_be_reloaded(tmp_path):
    data = tmp_path / "data"
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        terminal = Terminal("up", "--data", data, "--port", "0", sees=b"ready    http")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert terminal.lose(then=lambda: run("reload", "--data", data).exit_code) == 0


async def test_a_process_that_was_started_to_survive_its_terminal_does(tmp_path):
    """`nohup` starts a process with the signal ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        up = await Up.start(tmp_path / "data")
    finally:
        signal.signal(signal.SIGHUP, before)
    os.kill(up.process.pid, signal.SIGHUP)
    async with up.client() as client:
        assert (await client.get("/healthz")).status_code == 200
    assert await up.stop() == 0


def test_what_is_written_to_a_lost_terminal_is_no_error():
    screen, terminal = pty.openpty()
    with Output(terminal, "w") as output:
        assert output.write(b"shown") == 5
        os.close(screen)
        assert output.write(b"lost") == 4
