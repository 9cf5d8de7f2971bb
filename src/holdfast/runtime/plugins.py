"""Plugins: creates the channels and memory providers that the configuration names.

Built-in ones are named here. Others are entry points, `holdfast.channels` and `holdfast.providers`; the entry point's
name is the table's name in holdfast.toml. A module is imported when an agent first needs it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.channels.agent import CHANNEL as AGENT_CHANNEL
from holdfast.config import FILE
from holdfast.config.secrets import equal_tokens, read_reference, references
from holdfast.inbox.address import agent_name
from holdfast.inbox.channel import GROUP as CHANNELS
from holdfast.inbox.channel import Channel, ChannelFactory, ChannelSetup
from holdfast.inbox.channels import Channels
from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.hardening import variables
from holdfast.kernel.ids import AgentName
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.kernel.ports import Clock, Entropy, Tasks
from holdfast.memory.provider import GROUP as PROVIDERS
from holdfast.memory.provider import Configured, Factory, Providers, ProviderSetup
from holdfast.turns.agents import Agents


class BuiltIn(NamedTuple):
    module: str
    factory: str
    extra: str = ""  # the package extra that installs its dependencies


BUILT_IN_CHANNELS = {
    "discord": BuiltIn("holdfast.channels.discord", "make_discord", "discord"),
    "slack": BuiltIn("holdfast.channels.slack", "make_slack"),
    "telegram": BuiltIn("holdfast.channels.telegram", "make_telegram"),
}
ALWAYS_THERE = frozenset({"http", "openai", "terminal", AGENT_CHANNEL})
BUILT_IN_PROVIDERS = {
    "files": BuiltIn("holdfast.providers.files", "make_files"),
    "hermes": BuiltIn("holdfast.providers.hermes", "make_hermes"),
    "hindsight": BuiltIn("holdfast.providers.hindsight", "make_hindsight", "hindsight"),
    "honcho": BuiltIn("holdfast.providers.honcho", "make_honcho", "honcho"),
    "local": BuiltIn("holdfast.providers.local", "make_local"),
}
EMBEDDED: Mapping[str, Mapping[str, object]] = {"local": {}, "files": {}}  # the default for a data folder
FOLDER = "agents"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The environment in which one process creates providers, channels and MCP servers."""

    clock: Clock
    entropy: Entropy
    tasks: Tasks
    folder: Path | None = None  # the data folder; None on PostgreSQL, which several machines share
    config_folder: Path | None = None  # the folder of holdfast.toml; relative paths of secrets start here
    variables: Mapping[str, str] = field(default_factory=variables, repr=False)
    key: bytes | None = field(default=None, repr=False)  # of the databases in an encrypted folder
    hidden: tuple[Path, ...] = ()  # files outside the folder that no MCP program may access: configuration, secrets
    umask: int | None = None  # of MCP programs; None means the umask of this process


def find_factory(what: str, name: str, key: str, built_in: Mapping[str, BuiltIn], group: str) -> Any:  # noqa: ANN401
    """The factory of that name, untyped; the caller knows its type. Raises `ConfigInvalid`, which names the key."""
    if name in built_in:
        return load_built_in(built_in[name], key)
    found = {point.name: point for point in entry_points(group=group)}
    if name not in found:
        known = ", ".join(sorted({*built_in, *found}))
        raise ConfigInvalid(f"{key}: there is no {what} {name!r}; known are {known}", key=key)
    try:
        return found[name].load()
    except (ImportError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise ConfigInvalid(f"{key}: {found[name].value} cannot be loaded ({why})", key=key) from error


def load_built_in(one: BuiltIn, key: str) -> Any:  # noqa: ANN401
    """The factory itself, untyped. Raises `ConfigInvalid` if its dependencies are not installed."""
    try:
        return getattr(import_module(one.module), one.factory)
    except ModuleNotFoundError as error:
        if not one.extra or (error.name or "").startswith("holdfast"):
            raise
        raise ConfigInvalid(f"{key} needs an extra: install holdfast[{one.extra}]", key=key) from error


# --- channels ---------------------------------------------------------------------------------------


def make_channels(agents: Agents, environment: Environment) -> Channels:
    """Create the channels that the configuration names, without connecting. Raises `ConfigInvalid`."""
    made = Channels()
    for name, agent in agents.listed.items():
        for channel, settings in agent.policy.channels.items():
            made.add(name, channel, make_channel(name, channel, settings, environment))
    for error in equal_tokens(None, _tokens(agents, environment)):
        raise error
    return made


def _tokens(agents: Agents, environment: Environment) -> dict[str, str]:
    """The tokens of every bot. Two variables may hold the same token, which the configuration alone does not show."""
    tables = {f"agents.{name}.channels": agent.policy.channels for name, agent in agents.listed.items()}
    found = [named for key, channels in tables.items() for named in references(channels, key)]
    read = {
        key: read_reference((environment.config_folder or Path()) / FILE, how, name, environment.variables)
        for key, how, name in found
    }
    return {key: value for key, value in read.items() if value and key.endswith(("token_env", "token_file"))}


def make_channel(agent: AgentName, name: str, settings: Mapping[str, object], environment: Environment) -> Channel:
    key = f"agents.{agent}.channels.{name}"
    setup = ChannelSetup(
        name=agent_name(name, what="channel"),
        agent=agent,
        settings=settings,
        environment=environment.variables,
        folder=environment.config_folder or Path(),
        clock=environment.clock,
        entropy=environment.entropy,
        tasks=environment.tasks,
    )
    if name in ALWAYS_THERE:
        raise ConfigInvalid(f"{key}: {name} is always there and has no table of its own", key=key)
    factory: ChannelFactory = find_factory("channel", name, key, BUILT_IN_CHANNELS, CHANNELS)
    try:
        return factory(setup)
    except ConfigInvalid as error:
        said = str(error)
        raise type(error)(said if said.startswith(key) else f"{key}: {said}", key=key) from error


# --- memory providers -------------------------------------------------------------------------------


def make_providers(agents: Agents, environment: Environment) -> Providers:
    """Create each agent's providers on first use. Invalid settings raise at once."""

    def make(name: AgentName) -> Mapping[ProviderName, Configured]:
        wanted = agents.get(name).policy.memory
        if wanted is None:
            wanted = EMBEDDED if environment.folder is not None else {}
        return {ProviderName(one): make_provider(name, one, settings, environment) for one, settings in wanted.items()}

    return Providers(make)


def make_provider(agent: AgentName, name: str, settings: Mapping[str, object], environment: Environment) -> Configured:
    """Create one provider from its table, without connecting. Raises `ConfigInvalid`."""
    key = f"agents.{agent}.memory.{name}"
    factory: Factory = find_factory("provider", name, key, BUILT_IN_PROVIDERS, PROVIDERS)
    if environment.folder is None and name in EMBEDDED:
        raise ConfigInvalid(f"{key}: it lives in a data folder, and there is none with PostgreSQL", key=key)
    home = (environment.folder or Path()) / FOLDER / agent
    setup = ProviderSetup(
        name=ProviderName(name),
        agent=agent,
        settings=settings,
        folder=home if name == "files" else home / name,
        environment=environment.variables,
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
