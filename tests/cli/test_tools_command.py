"""An MCP server that is down is shown by `holdfast up`, `tools` and `health`, over HTTP and in the metrics, and only to
clients that may see its agent.
"""

import json
import sys
from pathlib import Path

from holdfast.cli.status import read_status
from holdfast.kernel.ids import AgentName
from holdfast.tools.toolbox import JoinedTools, ToolBox
from holdfast.turns.agents import ChainedTools
from holdfast.turns.tool import TOOLS_NAMED_MAX, ToolOutcome
from tests.cli.test_channels_command import beside
from tests.support import mcp_program
from tests.support.fakes import ScriptedModel, agents
from tests.support.processes import Up
from tests.tools.test_toolbox import CONTEXT

PROGRAM = Path(mcp_program.__file__)
AGENTS = f"""
[agents.ada]
model = "practice"
[agents.ada.mcp.sums]
command = [{json.dumps(sys.executable)}, {json.dumps(str(PROGRAM))}]
tools = ["add"]
[agents.bob]
model = "practice"
[agents.bob.mcp.gone]
command = ["/no/such/program"]
"""


async def heard(up: Up) -> dict[str, dict[str, object]]:
    """What `up` says of each server once it has tried it."""
    assert up.process.stdout is not None
    lines = [json.loads(await up.process.stdout.readline()) for _ in range(2)]
    assert {line["event"] for line in lines} == {"mcp"}
    return {line["agent"]: line for line in lines}


async def test_a_server_that_is_down_is_told_everywhere_and_the_rest_is_well(tmp_path):
    data, config = tmp_path / "data", tmp_path / "holdfast.toml"
    config.write_text(AGENTS)
    no_bwrap = {"PATH": str(tmp_path)}
    up = await Up.start(data, "--config", str(config), environment=no_bwrap)
    try:
        told = await heard(up)
        assert (told["ada"]["state"], told["ada"]["tools"], told["ada"]["restarts"]) == ("up", ["sums_add"], 0)
        assert (told["bob"]["state"], told["bob"]["tools"]) == ("down", [])
        assert "/no/such/program" in str(told["bob"]["reason"])
        assert "mcp.bob.gone.log" in str(told["bob"]["reason"])
        await see(up, told)
        await read(data, told)
    finally:
        await up.stop()
    code, said = await beside("tools", "--data", data, "--json")
    assert (code, json.loads(said)) == (1, {"served": False, "servers": []})
    assert await beside("tools", "--data", data) == (1, "No process serves this data folder; start `holdfast up`.\n")


async def see(up: Up, told: dict[str, dict[str, object]]) -> None:
    """What HTTP shows."""
    async with up.client() as client:
        found = {one["agent"]: one for one in (await client.get("/v1/tools")).json()["servers"]}
        only = (await client.get("/v1/tools", params={"agent": "ada"})).json()["servers"]
        metrics = (await client.get("/metrics")).text
        status = (await client.get("/v1/status")).json()
        assert (await client.get("/readyz")).status_code == 200
    assert (found["ada"]["state"], found["bob"]["state"], len(only)) == ("up", "down", 1)
    assert found["bob"]["attempts"] >= 1
    assert found["bob"]["since"] == told["bob"]["since"]
    components = {(one["kind"], one["agent"]): one for one in status["components"]}
    assert components["tools", "bob"]["reason"] == found["bob"]["reason"]
    assert [(need["kind"], need["agent"]) for need in status["needs"]] == [("tools", "bob")]
    assert 'holdfast_mcp_up{agent="ada",server="sums"} 1.0' in metrics
    assert 'holdfast_mcp_up{agent="bob",server="gone"} 0.0' in metrics
    assert 'holdfast_mcp_restarts_total{agent="bob",server="gone"} 0.0' in metrics
    assert 'holdfast_troubles_total{event="mcp.down"}' in metrics


