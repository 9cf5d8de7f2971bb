"""`holdfast up`, `channels`, `health` and HTTP show which bots are connected.

A bot that does not connect delays no other bot, and is never reported as connected.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from typer.testing import CliRunner

from holdfast.cli.commands import app
from tests.platforms.telegram import FakeTelegram
from tests.support.processes import Up

QUIET = {"HOLDFAST_DATA": None, "HOLDFAST_CONFIG": None, "HOLDFAST_TOKEN": None}
BOT = """
[agents.{agent}]
model = "practice"
[agents.{agent}.channels.telegram]
token_env = "{agent}"
api_url = "{url}"
"""


def here(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*map(str, arguments)], env=QUIET, prog_name="holdfast")
    return done.exit_code, done.stdout


@asynccontextmanager
async def two_bots(folder: Path) -> AsyncIterator[Up]:
    """Ada's bot is there; Bob's token is one that Telegram does not know."""
    async with FakeTelegram() as telegram:
        account = telegram.bot("ada_bot")
        config = folder / "holdfast.toml"
        config.write_text("".join(BOT.format(agent=agent, url=telegram.url) for agent in ("ada", "bob")))
        tokens = {"ada": account.token, "bob": "99:nobody-knows-this"}
        up = await Up.start(folder / "data", "--config", str(config), environment=tokens)
        try:
            yield up
        finally:
            await up.stop()


async def beside(*arguments: str | Path) -> tuple[int, str]:
    """A command beside this event loop."""
    return await asyncio.to_thread(here, *arguments)


async def heard(up: Up) -> dict[str, dict[str, object]]:
    """What `up` says of each channel after its ready line."""
    assert up.process.stdout is not None
    lines = [json.loads(await up.process.stdout.readline()) for _ in range(2)]
    assert {line["event"] for line in lines} == {"channel"}
    return {line["agent"]: line for line in lines}


async def test_a_bot_that_does_not_connect_is_told_everywhere_and_the_rest_is_well(tmp_path):
    data = tmp_path / "data"
    async with two_bots(tmp_path) as up:
        told = await heard(up)
        assert (told["ada"]["state"], told["ada"]["reason"]) == ("up", "@ada_bot, polling")
        assert told["bob"]["state"] == "down"
        assert "does not accept the bot's token" in str(told["bob"]["reason"])

        async with up.client() as client:
            found = {one["agent"]: one for one in (await client.get("/v1/channels")).json()["channels"]}
            only = (await client.get("/v1/channels", params={"agent": "ada"})).json()["channels"]
            assert (await client.get("/readyz")).status_code == 200
        assert (found["ada"]["state"], found["bob"]["state"], len(only)) == ("up", "down", 1)
        assert found["bob"]["attempts"] >= 1
        assert found["bob"]["since"] == told["bob"]["since"]

        code, listed = await beside("channels", "--data", data, "--json")
        assert (code, json.loads(listed)["served"]) == (1, True)
        states = [(one["agent"], one["state"]) for one in json.loads(listed)["channels"]]
        assert states == [("ada", "up"), ("bob", "down")]
        code, table = await beside("channels", "--data", data)
        assert (code, "@ada_bot" in table, "does not accept" in table) == (1, True, True)

        code, said = await beside("health", "--data", data)
        assert (code, said.startswith("ok: ")) == (0, True)
        assert "telegram (agent bob): down: Telegram does not accept" in said
        assert "agent ada" not in said
        code, said = await beside("health", "--data", data, "--json")
        assert [one["agent"] for one in json.loads(said)["channels_down"]] == ["bob"]

        _, made = await beside("token", "new", "--scope", "read", "--agent", "ada", "--data", data, "--json")
        async with up.client() as client:
            client.headers["Authorization"] = f"Bearer {json.loads(made)['secret']}"
            seen = (await client.get("/v1/channels")).json()["channels"]
            other = (await client.get("/v1/channels", params={"agent": "bob"})).json()["channels"]
        assert ([one["agent"] for one in seen], other) == (["ada"], [])
    assert json.loads((await beside("channels", "--data", data, "--json"))[1]) == {"served": False, "channels": []}


def test_what_a_process_that_was_killed_left_behind_is_not_told(tmp_path):
    line = {"agent": "ada", "channel": "telegram", "state": "up", "since": 0, "reason": "", "attempts": 0}
    (tmp_path / "channels.json").write_text(json.dumps({"pid": os.getpid(), "channels": [line]}))
    assert json.loads(here("channels", "--data", tmp_path, "--json")[1]) == {"served": False, "channels": []}
