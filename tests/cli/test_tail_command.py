"""The promise: `holdfast tail` prints what happens beside a serving process, and ends when nobody reads it."""

import asyncio
import json
import re
import signal
import subprocess
import sys

import pytest

from holdfast.cli.output import INTERRUPTED
from holdfast.cli.tail import TailPrinter
from holdfast.cli.times import shown_in
from holdfast.kernel.ids import Instant
from holdfast.monitor.tail import TailEvent
from holdfast.monitor.timeline_step import Mark
from tests.cli.test_cli import POSIX, environment, here, refused
from tests.support.patience import HANGS_S, within
from tests.support.processes import Up, start


async def lines_until(process, is_last):
    """The lines of a process, to the first of which this is true."""
    found: list[str] = []
    async with within(HANGS_S):
        while not found or not is_last(found[-1]):
            found.append((await process.stdout.readline()).decode())
            assert found[-1], found
    return found


async def test_what_happens_is_printed_as_it_happens_beside_a_serving_process(tmp_path):
    data = tmp_path / "data"
    up = await Up.start(data)
    as_json = await start("tail", "--data", str(data), "--json")
    as_text = await start("tail", "--data", str(data), "--utc")
    (first,) = await lines_until(as_json, lambda _: True)
    assert json.loads(first)["kind"] == "tail"
    (day,) = await lines_until(as_text, lambda _: True)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d UTC\n", day)
    await asyncio.to_thread(here, "send", "My cat is called Byron.", "--chat", "ada", "--wait", "--data", data)
    events = [json.loads(line) for line in await lines_until(as_json, lambda line: '"kind":"reply"' in line)]
    assert [one["text"] for one in events if one["kind"] == "message"] == ["My cat is called Byron."]
    assert {"message", "turn", "model", "reply"} <= {one["kind"] for one in events}
    assert all(isinstance(one["at"], int) and one["agent"] == "main" for one in events)
    told = await lines_until(as_text, lambda line: "reply can be fetched" in line)
    assert re.search(r"(?m)^\d\d:\d\d:\d\d main  ada in ada: accepted: My cat is called Byron\.  \(msg_", "".join(told))
    as_text.send_signal(signal.SIGINT)
    assert await as_text.wait() == INTERRUPTED
    as_json.kill()
    await as_json.wait()
    await up.stop()


@pytest.mark.skipif(not POSIX, reason="a shell")
def test_a_closed_pipe_ends_it_although_nothing_happens(tmp_path):
    here("send", "hello", "--data", tmp_path)
    command = f'"{sys.executable}" -m holdfast tail --data "{tmp_path}" | head -1'
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, env=environment(), check=False, timeout=HANGS_S
    )
    assert (done.stderr, done.stdout.count("\n")) == ("", 1)


def test_an_unknown_agent_is_refused(tmp_path):
    (tmp_path / "holdfast.toml").write_text("[agents.main]\n")
    here("send", "hello", "--data", tmp_path)
    refused(here("tail", "--agent", "nobody", "--data", tmp_path), "agent_not_found")


def test_a_narrow_terminal_shows_every_word(monkeypatch, capsys):
    monkeypatch.setattr("holdfast.cli.tail.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    event = TailEvent(
        at=Instant(1_700_000_000_000),
        kind="message",
        agent="main",
        what="ada in home: refused",
        proof="msg_1; the chat sends too many",
        text="Where is\norder \x1b[2J B-1077?",
        mark=Mark.FAILED,
    )
    with shown_in(utc=True):
        TailPrinter(as_json=False).print(event)
    assert capsys.readouterr().out.splitlines() == [
        "2023-11-14 UTC",
        "22:13:20 main  ✗ ada in home: refused:",
        "         Where is order \\x1b[2J B-1077?",
        "         (msg_1; the chat sends too",
        "         many)",
    ]
