"""Provision: an agent's memory providers, made from its configuration.

The built-in ones are named here; others are found under the entry point group `holdfast.providers`, where the name of
the entry point is the name of the table in holdfast.toml. Nothing is imported before an agent needs it.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.hardening import variables
from holdfast.kernel.ids import AgentName
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.memory.notes import NotesPolicy
from holdfast.memory.notes_service import Keeper
from holdfast.memory.provider import GROUP, Configured, Factory, ProviderSetup
from holdfast.memory.providers import Providers
from holdfast.memory.recall_breaker import RecallBreaker
from holdfast.providers.files.provider import FilesProvider
from holdfast.runtime.environment import Environment
from holdfast.runtime.plugins import BuiltIn, find_factory
from holdfast.runtime.tool_factory import MEMORY, wanted_tools, with_tools
from holdfast.store.database import Database
from holdfast.tools.joined_tools import JoinedTools
from holdfast.tools.memory import make_memory_tool
from holdfast.tools.toolbox import ToolBox
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.tool import built_in

BUILT_IN = {
    "files": BuiltIn("holdfast.providers.files", "make_files"),
    "hindsight": BuiltIn("holdfast.providers.hindsight", "make_hindsight", "hindsight"),
    "honcho": BuiltIn("holdfast.providers.honcho", "make_honcho", "honcho"),
    "local": BuiltIn("holdfast.providers.local", "make_local"),
}
EMBEDDED: Mapping[str, Mapping[str, object]] = {"local": {}, "files": {}}  # without a configuration, on one machine
FOLDER = "agents"


def make_memory(db: Database, agents: Agents, environment: Environment) -> tuple[Agents, Providers, Keeper]:
    """The agents with their providers, the notes they keep and their built-in tools."""
    providers = make_providers(agents, environment)
    keeper = Keeper(db, providers)
    providers.attach(keeper)
    breaker = RecallBreaker(providers.recall_circuits, environment.clock, environment.entropy)
    equipped = with_tools(with_memory(agents, providers, keeper), db, providers, environment.tasks, breaker)
    return equipped, providers, keeper


def make_providers(agents: Agents, environment: Environment) -> Providers:
    """Providers that are made when an agent first needs them. Wrong settings are an error at once."""

    def make(name: AgentName) -> Mapping[ProviderName, Configured]:
        wanted = agents.get(name).policy.memory
        if wanted is None:
            wanted = EMBEDDED if environment.folder is not None else {}
        return {ProviderName(one): make_provider(name, one, settings, environment) for one, settings in wanted.items()}

    return Providers(make)


def with_memory(agents: Agents, providers: Providers, keeper: Keeper) -> Agents:
    """The agents with their turns scheduled for their providers, and the tool that keeps notes."""

    def equipped(name: AgentName, agent: Agent) -> Agent:
        files = providers.of(name).get(ProviderName("files"))
        notes = agent.policy.notes
        if files is not None and isinstance(files.provider, FilesProvider):
            notes = NotesPolicy(capacity=files.provider.capacity)
        box = ToolBox()
        if MEMORY in wanted_tools(agent.policy, name):
            box.add(
                make_memory_tool(
                    keeper.apply,
                    keeper.shown,
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
    """One provider from its table. Raises `ConfigInvalid`; reaches nobody."""
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
