"""Other agents take over while the runtime serves: a turn that runs keeps its own, and what did not change stays."""

import asyncio
from pathlib import Path

import pytest

from holdfast.config.reading import Reading, read_config
from holdfast.kernel.errors import ConfigInvalid, InvalidInput
from holdfast.kernel.ids import AgentName
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.runtime.reloading import Reloader
from holdfast.runtime.runtime import Runtime
from holdfast.runtime.tool_factory import servers_of
from holdfast.turns.agents import Agents
from holdfast.turns.policy import AgentPolicy
from tests.support.fakes import Gate, ScriptedModel, calls, says, soon, stands_at

MAIN = AgentName("main")


def listed(model: ScriptedModel, instructions: str) -> Agents:
    return make_agents(model=model, listed={"main": AgentPolicy(instructions=instructions)})


def heard(model: ScriptedModel) -> list[bool]:
    """Of each request, whether it had the later instructions."""
    return ["later" in str(messages[0]) for messages in model.requests]


async def test_a_turn_that_runs_ends_with_the_settings_that_it_began_with(tmp_path):
    before = ScriptedModel(stands_at(gate := Gate(), calls("history")), says("from before"))
    after = ScriptedModel(says("from after"))
    async with await open_runtime(tmp_path, agents=listed(before, "earlier")) as runtime:
        asking = asyncio.create_task(runtime.ask("c", "one"))
        await soon(gate.reached.wait())
        await runtime.adopt(listed(after, "later"))
        gate.open()
        assert await soon(asking) == "from before"
        assert await soon(runtime.ask("c", "two")) == "from after"
    assert (heard(before), heard(after)) == ([False, False], [True])


async def test_a_runtime_that_was_not_opened_by_a_configuration_says_so(tmp_path):
    async with await open_runtime(tmp_path, agents=listed(ScriptedModel(), "")) as runtime:
        runtime.equipment = None
        with pytest.raises(InvalidInput):
            await runtime.adopt(listed(ScriptedModel(), ""))


# --- from a file -------------------------------------------------------------------------------------


class Served:
    """A runtime with the configuration of a file, which the test changes."""

    def __init__(self, folder: Path, runtime: Runtime, reloader: Reloader) -> None:
        self.folder, self.runtime, self.reloader = folder, runtime, reloader

    async def reload(self, text: str):
        return await self.reloader.reload(lambda: parsed(self.folder, text))


def parsed(folder: Path, text: str) -> Reading:
    return read_config(text.encode(), folder / "holdfast.toml")


KEYED = """
[models.x]
name = "openai:gpt-5.2"
base_url = "http://127.0.0.1:9/v1"
api_key_file = "key"
[agents.main]
model = "x"
[agents.main.mcp.cat]
command = ["cat"]
[agents.other]
model = "practice"
"""


@pytest.fixture
async def served(tmp_path, monkeypatch):
    (tmp_path / "key").write_text("first", encoding="utf-8")
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")
    config = parsed(tmp_path, KEYED).config
    async with await open_runtime(tmp_path / "data", agents=make_agents(listed=config.agents)) as runtime:
        environment = {"PATH": "/usr/bin:/bin"}
        yield Served(tmp_path, runtime, Reloader(runtime, config, tmp_path / "data", environment))


async def test_models_and_servers_that_did_not_change_stay(served):
    before = served.runtime.serving.listed[MAIN]
    report = await served.reload(KEYED.replace('model = "x"', 'model = "x"\ninstructions = "later"'))
    after = served.runtime.serving.listed[MAIN]
    assert report.applied == ("agents.main.instructions",)
    assert after.policy.instructions == "later"
    assert after.model is before.model
    assert servers_of(after) is servers_of(before) is not None


async def test_a_key_that_was_replaced_in_its_file_is_used(served):
    before = served.runtime.serving.listed[MAIN].model
    (served.folder / "key").write_text("second", encoding="utf-8")
    report = await served.reload(KEYED)
    assert report.applied == ("agents.main.model",)
    assert served.runtime.serving.listed[MAIN].model is not before
    assert (await served.reload(KEYED)).applied == ()


async def test_an_error_in_any_part_changes_nothing(served):
    before = served.runtime.serving.listed
    text = KEYED.replace('model = "x"', 'model = "x"\ninstructions = "later"')
    for broken in (
        "[agents.new]\nmodel = 'opnai:x'",
        "[agents.new.memory.honcho]\nurll = 'x'",
        "[agents.new]\ntools = 1",
    ):
        report = await served.reload(text + broken)
        assert [type(one) for one in report.problems] == [ConfigInvalid]
        assert served.runtime.serving.listed is before
    (served.folder / "key").unlink()
    (problem,) = (await served.reload(text)).problems
    assert "models.x.api_key_file" in str(problem)


async def test_providers_and_servers_of_an_agent_that_exists_begin_at_a_restart(served):
    text = (
        KEYED + "[agents.other.mcp.dog]\ncommand = ['cat']\n[agents.other.memory.honcho]\nurl = 'http://127.0.0.1:9'\n"
    )
    report = await served.reload(text.replace('["cat"]', '["cat", "-u"]'))
    waiting = ("agents.main.mcp.cat.command", "agents.other.mcp.dog.command", "agents.other.memory.honcho.url")
    assert (report.applied, report.restart) == ((), waiting)
    assert {one.server for one in served.runtime.tool_servers()} == {"cat"}
    other = served.runtime.serving.listed[AgentName("other")].policy
    assert (other.mcp, other.memory, {one.provider for one in other.deliveries}) == ({}, None, {"local", "files"})


async def test_a_new_agent_has_memory_and_servers_of_its_own(served):
    text = KEYED + "[agents.new]\nmodel = 'practice'\n[agents.new.mcp.dog]\ncommand = ['cat']\n"
    assert (await served.reload(text)).applied == ("agents.new",)
    assert "cat" in await soon(served.runtime.ask("c", "My cat is called Byron.", agent="new", id="1"))
    trace = await served.runtime.trace(await served.runtime.send("c", "My cat is called Byron.", agent="new", id="1"))
    assert {one.provider for one in trace.deliveries} == {"local"}  # files hold notes
    assert {one.server for one in served.runtime.tool_servers()} == {"cat", "dog"}


async def test_a_file_that_appears_or_goes_needs_a_restart(served, tmp_path):
    report = await served.reload("[server]\nport = 1\n")
    assert (report.applied, report.restart) == ((), ("agents", "server.port"))


async def test_a_longer_message_than_the_server_was_made_for_needs_a_restart_too(served):
    report = await served.reload(KEYED + "[agents.other.limits]\nmessage_bytes = 1000000\n")
    assert report.applied == report.restart == ("agents.other.limits.message_bytes",)
