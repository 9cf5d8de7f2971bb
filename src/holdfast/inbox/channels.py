"""The channels of this runtime: bot accounts by (agent, channel), made by the app and closed with the runtime."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from holdfast.inbox.channel import Channel
from holdfast.kernel.ids import AgentName


class ChannelKey(NamedTuple):
    agent: AgentName
    channel: str


class Channels:
    def __init__(self, channels: Mapping[tuple[AgentName, str], Channel] | None = None) -> None:
        self._channels = {ChannelKey(*key): channel for key, channel in (channels or {}).items()}
        self._makers: dict[str, Callable[[AgentName], Channel]] = {}

    def offer(self, name: str, make: Callable[[AgentName], Channel]) -> None:
        """A channel that every agent has, made when it is first asked for."""
        self._makers[name] = make

    def add(self, agent: AgentName, name: str, channel: Channel) -> None:
        self._channels[ChannelKey(agent, name)] = channel

    def get(self, agent: AgentName, name: str) -> Channel | None:
        """None for a channel that is not configured (any more): its replies wait."""
        key = ChannelKey(agent, name)
        if key not in self._channels and name in self._makers:
            self._channels[key] = self._makers[name](agent)
        return self._channels.get(key)

    def command_hint(self, agent: AgentName, name: str) -> str:
        channel = self._channels.get(ChannelKey(agent, name))
        return channel.capabilities.command_hint if channel is not None else ""

    def all(self) -> Iterator[tuple[ChannelKey, Channel]]:
        """In the order in which they were added. Channels may be added meanwhile."""
        yield from tuple(self._channels.items())

    async def close(self) -> None:
        for _, channel in self.all():
            await channel.close()
        self._channels.clear()
