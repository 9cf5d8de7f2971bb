"""The channels of this runtime by (agent, channel name). The runtime closes them."""

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
        """Register a channel that every agent has; it is created on first use."""
        self._makers[name] = make

    def add(self, agent: AgentName, name: str, channel: Channel) -> None:
        self._channels[ChannelKey(agent, name)] = channel

    def get(self, agent: AgentName, name: str) -> Channel | None:
        """None for a channel that is not configured; its replies wait in the outbox."""
        key = ChannelKey(agent, name)
        if key not in self._channels and name in self._makers:
            self._channels[key] = self._makers[name](agent)
        return self._channels.get(key)

    def command_hint(self, agent: AgentName, name: str) -> str:
        channel = self._channels.get(ChannelKey(agent, name))
        return channel.capabilities.command_hint if channel is not None else ""

    def all(self) -> Iterator[tuple[ChannelKey, Channel]]:
        """All channels in the order they were added. Adding one during the iteration is safe."""
        yield from tuple(self._channels.items())

    async def close(self) -> None:
        for _, channel in self.all():
            await channel.close()
        self._channels.clear()