async def read(data: Path, told: dict[str, dict[str, object]]) -> None:
    """What commands of another process show."""
    code, listed = await beside("tools", "--data", data, "--json")
    assert (code, json.loads(listed)["served"]) == (1, True)
    servers = {one["agent"]: one for one in json.loads(listed)["servers"]}
    assert (servers["ada"]["tools"], servers["bob"]["since"]) == (["sums_add"], told["bob"]["since"])
    code, table = await beside("tools", "--data", data)
    assert (code, "/no/such/program" in table) == (1, True)
    why = "bubblewrap is not used: PATH has no bwrap; install the package bubblewrap"
    assert servers["ada"]["confinement_note"].startswith(why)
    assert f"ada/sums is confined by {servers['ada']['confinement']}: {why}" in table
    code, said = await beside("health", "--data", data)
    assert code == 0
    assert "MCP server gone (agent bob): down: " in said
    assert "sums" not in said
    code, said = await beside("health", "--data", data, "--json")
    assert [one["server"] for one in json.loads(said)["servers_down"]] == ["gone"]
    page = read_status(data)
    assert page is not None
    states = {(one.kind.value, str(one.agent), one.name): one.state.value for one in page.components}
    assert states["tools", "ada", "sums"] == "up"
    assert states["tools", "bob", "gone"] == "down"
    assert states["model", "ada", "practice"] == "unknown"


async def test_a_token_of_one_agent_sees_that_agents_servers_only(tmp_path):
    data, config = tmp_path / "data", tmp_path / "holdfast.toml"
    config.write_text(AGENTS.replace("/no/such/program", "/neither/this"))
    up = await Up.start(data, "--config", str(config))
    try:
        _, made = await beside("token", "new", "--scope", "read", "--agent", "ada", "--data", data, "--json")
        async with up.client() as client:
            client.headers["Authorization"] = f"Bearer {json.loads(made)['secret']}"
            seen = (await client.get("/v1/tools")).json()["servers"]
            other = (await client.get("/v1/tools", params={"agent": "bob"})).json()["servers"]
        assert ([one["agent"] for one in seen], other) == (["ada"], [])
    finally:
        await up.stop()


# --- a tool that does not exist


class Empty(ToolBox):
    """A box whose server is down."""

    def outages(self) -> tuple[str, ...]:
        return ("files (down since noon)",)


def add(first: int) -> int:
    return first


async def test_the_answer_to_an_unknown_name_lists_the_tools_of_every_box_and_what_is_down():
    made = ToolBox()
    made.add(add)
    for boxes in ((ToolBox(), made), (made, ToolBox())):
        joined = JoinedTools(JoinedTools(*boxes), Empty())
        assert await joined.call("ad", "{}", CONTEXT) == ToolOutcome(
            "There is no tool 'ad'; there are: add. These tool servers are not available now, and so their tools are "
            "missing: files (down since noon).",
            ok=False,
            missing=True,
        )


async def test_a_turn_of_other_agents_is_told_which_server_is_down_too():
    """Previously such a turn was told that there are no tools, and not why."""
    who = agents(ScriptedModel(), tools=[])
    tools = ChainedTools(Empty(), {AgentName("ben"): who.get("main")}, ())
    for name in ("files_read", "add"):
        told = (await tools.call(name, "{}", CONTEXT)).text
        assert told.endswith("their tools are missing: files (down since noon).")


async def test_the_answer_to_an_unknown_name_is_bounded():
    first, second = ToolBox(), ToolBox()
    for n in range(TOOLS_NAMED_MAX):
        first.add(add, name=f"a{n}")
        second.add(add, name=f"b{n}")
    joined = JoinedTools(first, second)
    said = (await joined.call("x" * 10_000, "{}", CONTEXT)).text
    assert said.endswith(f"a{TOOLS_NAMED_MAX - 1} and {TOOLS_NAMED_MAX} more.")
    assert len(said) < 1_000
    assert len(joined.specs(AgentName("main"))) == 2 * TOOLS_NAMED_MAX
