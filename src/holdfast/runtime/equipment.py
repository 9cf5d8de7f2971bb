"""Gives the agents of another configuration their providers and tools while the process runs."""

from dataclasses import dataclass

from holdfast.memory.notes_service import NotesService
from holdfast.memory.provider import Providers
from holdfast.runtime.plugins import Environment, make_providers
from holdfast.runtime.tool_factory import servers_of, with_memory, with_servers, with_tools
from holdfast.store.ports import Database
from holdfast.tools.mcp.tools import McpTools
from holdfast.turns.agents import Agents


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """The providers and the notes of a process, which the agents of a later configuration share."""

    db: Database
    providers: Providers
    notes: NotesService
    environment: Environment

    def equip(self, agents: Agents, before: Agents) -> tuple[Agents, tuple[McpTools, ...]]:
        """The agents with their tools, and the MCP servers to start. Raises `ConfigInvalid`.

        Agents that are in `before` keep their providers and MCP servers.
        """
        self.providers.renew(make_providers(agents, self.environment).make)
        made = with_memory(agents, self.providers, self.notes)
        made = with_tools(made, self.db, self.providers, self.environment)
        running = {name: box for name, agent in before.listed.items() if (box := servers_of(agent)) is not None}
        return with_servers(made, self.environment, running)
