"""Tool factory: an agent's built-in tools, and the tools of its MCP servers.

`tools` in holdfast.toml selects built-in tools; without it an agent has all of them. `send_message` is offered only if
`talks_to` lists an agent.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from holdfast.inbox.address import is_name
from holdfast.inbox.agent_chain import described
from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.ids import AgentName
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.memory.notes_service import NotesService
from holdfast.memory.provider import Providers
from holdfast.memory.recaller import Recaller
from holdfast.providers.files.provider import FilesProvider
from holdfast.runtime.plugins import BuiltIn, Environment, load_built_in, make_providers
from holdfast.store.ports import Database
from holdfast.tools import send_message
from holdfast.tools.mcp.server import Connect, McpServer
from holdfast.tools.mcp.settings import read_settings
from holdfast.tools.mcp.tools import McpTools
from holdfast.tools.memory import make_memory_tool
from holdfast.tools.recall import HISTORY, RECALL, make_history_tool, make_recall_tool
from holdfast.tools.toolbox import JoinedTools, ToolBox
from holdfast.turns.agents import Agent, Agents, may_message
from holdfast.turns.policy import AgentPolicy
from holdfast.turns.tool import built_in

MEMORY = "memory"
MCP_CONNECTION = BuiltIn("holdfast.tools.mcp.connection", "McpConnection", "mcp")
HOMES = "mcp"  # in the data folder: one home folder per MCP program
BUILT_IN = (MEMORY, RECALL, HISTORY, send_message.NAME)


def wanted_tools(policy: AgentPolicy, agent: AgentName) -> frozenset[str]:
    """The built-in tools of an agent. Raises `ConfigInvalid` for an unknown tool name."""
    if policy.tools is None:
        return frozenset(BUILT_IN)
    for name in policy.tools:
        if name not in BUILT_IN:
            key = f"agents.{agent}.tools"
            raise ConfigInvalid(f"{key} names {name!r}; the built-in tools are {', '.join(BUILT_IN)}", key=key)
    return frozenset(policy.tools)


def check_talks(agent: AgentName, policy: AgentPolicy, listed: Collection[str] | None) -> None:
    """Check the `talks_to` list of an agent. Without `listed` every name is an agent. Raises `ConfigInvalid`."""
    key = f"agents.{agent}.talks_to"
    if isinstance(policy.talks_to, str):
        raise ConfigInvalid(f"{key} is {policy.talks_to!r}, and not a list; write [{policy.talks_to!r}]", key=key)
    for name in policy.talks_to:
        if policy.talks_to.count(name) > 1:
            raise ConfigInvalid(f"{key} names {name!r} twice; write each agent once", key=key)
        if name == agent:
            raise ConfigInvalid(f"{key} names {name!r}, the agent itself; list other agents", key=key)
        if (listed is None and not is_name(name)) or (listed is not None and name not in listed):
            known = ", ".join(sorted(other for other in listed or () if other != agent)) or "none"
            raise ConfigInvalid(f"{key} names {name!r}, which is no agent; the other agents are: {known}", key=key)
    if policy.talks_to and policy.tools is not None and send_message.NAME not in policy.tools:
        fix = f'add "{send_message.NAME}" to agents.{agent}.tools, or take talks_to out'
        raise ConfigInvalid(f"{key} is set, but the agent has no tool {send_message.NAME}; {fix}", key=key)


def silent_notes(listed: Mapping[str, AgentPolicy]) -> list[str]:
    """A warning about agents that have the tool `send_message` but an empty `talks_to`, with the missing setting.

    Once one agent has a `talks_to` list, only agents whose `tools` name `send_message` are included.
    """
    is_known = any(policy.talks_to for policy in listed.values())
    silent = [
        name
        for name, policy in listed.items()
        if not policy.talks_to and (send_message.NAME in policy.tools if policy.tools is not None else not is_known)
    ]
    if len(listed) < 2 or not silent:
        return []
    other = next(name for name in listed if name != silent[0])
    fix = f'to allow it, list those whom it may message, as in [agents.{silent[0]}] talks_to = ["{other}"]'
    whom = f"agent {silent[0]} messages" if len(silent) == 1 else f"agents {', '.join(silent)} message"
    return [f"{whom} no other agent: nobody is in talks_to, which lets none unless set; {fix}"]


def make_memory(db: Database, agents: Agents, environment: Environment) -> tuple[Agents, Providers, NotesService]:
    """Create the providers and the notes service, and give the agents their built-in tools."""
    providers = make_providers(agents, environment)
    service = NotesService(db, providers)
    providers.attach(service)
    equipped = with_tools(with_memory(agents, providers, service), db, providers, environment)
    return equipped, providers, service


def _each(agents: Agents, equipped: Callable[[AgentName, Agent], Agent]) -> Agents:
    default = equipped(AgentName("main"), agents.default) if agents.default is not None else None
    return Agents(default, {name: equipped(name, agent) for name, agent in agents.listed.items()})


def with_memory(agents: Agents, providers: Providers, service: NotesService) -> Agents:
    """Return the agents with deliveries to their providers and with the `memory` tool."""

    def equipped(name: AgentName, agent: Agent) -> Agent:
        files = providers.of(name).get(ProviderName("files"))
        notes = agent.policy.notes
        if files is not None and isinstance(files.provider, FilesProvider):
            notes = files.provider.capacity
        box = ToolBox()
        if MEMORY in wanted_tools(agent.policy, name):
            box.add(
                make_memory_tool(
                    service.apply,
                    service.shown,
                    capacity=notes,
                    private_in_groups=agent.policy.recall.private_in_groups,
                    shares_all=agent.policy.recall.shares_all,
                ),
                idempotent=True,
                origin=built_in(MEMORY),
            )
        deliveries = agent.policy.deliveries or providers.policies(name)
        policy = replace(agent.policy, deliveries=deliveries, notes=notes)
        return replace(agent, policy=policy, tools=JoinedTools(agent.tools, box))

    return _each(agents, equipped)


def with_tools(agents: Agents, db: Database, providers: Providers, environment: Environment) -> Agents:
    """Add `recall`, `history` and `send_message` to the agents that want them. Raises `ConfigInvalid`."""
    recaller = Recaller(providers, environment.tasks, environment.clock, environment.entropy, db)

    def equipped(name: AgentName, agent: Agent) -> Agent:
        check_talks(name, agent.policy, None if agent is agents.default else agents.listed)
        wanted = wanted_tools(agent.policy, name)
        box = ToolBox()
        if RECALL in wanted:
            box.add(make_recall_tool(recaller, agent.policy.recall), idempotent=True, origin=built_in(RECALL))
        if HISTORY in wanted:
            box.add(make_history_tool(db), idempotent=True, origin=built_in(HISTORY))
        if send_message.NAME in wanted and agent.policy.talks_to:
            sending = send_message.make_send_tool(partial(may_message, agents), hops_max=agent.policy.hops_max)
            description = described(agent.policy.talks_to)
            box.add(sending, idempotent=True, description=description, origin=built_in(send_message.NAME))
        return replace(agent, tools=JoinedTools(agent.tools, box))

    return _each(agents, equipped)


# --- MCP servers -----------------------------------------------------------------------------------


def with_servers(
    agents: Agents, environment: Environment, running: Mapping[AgentName, McpTools] = MappingProxyType({})
) -> tuple[Agents, tuple[McpTools, ...]]:
    """Add the tools of MCP servers; also returns the servers to start and close. Raises `ConfigInvalid`.

    An agent whose servers are `running` gets their tools and no other servers.
    """
    made: list[McpTools] = []

    def equipped(name: AgentName, agent: Agent) -> Agent:
        tables, box = agent.policy.mcp, running.get(name)
        if box is None and tables:
            box = McpTools([_server(name, one, table, environment, frozenset(tables)) for one, table in tables.items()])
            made.append(box)
        return agent if box is None else replace(agent, tools=JoinedTools(agent.tools, box))

    return _each(agents, equipped), tuple(made)


def servers_of(agent: Agent) -> McpTools | None:
    """The tools of the MCP servers of an agent."""
    sets = agent.tools.sets if isinstance(agent.tools, JoinedTools) else (agent.tools,)
    return next((one for one in sets if isinstance(one, McpTools)), None)


def _server(
    agent: AgentName, server: str, table: Mapping[str, object], environment: Environment, others: frozenset[str]
) -> McpServer:
    key = f"agents.{agent}.mcp.{server}"
    settings = replace(read_settings(key, server, table, environment.variables), others=others)
    settings = replace(settings, hidden=environment.hidden, umask=environment.umask)
    if environment.folder is not None:
        settings = replace(
            settings,
            errors_file=environment.folder / f"mcp.{agent}.{server}.log",
            home=environment.folder / HOMES / f"{agent}.{server}" if settings.user is None else settings.user.home,
            hidden=(environment.folder, *environment.hidden),
        )
    connect: Connect = load_built_in(MCP_CONNECTION, key)
    return McpServer(
        agent, settings, connect, clock=environment.clock, entropy=environment.entropy, tasks=environment.tasks
    )
