"""The promise: a connection that is over takes nothing along, and a tool's name means one tool of one server."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import pytest

from holdfast.kernel.ids import AgentName
from holdfast.kernel.machine import AsyncTasks, SystemClock, SystemEntropy
from holdfast.tools.mcp.server import McpServer
from holdfast.tools.mcp.settings import McpSettings
from holdfast.tools.mcp.tools import McpTools
from holdfast.turns.tool import ToolOutcome
from tests.support.patience import within

SCHEMA: Mapping[str, object] = {"type": "object", "properties": {}}


class Line:
    """A connection that does nothing but live."""

    def __init__(self, ended: Callable[[], None], tools: Sequence[str], leaves: BaseException | None = None) -> None:
        self.ended = ended
        self._tools = tools
        self._leaves = leaves
        self.raises: Exception | None = None  # what a call meets

    async def __aenter__(self) -> "Line":
        return self

    async def __aexit__(self, *error: Any) -> None:
        if self._leaves is not None:
            raise self._leaves

    async def list_tools(self) -> Sequence[tuple[str, str, Mapping[str, object]]]:
        return [(tool, tool, SCHEMA) for tool in self._tools]

    async def call(self, tool: str, arguments: dict[str, Any]) -> ToolOutcome:
        if self.raises is not None:
            raise self.raises
        return ToolOutcome(f"{tool} {arguments}")


class Switchboard:
    """Connects as often as it is asked to, and keeps every connection."""

    def __init__(self, *tools: str, leaves: BaseException | None = None) -> None:
        self.lines: list[Line] = []
        self._tools = tools
        self._leaves = leaves

    def connect(self, _settings: McpSettings, ended: Callable[[], None]) -> Line:
        self.lines.append(Line(ended, self._tools, None if self.lines else self._leaves))
        return self.lines[-1]


def served(name: str, board: Switchboard, *others: str) -> McpServer:
    settings = McpSettings(server=name, command=("x",), others=frozenset({name, *others}))
    return McpServer("fern", settings, board.connect, clock=SystemClock(), entropy=SystemEntropy(), tasks=AsyncTasks())


async def up(one: McpServer) -> None:
    async with within(20):
        await one.settled()


async def test_an_old_connection_that_is_reported_late_does_not_end_the_new_one():
    board = Switchboard("add")
    one = served("t", board)
    one.start()
    await up(one)
    board.lines[0].ended()
    await up(one)
    assert len(board.lines) == 2
    board.lines[0].ended()  # a call that was still waiting there has only now failed
    assert (await one.call("add", {})).ok
    assert len(board.lines) == 2
    await one.close()


async def test_a_library_that_cancels_its_own_work_does_not_end_the_reconnecting():
    board = Switchboard("add", leaves=asyncio.CancelledError())
    one = served("t", board)
    one.start()
    await up(one)
    board.lines[0].ended()
    await up(one)
    assert (await one.call("add", {})).ok
    await one.close()


@pytest.mark.parametrize(
    "error", [BrokenPipeError(), ValueError("no JSON"), anyio.ClosedResourceError(), KeyError("id"), TimeoutError()]
)
async def test_whatever_the_library_raises_during_a_call_is_an_unknown_outcome_and_a_lost_connection(error):
    board = Switchboard("add")
    one = served("t", board)
    one.start()
    await up(one)
    board.lines[0].raises = error
    lost = await one.call("add", {})
    assert lost == ToolOutcome(f"t gave no usable answer ({type(error).__name__}).", unknown=True)
    assert (await one.call("add", {})).ok, "the next call finds a new connection"
    assert (len(board.lines), one.standing.restarts) == (2, 1)
    await one.close()


async def test_a_server_that_was_never_started_is_closed_at_once():
    async with within(1):
        await served("t", Switchboard()).close()


async def test_servers_whose_names_run_into_each_other_share_no_tool():
    boards = Switchboard("hub_open", "log"), Switchboard("open")
    servers = served("git", boards[0], "git_hub"), served("git_hub", boards[1], "git")
    tools = McpTools(servers)
    await tools.start()
    together = [spec.name for spec in tools.specs(AgentName("fern"))]
    assert len(set(together)) == len(together) == 3
    assert {"git_log", "git_hub_open"} <= set(together)
    servers[1].offered = {}  # it is down
    assert "git_hub_open" not in {spec.name for spec in tools.specs(AgentName("fern"))}
    await tools.close()
