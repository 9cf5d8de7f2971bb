"""An operator pauses an agent over HTTP and on the command line: it accepts messages and answers none until it is
resumed, also after a restart. A token for other agents cannot do it, and an unknown agent is named.

Rules: I36.
"""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from holdfast.api.auth.access_token import AccessToken, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.cli.commands import app
from holdfast.kernel.ids import TokenId
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.turns.policy import AgentPolicy
from tests.support.fakes import soon
from tests.support.live import GatedModel, code_of, serve

LISTED = {"ada": AgentPolicy(), "bob": AgentPolicy()}


async def test_a_paused_agent_accepts_and_answers_in_order_once_it_is_resumed(tmp_path):
    async with serve(tmp_path, listed=LISTED) as live:
        paused = (await live.post("/v1/agents/ada/pause")).json()
        assert (paused["paused"], paused["changed"], paused["by"], paused["waiting"]) == (True, True, "operator", 0)
        messages = [(await live.say(f"m{n}", id=f"{n}", agent="ada")).json()["message"] for n in range(3)]
        assert await live.runtime.ask("hello", "you?", agent="bob", sender="bob"), "another agent answers"
        states = [(await live.get(f"/v1/messages/{one}")).json()["state"] for one in messages]
        assert states == ["waiting"] * 3
        (row,) = (await live.get("/v1/pauses")).json()["agents"]
        assert (row["agent"], row["paused_by"], row["paused_at"]) == ("ada", "operator", paused["since"])
        again = (await live.post("/v1/agents/ada/pause")).json()
        assert (again["changed"], again["since"], again["waiting"]) == (False, paused["since"], 3)
        resumed = (await live.post("/v1/agents/ada/resume")).json()
        assert (resumed["paused"], resumed["changed"], resumed["waiting"]) == (False, True, 3)
        turns = []
        for message in messages:
            await soon(live.runtime.reply_to(message))
            turns.append((await live.get(f"/v1/messages/{message}")).json()["turn"])
        assert turns == [1, 2, 3]
        assert (await live.get("/v1/pauses")).json() == {"agents": []}
        assert (await live.post("/v1/agents/ada/resume")).json()["changed"] is False


async def test_the_turn_that_runs_ends_and_the_next_message_waits(tmp_path):
    model = GatedModel()
    async with serve(tmp_path, model=model) as live:
        first = (await live.say("one", id="1")).json()["message"]
        await soon(model.asked.wait())
        second = (await live.say("two", id="2")).json()["message"]
        paused = (await live.post("/v1/agents/main/pause")).json()
        assert (paused["open_turns"], paused["waiting"]) == (1, 2)
        model.gate.set()
        await soon(live.runtime.reply_to(first))
        assert (await live.get(f"/v1/messages/{second}")).json()["state"] == "waiting"
        await live.post("/v1/agents/main/resume")
        await soon(live.runtime.reply_to(second))


async def test_a_token_for_other_agents_and_an_unknown_agent_are_refused(tmp_path):
    async with serve(tmp_path, listed=LISTED) as live:
        token = AccessToken(id=TokenId("tok_1"), scopes=frozenset({Scope.OPERATE}), agents=frozenset({"bob"}))
        await live.runtime.db.write(add_token(token, hash_token(spell_token(1))))
        live.client.headers["Authorization"] = f"Bearer {spell_token(1)}"
        for verb in ("pause", "resume"):
            refused = await live.post(f"/v1/agents/ada/{verb}")
            assert (refused.status_code, code_of(refused)) == (404, "agent_not_found")
        assert (await live.post("/v1/agents/bob/pause")).status_code == 200
    async with serve(tmp_path, listed=LISTED) as live:
        for verb in ("pause", "resume"):
            refused = await live.post(f"/v1/agents/eve/{verb}")
            assert (refused.status_code, code_of(refused)) == (404, "agent_not_found")
        await live.post("/v1/agents/ada/pause")
        live.client.headers["Authorization"] = f"Bearer {spell_token(1)}"
        seen = (await live.get("/v1/pauses")).json()["agents"]
        assert [one["agent"] for one in seen] == ["bob"], "pauses of other agents are not shown"


@pytest.fixture
def holdfast(tmp_path):
    async def talk():
        async with await open_runtime(tmp_path, agents=make_agents()) as runtime:
            await runtime.ask("hello", "hi")

    asyncio.run(talk())

    def run(*arguments, exit_code=0):
        done = CliRunner().invoke(app, [*arguments, "--data", str(tmp_path)], prog_name="holdfast")
        assert done.exit_code == exit_code, done.output
        return done.output

    return run


def test_on_the_command_line_a_pause_outlives_the_process(holdfast, tmp_path):
    planned = json.loads(holdfast("pause", "main", "--dry-run", "--json"))
    assert (planned["dry_run"], planned["changed"], planned["paused"], planned["waiting"]) == (True, True, True, 0)
    assert holdfast("resume", "main", "--dry-run") == "main is not paused; nothing changes.\n"
    assert holdfast("pause", "main") == "main is paused. `holdfast resume main` lets it go on.\n"
    assert holdfast("pause", "main").startswith("main is paused already, by ")

    async def say():
        async with await open_runtime(tmp_path, agents=make_agents()) as runtime:
            message = await runtime.send("hello", "anybody?")
            other = await runtime.ask("hello", "and you?", agent="other")
            return message, other, (await runtime.trace(message)).state.value

    message, other, state = asyncio.run(say())
    assert (bool(other), state) == (True, "waiting")
    assert holdfast("resume", "main", "--dry-run") == "main would be resumed; 1 message waits.\n"
    found = json.loads(holdfast("resume", "main", "--json"))
    assert (found["changed"], found["waiting"], found["paused"]) == (True, 1, False)
    assert holdfast("resume", "main") == "main is not paused; nothing changes.\n"

    async def answered():
        async with await open_runtime(tmp_path, agents=make_agents()) as runtime:
            return await soon(runtime.reply_to(message))

    assert asyncio.run(answered())


def test_on_the_command_line_a_bad_name_is_an_error(holdfast):
    for more in ((), ("--dry-run",)):
        assert "error[invalid_name]" in holdfast("pause", "no such agent", *more, exit_code=1)
