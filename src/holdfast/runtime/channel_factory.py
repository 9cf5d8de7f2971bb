"""Channel factory: creates the channels of the configured agents.

Built-in channels are named here. Others are entry points of the group `holdfast.channels`; the entry point's name is
the table's name in holdfast.toml. A channel's module is imported when an agent first needs it.
"""

from collections.abc import Mapping
from pathlib import Path

from holdfast.channels.agent import CHANNEL as AGENT_CHANNEL
from holdfast.config import FILE
from holdfast.config.secrets import equal_tokens, read_reference, references
from holdfast.inbox.address import agent_name
from holdfast.inbox.channel import GROUP, Channel, ChannelFactory, ChannelSetup
from holdfast.inbox.channels import Channels
from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.ids import AgentName
from holdfast.runtime.environment import Environment
from holdfast.runtime.plugins import BuiltIn, find_factory
from holdfast.turns.agents import Agents

BUILT_IN = {
    "discord": BuiltIn("holdfast.channels.discord", "make_discord", "discord"),
    "slack": BuiltIn("holdfast.channels.slack", "make_slack"),
    "telegram": BuiltIn("holdfast.channels.telegram", "make_telegram"),
}
ALWAYS_THERE = frozenset({"http", "openai", "terminal", AGENT_CHANNEL})


def make_channels(agents: Agents, environment: Environment) -> Channels:
    """Create the channels that the configuration names, without connecting. Raises `ConfigInvalid`."""
    made = Channels()
    for name, agent in agents.listed.items():
        for channel, settings in agent.policy.channels.items():
            made.add(name, channel, make_channel(name, channel, settings, environment))
    equal_tokens(None, _tokens(agents, environment))
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
    try:
        return _factory(name, key)(setup)
    except ConfigInvalid as error:
        said = str(error)
        raise type(error)(said if said.startswith(key) else f"{key}: {said}", key=key) from error


def _factory(name: str, key: str) -> ChannelFactory:
    if name in ALWAYS_THERE:
        raise ConfigInvalid(f"{key}: {name} is always there and has no table of its own", key=key)
    made: ChannelFactory = find_factory("channel", name, key, BUILT_IN, GROUP)
    return made
