"""`holdfast config check --connect` tries everything for real, over sockets: at once, briefly, and without effect."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager

import pytest
from typer.testing import CliRunner

from holdfast.cli.commands import app
from tests.platforms.discord import FakeDiscord
from tests.platforms.slack import FakeSlack
from tests.platforms.telegram import FakeTelegram
from tests.support.honcho_server import HonchoServer

QUIET = {"HOLDFAST_DATA": None, "HOLDFAST_CONFIG": None, "HOLDFAST_TOKEN": None}


def run(*words, **environment):
    return CliRunner().invoke(app, ["config", "check", *words], env={**QUIET, **environment}, prog_name="holdfast")


async def attempts(tmp_path, table, *words, **environment):
    file = tmp_path / "holdfast.toml"
    file.write_text(table)
    where = ("--config", str(file), "--data", str(tmp_path / "data"))
    done = await asyncio.to_thread(run, "--connect", "--json", *where, *words, **environment)
    assert "canary" not in done.output
    assert not (tmp_path / "data").exists(), "nothing is made here either"
    return done.exit_code, [(one["ok"], one["detail"]) for one in json.loads(done.stdout)["attempts"]]


def nobody_there():
    """An address that refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


@asynccontextmanager
async def silence():
    """A server that takes connections and never answers."""

    async def hold(reader, writer):
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@asynccontextmanager
async def vendor(key):
    """A vendor that lists its models to any caller with the key, and nothing else."""
    asked = []

    async def answer(reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append(head.split("\r\n")[0])
        is_known = key in head
        body = json.dumps({"object": "list", "data": [{"id": "m-1", "object": "model", "created": 0, "owned_by": "v"}]})
        shown = body if is_known else '{"error": {"message": "canary-of-the-vendor"}}'
        status = "200 OK" if is_known else "401 Unauthorized"
        kind = "Content-Type: application/json\r\nConnection: close"
        writer.write(f"HTTP/1.1 {status}\r\n{kind}\r\nContent-Length: {len(shown)}\r\n\r\n{shown}".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
    finally:
        server.close()


PLAIN = '[agents.main]\nmodel = "practice"\n'
HONCHO = PLAIN + '[agents.main.memory.honcho]\nurl = "{url}"\napi_key_env = "KEY"\n'
HINDSIGHT = PLAIN + '[agents.main.memory.hindsight]\nurl = "{url}"\n'
MODEL = '[agents.main.model]\nname = "openai:{name}"\nbase_url = "{url}/v1"\napi_key_env = "KEY"\n'
CLAUDE = '[agents.main.model]\nname = "anthropic:m-1"\nbase_url = "{url}"\napi_key_env = "KEY"\n'
TELEGRAM = PLAIN + '[agents.main.channels.telegram]\ntoken_env = "KEY"\napi_url = "{url}"\n'
DISCORD = PLAIN + '[agents.main.channels.discord]\ntoken_env = "KEY"\napi_url = "{url}"\n'
SLACK = PLAIN + '[agents.main.channels.slack]\ntoken_env = "KEY"\napp_token_env = "APP"\napi_url = "{url}"\n'
OFFLINE = (True, "runs offline")


async def test_honcho_is_asked_and_nothing_is_made_there(tmp_path):
    with HonchoServer() as server:
        table = HONCHO.format(url=server.url)
        assert await attempts(tmp_path, table, KEY="sesame") == (0, [(True, "available"), OFFLINE])
        assert (server.sessions(), server.made_empty) == ([], [])
        assert server.requests == [("POST", "/v3/workspaces/holdfast/sessions/list")]
        server.key = "another"
        code, ((ok, why), _) = await attempts(tmp_path, table, KEY="sesame")
        assert (code, ok, "KEY" in why) == (1, False, True)


async def test_a_model_is_looked_up_in_its_vendor_s_list_and_not_asked(tmp_path):
    async with vendor("sk-good") as (url, asked):
        listed = await attempts(tmp_path, MODEL.format(url=url, name="m-1"), KEY="sk-good")
        assert listed == (0, [(True, "the vendor lists it")])
        other = await attempts(tmp_path, MODEL.format(url=url, name="m-2"), KEY="sk-good")
        assert (other[0], "not among the first 1 models" in other[1][0][1]) == (0, True)
        wrong = await attempts(tmp_path, MODEL.format(url=url, name="m-1"), KEY="sk-wrong")
        assert (wrong[0], "refused our key" in wrong[1][0][1]) == (1, True)
        claude = await attempts(tmp_path, CLAUDE.format(url=url), KEY="sk-good")
        assert claude == (0, [(True, "the vendor lists it")])
    assert {line.split()[0] for line in asked} == {"GET"}


@pytest.mark.parametrize("kind", ["telegram", "discord", "slack"])
async def test_a_bot_is_asked_for_its_name_and_receives_nothing(tmp_path, kind):
    make, table = {
        "telegram": (FakeTelegram, TELEGRAM),
        "discord": (FakeDiscord, DISCORD),
        "slack": (FakeSlack, SLACK),
    }[kind]
    async with make() as server:
        token, name = known_bot(server, kind)
        text = table.format(url=server.api_url if kind == "slack" else server.url)
        good = await attempts(tmp_path, text, KEY=token, APP="xapp-1-a")
        assert good == (0, [(True, name), OFFLINE])
        code, ((ok, why), _) = await attempts(tmp_path, text, KEY=wrong_token(kind), APP="xapp-1-a")
        assert (code, ok) == (1, False)
        assert "token" in why


def known_bot(server, kind):
    """The token of a bot that the platform knows, and what it is called there."""
    if kind == "discord":
        return server.add_bot("ada_bot").token, "@ada_bot"
    return server.bot("ada_bot").token, "@ada_bot"


def wrong_token(kind):
    return {"telegram": "99:nobody-knows-this", "discord": "nobody.knows.this", "slack": "xoxb-nobody"}[kind]


@pytest.mark.parametrize("table", [HONCHO, HINDSIGHT, MODEL, CLAUDE, TELEGRAM, DISCORD, SLACK])
async def test_what_cannot_be_reached_and_what_hangs_is_said_within_its_time(tmp_path, table):
    words = {"KEY": "1:sesame", "APP": "xapp-1-a"}
    if table is SLACK:
        words["KEY"] = "xoxb-1"
    code, found = await attempts(tmp_path, table.format(url=nobody_there(), name="m-1"), **words)
    assert (code, found[0][0]) == (1, False), found
    async with silence() as url:
        code, found = await attempts(tmp_path, table.format(url=url, name="m-1"), "--wait", "0.5", **words)
    assert (code, found[0]) == (1, (False, "no response within 0.5 s"))


async def test_all_are_tried_at_the_same_time_and_each_is_told(tmp_path):
    async with silence() as url:
        agents = [TELEGRAM.replace("main", f"a{n}").format(url=url) for n in range(4)]
        file = tmp_path / "holdfast.toml"
        file.write_text("".join(agents).replace("KEY", "KEY0", 1))
        tokens = {"KEY0": "1:a"}
        text = file.read_text()
        for n in range(1, 4):
            text = text.replace('"KEY"', f'"KEY{n}"', 1)
            tokens[f"KEY{n}"] = f"{n + 1}:a"
        file.write_text(text)
        done = await asyncio.to_thread(
            run, "--connect", "--wait", "1", "--json", "--config", str(file), "--data", str(tmp_path / "d"), **tokens
        )
    found = [one for one in json.loads(done.stdout)["attempts"] if one["kind"] == "channel"]
    assert [one["agent"] for one in found] == ["a0", "a1", "a2", "a3"]
    assert all(one["duration_ms"] >= 900 for one in found)
    shown = await asyncio.to_thread(run, "--config", str(file), "--data", str(tmp_path / "d"), **tokens)
    assert (shown.exit_code, "connects" in shown.stdout) == (0, False), "without --connect no platform is asked"


# --- memory that is silently left out --------------------------------------------------------------


def test_naming_one_provider_says_that_the_embedded_ones_are_off_and_how_to_keep_them(tmp_path):
    file = tmp_path / "holdfast.toml"
    file.write_text(HINDSIGHT.format(url="http://127.0.0.1:1"))
    words = ("--config", str(file), "--data", str(tmp_path / "data"))
    done = run(*words)
    assert done.exit_code == 0
    note = next(line for line in done.stdout.splitlines() if line.startswith("note"))
    tables = ("[agents.main.memory.local]", "[agents.main.memory.files]")
    assert all(part in note for part in ("main", "hindsight only", *tables))
    (note,) = json.loads(run(*words, "--json").stdout)["notes"]
    assert "local" in note
    file.write_text(file.read_text() + "[agents.main.memory.local]\n")
    (note,) = json.loads(run(*words, "--json").stdout)["notes"]
    assert ("[agents.main.memory.files]" in note, "[agents.main.memory.local]" in note) == (True, False)
    file.write_text(file.read_text() + "[agents.main.memory.files]\n")
    assert json.loads(run(*words, "--json").stdout)["notes"] == []
    file.write_text(PLAIN)
    assert json.loads(run(*words, "--json").stdout)["notes"] == []
