"""The receiver: runs one channel and starts it again, with growing delays, whenever it ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from holdfast import log
from holdfast.core.errors import ChannelFailed
from holdfast.core.ids import AgentName, Instant
from holdfast.core.policy import RetryPolicy
from holdfast.loops.channels import Channels
from holdfast.loops.loop import Loop
from holdfast.ports.channel import Channel, Hooked, Intake, WebhookAnswer, WebhookRequest
from holdfast.ports.clock import Clock
from holdfast.ports.entropy import Entropy
from holdfast.ports.tasks import Tasks

RETRY = RetryPolicy(delay_ms_base=1_000, delay_ms_max=300_000)
SETTLED_MS = 60_000  # who was connected that long starts again with the shortest delay


class LineState(Enum):
    STARTING = "starting"
    UP = "up"
    DOWN = "down"


@dataclass(slots=True, kw_only=True)
class Line:
    """How a channel is doing. RAM that can vanish; the console, the metrics and the log read it."""

    agent: AgentName
    channel: str
    clock: Clock
    state: LineState = LineState.STARTING
    since: Instant = Instant(0)
    reason: str = ""
    taken: int = 0
    taken_at: Instant | None = None

    def turn(self, state: LineState, reason: str = "") -> None:
        if (state, reason) != (self.state, self.reason):
            self.state, self.reason, self.since = state, reason, self.clock.now()
            if state is LineState.UP:
                log.info("channel.up", agent=self.agent, channel=self.channel, what=reason)
            else:
                log.warning("channel.down", agent=self.agent, channel=self.channel, why=reason)

    def took(self) -> None:
        self.taken += 1
        self.taken_at = self.clock.now()


class Receiver(Loop):
    def __init__(self, channel: Channel, intake: Intake, line: Line, tasks: Tasks, entropy: Entropy) -> None:
        super().__init__(tasks, entropy)
        self.name = f"receiver {line.agent} {line.channel}"
        self.line = line
        self.channel = channel
        self.intake = intake
        self._failures = 0

    async def step(self) -> bool:
        began = self.line.clock.now()
        try:
            await self.channel.run(self.intake)
            self._failures = 0
        except ChannelFailed as error:
            lasted = self.line.clock.now() - began
            self._failures = 1 if lasted >= SETTLED_MS else self._failures + 1
            self.line.turn(LineState.DOWN, str(error))
        return False

    async def rest(self) -> None:
        await self._tasks.sleep(RETRY.delay_ms(self._failures, self._entropy.fraction()))


class Exchange:
    """The channels of this process: how each is doing, and where platforms call. Implements `Hooks`."""

    def __init__(self, channels: Channels | None = None, receivers: Sequence[Receiver] = ()) -> None:
        self._channels = channels
        self._receivers = {(one.line.agent, one.line.channel): one for one in receivers}

    def lines(self) -> Sequence[Line]:
        return [one.line for one in self._receivers.values()]

    def connected(self) -> Mapping[tuple[str, str], bool]:
        """Which channels have their platform now."""
        return {(line.agent, line.channel): line.state is LineState.UP for line in self.lines()}

    async def hook(self, agent: str, channel: str, request: WebhookRequest) -> WebhookAnswer | None:
        receiver = self._receivers.get((AgentName(agent), channel))
        if receiver is None or not isinstance(receiver.channel, Hooked):
            return None
        return await receiver.channel.hook(request, receiver.intake)

    async def close(self) -> None:
        if self._channels is not None:
            await self._channels.close()
