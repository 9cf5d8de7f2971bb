"""`holdfast reload` and SIGHUP change what can change while the process serves, and never end it.

A file with an error changes nothing. Every reload is in the audit trail, with the user who asked for it.
"""

import json
import os
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.cli.reload_files import READY
from tests.cli.test_exit_codes import beside
from tests.support.fakes import soon
from tests.support.processes import Up, spawn

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has no such signal")
FIRST = """
[agents.main]
model = "practice"
instructions = "Be brief."
[agents.old]
model = "practice"
"""


def write(data: Path, text: str) -> None:
    data.mkdir(mode=0o700, exist_ok=True)
    (data / "holdfast.toml").write_text(text, encoding="utf-8")


@pytest.fixture
async def up(tmp_path):
    write(tmp_path / "data", FIRST)
    started = await Up.start(tmp_path / "data")
    yield started
    if started.process.returncode is None:
        assert await started.stop() == 0


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


async def reloaded(data: Path, *, code: int = 0) -> Any:
    done = await beside("reload", "--data", data, "--json")
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


async def answer(client: httpx.AsyncClient, agent: str, n: str) -> httpx.Response:
    return await client.post("/v1/messages", json={"agent": agent, "chat": "c", "id": n, "text": "hello"})


async def test_settings_of_agents_change_at_once(up, data):
    write(data, FIRST.replace("Be brief.", "Be long.") + "[agents.old.limits]\nmessage_bytes = 10\n")
    found = await reloaded(data)
    assert found == {
        "ok": True,
        "applied": ["agents.main.instructions", "agents.old.limits.message_bytes"],
        "restart": [],
        "problems": [],
    }
    async with up.client() as client:
        long = await client.post("/v1/messages", json={"agent": "old", "chat": "c", "id": "1", "text": "x" * 11})
        assert (long.status_code, long.json()["error"]["code"]) == (413, "message_too_large")


async def test_a_new_agent_begins_to_answer(up, data):
    async with up.client() as client:
        assert (await answer(client, "new", "1")).status_code == 404
        write(data, FIRST + "[agents.new]\nmodel = 'practice'\n[agents.new.channels.telegram]\ntoken_file = 'bot'\n")
        (data / "bot").write_text("123:abc", encoding="utf-8")
        (data / "bot").chmod(0o600)
        found = await reloaded(data)
        assert (found["applied"], found["restart"]) == (
            ["agents.new"],
            ["agents.new.channels.telegram.token_file"],
        )
        assert (await answer(client, "new", "1")).status_code == 202


async def test_what_needs_a_restart_is_named_until_there_is_one(up, data):
    text = """
    [server]
    port = 7999
    [agents.main]
    model = "practice"
    instructions = "Be brief."
    [agents.main.memory.local]
    every_turns = 2
    [agents.main.mcp.git]
    command = ["cat"]
    """
    write(data, text)
    waiting = [
        "agents.main.mcp.git.command",
        "agents.main.memory.local.every_turns",
        "agents.old",
        "server.port",
    ]
    for _ in range(2):
        found = await reloaded(data)
        assert (found["applied"], found["restart"]) == ([], waiting)
    async with up.client() as client:
        assert (await answer(client, "old", "1")).status_code == 202
    text = (await beside("reload", "--data", data)).stdout
    assert "restart   agents.old: needs a restart of `holdfast up`" in text


async def test_the_sharing_of_memories_changes_at_once(up, data):
    write(data, FIRST + "[agents.old.memory]\nsharing = 'agent'\n")
    assert (await reloaded(data))["applied"] == ["agents.old.memory.sharing"]


async def test_a_broken_file_changes_nothing_and_every_error_is_said(up, data):
    write(data, FIRST.replace("Be brief.", "Be long.") + "[agents.new]\nx = 1\ny = 2\nmodel = 'opnai:z'")
    found = await reloaded(data, code=1)
    assert (found["ok"], found["applied"], len(found["problems"])) == (False, [], 3)
    assert all(one["code"] == "config_invalid" for one in found["problems"])
    text = await beside("reload", "--data", data)
    assert (text.exit_code, "The previous configuration stays in force." in text.stdout) == (1, True)
    async with up.client() as client:
        assert (await answer(client, "new", "1")).status_code == 404
        assert (await client.get("/healthz")).status_code == 200
    write(data, "= not toml")
    (problem,) = (await reloaded(data, code=1))["problems"]
    assert "line 1, column 1" in problem["message"]
    write(data, FIRST)
    assert (await reloaded(data))["applied"] == []


async def test_a_reload_is_in_the_audit_trail_with_its_user(up, data):
    async with up.client() as client:

        async def changes() -> list[tuple[str, str, str]]:
            found = (await client.get("/v1/actions", params={"verb": "config.changed"})).json()["actions"]
            return [(one["actor"]["kind"], one["outcome"], one["code"] or "") for one in found]

        before = len(await changes())
        await reloaded(data)
        assert len(await changes()) == before, "nothing changed"
        write(data, FIRST.replace("Be brief.", "Be long."))
        await reloaded(data)
        write(data, "[agents.x]\ny = 1")
        await reloaded(data, code=1)
        assert sorted((await changes())[:2] if before else await changes())[-2:] == [
            ("user", "done", ""),
            ("user", "refused", "config_invalid"),
        ]


async def test_the_process_goes_on_answering_during_reloads(tmp_path):
    data = tmp_path / "data"
    write(data, FIRST)
    up = await Up.start(data)
    async with up.client() as client:
        for n in range(3):
            said = await client.post("/v1/messages", json={"chat": "c", "id": str(n), "text": "hello"})
            assert said.status_code == 202
            write(data, FIRST.replace("Be brief.", f"Be {n}."))
            os.kill(up.process.pid, signal.SIGHUP)
        assert (await answer(client, "main", "last")).status_code == 202
    assert (await reloaded(data))["ok"]
    assert await up.stop() == 0


async def test_signals_at_the_start_and_during_the_stop_are_no_harm(tmp_path):
    data = tmp_path / "data"
    write(data, FIRST)
    process = await spawn(data)
    assert process.stdout is not None
    line = await soon(process.stdout.readline())
    os.kill(process.pid, signal.SIGHUP)
    os.kill(process.pid, signal.SIGHUP)
    up = Up(process, json.loads(line)["url"])
    async with up.client() as client:
        assert (await client.get("/healthz")).status_code == 200
    assert (await reloaded(data))["ok"]
    process.send_signal(signal.SIGTERM)
    os.kill(process.pid, signal.SIGHUP)
    assert await process.wait() == 0
    assert '"runtime.closed"' in (data / "holdfast.log").read_text()
    assert not list(data.glob("reload*"))


async def test_nobody_serves(tmp_path):
    for data in (tmp_path / "none", tmp_path):
        done = await beside("reload", "--data", data, "--json")
        assert (done.exit_code, json.loads(done.stdout)["error"]["code"]) == (1, "not_served")


async def test_a_process_that_takes_no_requests_gets_no_signal(up, data):
    """An earlier release would end at the signal."""
    (data / READY).write_text("another process", encoding="utf-8")
    done = await beside("reload", "--data", data, "--json")
    assert (done.exit_code, json.loads(done.stdout)["error"]["code"]) == (1, "reload_unsupported")
