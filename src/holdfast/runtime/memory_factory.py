"""Memory factory: creates an agent's memory providers from its configuration.

Built-in providers are named here. Others are entry points of the group `holdfast.providers`; the entry point's name is
the table's name in holdfast.toml. A provider's module is imported when an agent first needs it.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.hardening import variables
from holdfast.kernel.ids import AgentName
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.memory.notes import NotesPolicy
from holdfast.memory.notes_service import NotesService
from holdfast.memory.provider import GROUP, Configured, Factory, ProviderSetup
from holdfast.memory.providers import Providers
from holdfast.providers.files.provider import FilesProvider
from holdfast.runtime.environment import Environment
from holdfast.runtime.plugins import BuiltIn, find_factory
from holdfast.runtime.tool_factory import MEMORY, wanted_tools, with_tools
from holdfast.store.database import Database
from holdfast.tools.memory import make_memory_tool
from holdfast.tools.toolbox import JoinedTools, ToolBox
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.tool import built_in

BUILT_IN = {
    "files": BuiltIn("holdfast.providers.files", "make_files"),
    "hindsight": BuiltIn("holdfast.providers.hindsight", "make_hindsight", "hindsight"),
    "honcho": BuiltIn("holdfast.providers.honcho", "make_honcho", "honcho"),
    "local": BuiltIn("holdfast.providers.local", "make_local"),
}
EMBEDDED: Mapping[str, Mapping[str, object]] = {"local": {}, "files": {}}  # the default for a data folder
FOLDER = "agents"


def make_memory(db: Database, agents: Agents, environment: Environment) -> tuple[Agents, Providers, NotesService]:
    """Create the providers and the notes service, and give the agents their built-in tools."""
    providers = make_providers(agents, environment)
    service = NotesService(db, providers)
    providers.attach(service)
    equipped = with_tools(with_memory(agents, providers, service), db, providers, environment)
    return equipped, providers, service


def make_providers(agents: Agents, environment: Environment) -> Providers:
    """Create each agent's providers on first use. Invalid settings raise at once."""

    def make(name: AgentName) -> Mapping[ProviderName, Configured]:
        wanted = agents.get(name).policy.memory
        if wanted is None:
            wanted = EMBEDDED if environment.folder is not None else {}
        return {ProviderName(one): make_provider(name, one, settings, environment) for one, settings in wanted.items()}

    return Providers(make)


def with_memory(agents: Agents, providers: Providers, service: NotesService) -> Agents:
    """Return the agents with deliveries to their providers and with the `memory` tool."""

    def equipped(name: AgentName, agent: Agent) -> Agent:
        files = providers.of(name).get(ProviderName("files"))
        notes = agent.policy.notes
        if files is not None and isinstance(files.provider, FilesProvider):
            notes = NotesPolicy(capacity=files.provider.capacity)
        box = ToolBox()
        if MEMORY in wanted_tools(agent.policy, name):
            box.add(
                make_memory_tool(
                    service.apply,
                    service.shown,
                    capacity=notes.capacity,
                    private_in_groups=agent.policy.recall.private_in_groups,
                    shares_all=agent.policy.recall.shares_all,
                ),
                idempotent=True,
                origin=built_in(MEMORY),
            )
        deliveries = agent.policy.deliveries or providers.policies(name)
        policy = replace(agent.policy, deliveries=deliveries, notes=notes)
        return replace(agent, policy=policy, tools=JoinedTools(agent.tools, box))

    default = equipped(AgentName("main"), agents.default) if agents.default is not None else None
    return Agents(default, {name: equipped(name, agent) for name, agent in agents.listed.items()})


def make_provider(agent: AgentName, name: str, settings: Mapping[str, object], environment: Environment) -> Configured:
    """Create one provider from its table, without connecting. Raises `ConfigInvalid`."""
    key = f"agents.{agent}.memory.{name}"
    factory: Factory = find_factory("provider", name, key, BUILT_IN, GROUP)
    if environment.folder is None and name in EMBEDDED:
        raise ConfigInvalid(f"{key}: it lives in a data folder, and there is none with PostgreSQL", key=key)
    home = (environment.folder or Path()) / FOLDER / agent
    setup = ProviderSetup(
        name=ProviderName(name),
        agent=agent,
        settings=settings,
        folder=home if name == "files" else home / name,
        environment=variables(),
        clock=environment.clock,
        entropy=environment.entropy,
        tasks=environment.tasks,
        key=environment.key,
    )
    try:
        made = factory(setup)
    except ConfigInvalid as error:
        raise type(error)(f"{key}: {error}", key=key) from error
    except (ArithmeticError, AttributeError, ImportError, LookupError, OSError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {error}"
        raise ConfigInvalid(f"{key}: the provider could not be made ({why})", key=key) from error
    if not isinstance(made, Configured):
        raise ConfigInvalid(f"{key}: its factory made a {type(made).__name__}, not a Configured", key=key)
    return made
