"""The tools of an agent's MCP servers as one tool set, which changes with their connections."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from holdfast.inbox.channel_status import ConnectionState, ToolServerStatus
from holdfast.kernel.ids import AgentName
from holdfast.tools.mcp.server import McpServer, OfferedTool
from holdfast.turns.journal import storable
from holdfast.turns.model import ToolSpec
from holdfast.turns.tool import ToolContext, ToolOutcome, no_such_tool

START_WAIT_S = 3.0  # the start waits this long; tools of slower servers are offered later
RESULT_CHARS_MAX = 64_000


class McpTools:
    """Implements `Tools`, `Unreliable` and `Traceable`. It is started before the workers and closed after them."""

    def __init__(self, servers: Sequence[McpServer]) -> None:
        self._servers = tuple(servers)

    async def start(self) -> None:
        """Begin to connect. A server that is down delays the start briefly and is no error."""
        for server in self._servers:
            server.start()
        try:
            async with asyncio.timeout(START_WAIT_S):
                for server in self._servers:
                    await server.settled()
        except TimeoutError:
            return

    async def close(self) -> None:
        for server in self._servers:
            await server.close()

    def standings(self) -> Sequence[ToolServerStatus]:
        """The status of each server, in the order of the configuration."""
        return [server.standing for server in self._servers]

    def watch(self, hear: Callable[[], None]) -> None:
        """Call `hear` after every status change. It must be quick and must not raise."""
        for server in self._servers:
            server.hear = hear

    def outages(self) -> tuple[str, ...]:
        found = (server.standing for server in self._servers if not server.offered)
        return tuple(one.outage for one in found if one.state is not ConnectionState.UP)

    def specs(self, agent: AgentName) -> tuple[ToolSpec, ...]:
        del agent
        return tuple(offer.spec for server in self._servers for offer in server.offered.values())

    def origin(self, agent: AgentName, name: str) -> Hashable | None:
        """The identity of the program or URL, and the server's own name of the tool."""
        del agent
        server, offer = self._find(name)
        return None if server is None or offer is None else ("mcp", server.settings.identity, offer.tool)

    def is_idempotent(self, name: str) -> bool:
        _, offer = self._find(name)
        return offer is not None and offer.idempotent

    def needs_approval(self, agent: AgentName, name: str) -> bool:
        del agent
        _, offer = self._find(name)
        return offer is not None and offer.dangerous

    async def call(self, name: str, arguments: str, context: ToolContext) -> ToolOutcome:
        server, offer = self._find(name)
        if server is None or offer is None:
            return no_such_tool(name, self.specs(context.agent), self.outages())
        try:
            values = msgspec.json.decode(arguments or "{}", type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            return ToolOutcome(f"The arguments of {name} are not usable: {error}", ok=False)
        outcome = await server.call(offer.tool, values)
        return replace(outcome, text=storable(outcome.text)[:RESULT_CHARS_MAX])

    def _find(self, name: str) -> tuple[McpServer | None, OfferedTool | None]:
        found = ((server, server.offered[name]) for server in self._servers if name in server.offered)
        return next(found, (None, None))
