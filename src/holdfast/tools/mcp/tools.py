"""The tools of an agent's MCP servers, as one box. They come and go with the servers."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from holdfast.inbox.channel_status import ConnectionState, ToolServerStatus
from holdfast.kernel.ids import AgentName
from holdfast.tools.mcp.offer import Offer
from holdfast.tools.mcp.server import McpServer
from holdfast.turns.journal import storable
from holdfast.turns.model import ToolSpec
from holdfast.turns.tool import ToolContext, ToolOutcome, no_such_tool

START_WAIT_S = 3.0  # how long a start waits for servers; who is later is offered later
RESULT_CHARS_MAX = 64_000


class McpTools:
    """Implements `Tools`, `Unreliable`, `Traceable` and `Attached`."""

    def __init__(self, servers: Sequence[McpServer]) -> None:
        self._servers = tuple(servers)

    async def start(self) -> None:
        """Begin to connect. A server that is down delays the start a little and fails nothing."""
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
        return [server.standing for server in self._servers]

    def watch(self, hear: Callable[[], None]) -> None:
        for server in self._servers:
            server.hear = hear

    def outages(self) -> tuple[str, ...]:
        found = (server.standing for server in self._servers if not server.offered)
        return tuple(one.outage for one in found if one.state is not ConnectionState.UP)

    def specs(self, agent: AgentName) -> tuple[ToolSpec, ...]:
        del agent
        return tuple(offer.spec for server in self._servers for offer in server.offered.values())

    def origin(self, agent: AgentName, name: str) -> Hashable | None:
        """The program or the URL, with what it is given, and the server's own name of the tool."""
        del agent
        found = self._find(name)
        return None if found is None else ("mcp", found[0].settings.identity, found[1].tool)

    def is_idempotent(self, name: str) -> bool:
        found = self._find(name)
        return found is not None and found[1].idempotent

    def needs_approval(self, agent: AgentName, name: str) -> bool:
        del agent
        found = self._find(name)
        return found is not None and found[1].dangerous

    async def call(self, name: str, arguments: str, context: ToolContext) -> ToolOutcome:
        found = self._find(name)
        if found is None:
            return no_such_tool(name, self.specs(context.agent), self.outages())
        try:
            values = msgspec.json.decode(arguments or "{}", type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            return ToolOutcome(f"The arguments of {name} are not usable: {error}", ok=False)
        server, offer = found
        outcome = await server.call(offer.tool, values)
        return replace(outcome, text=storable(outcome.text)[:RESULT_CHARS_MAX])

    def _find(self, name: str) -> tuple[McpServer, Offer] | None:
        for server in self._servers:
            if name in server.offered:
                return server, server.offered[name]
        return None
