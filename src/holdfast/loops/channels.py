"""The channels of this runtime: bot accounts by (agent, channel), made by the app and closed with the runtime."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from holdfast.core.ids import AgentName
from holdfast.ports.channel import Channel


class ChannelKey(NamedTuple):
    agent: AgentName
    channel: str


class Channels:
    def __init__(self, channels: Mapping[tuple[AgentName, str], Channel] | None = None) -> None:
        self._channels = {ChannelKey(*key): channel for key, channel in (channels or {}).items()}

    def add(self, agent: AgentName, name: str, channel: Channel) -> None:
        self._channels[ChannelKey(agent, name)] = channel

    def get(self, agent: AgentName, name: str) -> Channel | None:
        """None for a channel that is not configured (any more): its replies wait."""
        return self._channels.get(ChannelKey(agent, name))

    def all(self) -> Iterator[tuple[ChannelKey, Channel]]:
        """In the order in which they were added. Channels may be added meanwhile."""
        yield from tuple(self._channels.items())

    async def close(self) -> None:
        for _, channel in self.all():
            await channel.close()
        self._channels.clear()
