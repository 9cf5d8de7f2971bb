"""The channels of this process, by agent and name. A receiver runs one channel and restarts it whenever it ends."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from holdfast.inbox.channel import Channel, HeadCheckedWebhook, Intake, WebhookAnswer, WebhookChannel, WebhookRequest
from holdfast.inbox.channel_status import ChannelStatus, ConnectionState
from holdfast.kernel import log
from holdfast.kernel.errors import ChannelFailed
from holdfast.kernel.ids import AgentName
from holdfast.kernel.loop import Loop
from holdfast.kernel.ports import Clock, Entropy, Tasks
from holdfast.kernel.retry import RetryPolicy
from holdfast.kernel.vendor_error import NO_ANSWER, VendorError

RETRY = RetryPolicy(delay_ms_base=1_000, delay_ms_max=300_000)
STABLE_MS = 60_000  # a connection that lasted this long is restarted with the shortest delay


class ChannelKey(NamedTuple):
    agent: AgentName
    channel: str


class Channels:
    """The channels that replies are sent to. The runtime closes them."""

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


@dataclass(slots=True, kw_only=True)
class ChannelConnection:
    """The connection of one channel, kept in memory for commands, metrics and the log."""

    status: ChannelStatus
    clock: Clock
    taken: int = 0  # messages that the intake has dealt with
    logged: tuple[ConnectionState, str, int, str] = (ConnectionState.STARTING, "", 0, "")
    on_change: Callable[[ChannelStatus], None] = lambda _status: None

    def turn(self, state: ConnectionState, reason: str = "", vendor: VendorError = NO_ANSWER) -> None:
        """Enter a state, or repeat it with another reason."""
        before = self.status
        self.status = replace(
            before,
            state=state,
            since=before.since if state is before.state else self.clock.now(),
            reason=vendor.added_to(reason),
            attempts=before.attempts + 1 if state is ConnectionState.DOWN else 0,
            status=vendor.status or None,
            request_id=vendor.request_id or None,
            code=vendor.code or None,
        )
        self._log((state, reason, vendor.status, vendor.code), vendor)
        self.on_change(self.status)

    def _log(self, change: tuple[ConnectionState, str, int, str], vendor: VendorError) -> None:
        """Log changes only: an outage may last for days. The request id differs in every answer and is not compared."""
        state, reason, *_ = change
        if change != self.logged:
            self.logged = change
            channel = {"agent": self.status.agent, "channel": self.status.channel}
            if state is ConnectionState.UP:
                log.info("channel.up", **channel, what=reason)
            else:
                log.warning("channel.down", **channel, why=reason, **vendor.fields)


class Receiver(Loop):
    """Runs one channel and restarts it with growing delays."""

    def __init__(
        self, channel: Channel, intake: Intake, connection: ChannelConnection, tasks: Tasks, entropy: Entropy
    ) -> None:
        super().__init__(tasks, entropy)
        self.name = f"receiver {connection.status.agent} {connection.status.channel}"
        self.connection = connection
        self.channel = channel
        self.intake = intake
        self._failures = 0

    async def step(self) -> bool:
        began = self.connection.clock.now()
        try:
            await self.channel.run(self.intake)
            self._failures = 0
        except ChannelFailed as error:
            lasted = self.connection.clock.now() - began
            self._failures = 1 if lasted >= STABLE_MS else self._failures + 1
            self.connection.turn(ConnectionState.DOWN, str(error), error.vendor)
        return False

    async def rest(self) -> None:
        await self._tasks.sleep(RETRY.delay_ms(self._failures, self._entropy.fraction()))


class ChannelRegistry:
    """The channels of this process: their status and their webhooks. Implements `Webhooks`."""

    def __init__(self, channels: Channels | None = None, receivers: Sequence[Receiver] = ()) -> None:
        self._channels = channels
        self._receivers = {(one.connection.status.agent, one.connection.status.channel): one for one in receivers}

    def connections(self) -> Sequence[ChannelConnection]:
        return [one.connection for one in self._receivers.values()]

    def statuses(self) -> Sequence[ChannelStatus]:
        """The status of each channel, in the order of the configuration."""
        return [connection.status for connection in self.connections()]

    def watch(self, on_change: Callable[[ChannelStatus], None]) -> None:
        """Call `on_change` at every attempt and every change. It must be quick and must not raise."""
        for connection in self.connections():
            connection.on_change = on_change

    def connected(self) -> Mapping[tuple[str, str], bool]:
        """Whether each channel is connected now."""
        return {(one.agent, one.channel): one.state is ConnectionState.UP for one in self.statuses()}

    def check_head(self, agent: str, channel: str, headers: Mapping[str, str]) -> bool:
        receiver = self._receivers.get((AgentName(agent), channel))
        if receiver is None or not isinstance(receiver.channel, WebhookChannel):
            return False
        if isinstance(receiver.channel, HeadCheckedWebhook):
            receiver.channel.check_head(headers)
        return True

    async def hook(self, agent: str, channel: str, request: WebhookRequest) -> WebhookAnswer | None:
        receiver = self._receivers.get((AgentName(agent), channel))
        if receiver is None or not isinstance(receiver.channel, WebhookChannel):
            return None
        return await receiver.channel.hook(request, receiver.intake)

    async def close(self) -> None:
        if self._channels is not None:
            await self._channels.close()
