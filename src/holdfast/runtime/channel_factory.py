"""Connections: the channels of the configured agents, each with its intake and the loop that runs it.

The built-in ones are named here; others are found under the entry point group `holdfast.channels`, where the name of
the entry point is the name of the table in holdfast.toml. Nothing is imported before an agent needs it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.channels.agent import CHANNEL as AGENT_CHANNEL
from holdfast.config import FILE
from holdfast.config.secrets import equal_tokens, read_reference, references
from holdfast.inbox.address import agent_name
from holdfast.inbox.channel import GROUP, Channel, ChannelFactory, ChannelSetup
from holdfast.inbox.channels import Channels
from holdfast.kernel.clock import Clock
from holdfast.kernel.entropy import Entropy
from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.hardening import variables
from holdfast.kernel.ids import AgentName
from holdfast.kernel.tasks import Tasks
from holdfast.runtime.plugins import BuiltIn, find_factory
from holdfast.turns.agents import Agents

BUILT_IN = {
    "discord": BuiltIn("holdfast.channels.discord", "make_discord", "discord"),
    "slack": BuiltIn("holdfast.channels.slack", "make_slack", "slack"),
    "telegram": BuiltIn("holdfast.channels.telegram", "make_telegram"),
}
ALWAYS_THERE = frozenset({"http", "openai", "terminal", AGENT_CHANNEL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Switchboard:
    """What every channel of this process is made with."""

    clock: Clock
    entropy: Entropy
    tasks: Tasks
    folder: Path  # of holdfast.toml; relative files of secrets begin there
    environment: Mapping[str, str] | None = None  # that of the process unless said


def make_channels(agents: Agents, board: Switchboard) -> Channels:
    """The channels that the configuration names. Raises `ConfigInvalid`; connects to nothing."""
    made = Channels()
    for name, agent in agents.listed.items():
        for channel, settings in agent.policy.channels.items():
            made.add(name, channel, make_channel(name, channel, settings, board))
    equal_tokens(None, _tokens(agents, board))
    return made


def _tokens(agents: Agents, board: Switchboard) -> dict[str, str]:
    """Every bot's tokens. Two variables may hold one token, which the configuration alone does not show."""
    tables = {f"agents.{name}.channels": agent.policy.channels for name, agent in agents.listed.items()}
    found = [named for key, channels in tables.items() for named in references(channels, key)]
    read = {key: read_reference(board.folder / FILE, how, name, _variables(board)) for key, how, name in found}
    return {key: value for key, value in read.items() if value and key.endswith(("token_env", "token_file"))}


def _variables(board: Switchboard) -> Mapping[str, str]:
    return variables() if board.environment is None else board.environment


def make_channel(agent: AgentName, name: str, settings: Mapping[str, object], board: Switchboard) -> Channel:
    key = f"agents.{agent}.channels.{name}"
    setup = ChannelSetup(
        name=agent_name(name, what="channel"),
        agent=agent,
        settings=settings,
        environment=_variables(board),
        folder=board.folder,
        clock=board.clock,
        entropy=board.entropy,
        tasks=board.tasks,
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
