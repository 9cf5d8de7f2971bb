"""The receiver: runs one channel and starts it again, with growing delays, whenever it ends."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.inbox.channel import Channel, HeadChecked, Hooked, Intake, WebhookAnswer, WebhookRequest
from holdfast.inbox.channel_status import LineState, Standing
from holdfast.inbox.channels import Channels
from holdfast.kernel import log
from holdfast.kernel.clock import Clock
from holdfast.kernel.entropy import Entropy
from holdfast.kernel.errors import ChannelFailed
from holdfast.kernel.ids import AgentName, Instant
from holdfast.kernel.loop import Loop
from holdfast.kernel.retry import RetryPolicy
from holdfast.kernel.tasks import Tasks
from holdfast.kernel.vendor_error import NO_ANSWER, VendorError

RETRY = RetryPolicy(delay_ms_base=1_000, delay_ms_max=300_000)
SETTLED_MS = 60_000  # who was connected that long starts again with the shortest delay


@dataclass(slots=True, kw_only=True)
class Line:
    """How a channel is doing. RAM that can vanish; commands, the metrics and the log read it."""

    agent: AgentName
    channel: str
    clock: Clock
    state: LineState = LineState.STARTING
    since: Instant = Instant(0)
    reason: str = ""  # why it is down, or whom the platform calls us while it is up
    attempts: int = 0  # in a row that came to nothing
    taken: int = 0
    taken_at: Instant | None = None
    told: tuple[LineState, str, int, str] = (LineState.STARTING, "", 0, "")  # to the log
    hear: Callable[[Standing], None] = lambda _standing: None

    @property
    def standing(self) -> Standing:
        return Standing(
            agent=self.agent,
            channel=self.channel,
            state=self.state,
            since=self.since,
            reason=self.reason,
            attempts=self.attempts,
        )

    def turn(self, state: LineState, reason: str = "", vendor: VendorError = NO_ANSWER) -> None:
        self.attempts = self.attempts + 1 if state is LineState.DOWN else 0
        if state is not self.state:
            self.since = self.clock.now()
        self.state, self.reason = state, vendor.added_to(reason)
        self._tell((state, reason, vendor.status, vendor.code), vendor)
        self.hear(self.standing)

    def _tell(self, news: tuple[LineState, str, int, str], vendor: VendorError) -> None:
        """The log hears of what is new only: a platform may be away for days. Every answer has another request id."""
        state, reason, *_ = news
        if news != self.told:
            self.told = news
            if state is LineState.UP:
                log.info("channel.up", agent=self.agent, channel=self.channel, what=reason)
            else:
                log.warning("channel.down", agent=self.agent, channel=self.channel, why=reason, **vendor.fields)

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
            self.line.turn(LineState.DOWN, str(error), error.vendor)
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

    def standings(self) -> Sequence[Standing]:
        """How each channel is doing, in the order of the configuration."""
        return [line.standing for line in self.lines()]

    def watch(self, hear: Callable[[Standing], None]) -> None:
        """Have every attempt and every change told at once. `hear` must be quick and must not raise."""
        for line in self.lines():
            line.hear = hear

    def connected(self) -> Mapping[tuple[str, str], bool]:
        """Which channels have their platform now."""
        return {(line.agent, line.channel): line.state is LineState.UP for line in self.lines()}

    def check_head(self, agent: str, channel: str, headers: Mapping[str, str]) -> bool:
        receiver = self._receivers.get((AgentName(agent), channel))
        if receiver is None or not isinstance(receiver.channel, Hooked):
            return False
        if isinstance(receiver.channel, HeadChecked):
            receiver.channel.check_head(headers)
        return True

    async def hook(self, agent: str, channel: str, request: WebhookRequest) -> WebhookAnswer | None:
        receiver = self._receivers.get((AgentName(agent), channel))
        if receiver is None or not isinstance(receiver.channel, Hooked):
            return None
        return await receiver.channel.hook(request, receiver.intake)

    async def close(self) -> None:
        if self._channels is not None:
            await self._channels.close()
