"""Hermes' settings that matter for an import: its memory provider, and the bots whose chats go on with Holdfast.

The value of a secret is never kept; only whether its variable is set.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.inbox.access import PLATFORMS

HOSTED = "hermes"  # the provider of Holdfast that hosts a provider of Hermes
# The secrets of a bot: Holdfast's key, and Hermes' variable.
SECRETS: Mapping[str, Mapping[str, str]] = {
    "telegram": {"token_env": "TELEGRAM_BOT_TOKEN"},
    "discord": {"token_env": "DISCORD_BOT_TOKEN"},
    "slack": {"token_env": "SLACK_BOT_TOKEN", "app_token_env": "SLACK_APP_TOKEN"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelProposal:
    """A bot of Hermes that Holdfast can run: the variables that hold its secrets, and the people it may talk to."""

    channel: str
    variables: Mapping[str, str]
    allow: tuple[str, ...] = ()


def assumed_delivered(tables: Mapping[str, Mapping[str, object]], provider: str) -> frozenset[str]:
    """The agent's providers that cannot be asked: a provider of Hermes that the agent hosts has Hermes' turns."""
    return frozenset(name for name, table in tables.items() if name == HOSTED and table.get("provider") == provider)


def channels_of(variables: Mapping[str, str]) -> tuple[ChannelProposal, ...]:
    proposals = []
    for channel, secrets in SECRETS.items():
        if channel in PLATFORMS and all(variables.get(name) for name in secrets.values()):
            allowed = variables.get(f"{channel.upper()}_ALLOWED_USERS", "").split(",")
            people = tuple(f"{channel}:{one.strip()}" for one in allowed if one.strip() not in {"", "*"})
            proposals.append(ChannelProposal(channel=channel, variables=secrets, allow=people))
    return tuple(proposals)


def holdfast_toml(agent: str, channels: Iterable[ChannelProposal], *, per_user: bool) -> str:
    """The tables of holdfast.toml that make the same bots answer the same people. It holds no secret."""
    lines: list[str] = []
    found = list(channels)
    allow = [person for one in found for person in one.allow]
    if allow:
        lines += [f"[agents.{agent}.access]", f"allow = [{', '.join(map(_quoted, allow))}]", ""]
    if per_user and found:
        lines += [f"[agents.{agent}.groups]", 'groups = "per_user"', ""]
    for one in found:
        lines += [f"[agents.{agent}.channels.{one.channel}]"]
        lines += [f"{key} = {_quoted(name)}" for key, name in one.variables.items()]
        lines.append("")
    return "\n".join(lines).rstrip()


def _quoted(text: str) -> str:
    return '"' + "".join(char for char in text if char.isprintable() and char not in '"\\') + '"'
