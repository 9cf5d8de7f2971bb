"""The connection to Telegram: whether it is up, and how long to wait after a failed call.

Delays grow and are randomised, so that bots that lost Telegram together do not return together.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.channels.telegram.wire import BotApiError, BotApiErrorKind
from holdfast.inbox.channel import Intake
from holdfast.kernel.entropy import Entropy
from holdfast.kernel.errors import ChannelFailed
from holdfast.kernel.retry import RetryPolicy
from holdfast.kernel.tasks import Tasks

RETRY = RetryPolicy(delay_ms_base=800, delay_ms_max=48_000)  # with jitter at most one minute
# The other process is a configuration error, which only its operator can end.
CONFLICT = RetryPolicy(delay_ms_base=24_000, delay_ms_max=24_000)
T = TypeVar("T")


class BotConnection:
    def __init__(self, intake: Intake, tasks: Tasks, entropy: Entropy, *, token_from: str) -> None:
        self._intake = intake
        self._tasks = tasks
        self._entropy = entropy
        self._token_from = token_from
        self.bot_name = ""  # once `getMe` has answered
        self.is_up = False
        self._failures = 0

    def up(self, detail: str) -> None:
        self._failures = 0
        if not self.is_up:
            self.is_up = True
            self._intake.connected(f"@{self.bot_name}, {detail}" if self.bot_name else detail)

    async def persist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat the call until it succeeds. Raises `ChannelFailed` for an error that no retry can mend."""
        while True:
            try:
                return await call()
            except BotApiError as failure:
                await self.down(failure)

    async def down(self, failure: BotApiError) -> None:
        """Report the failure and wait before the next attempt. Raises `ChannelFailed` if waiting does not help."""
        if failure.kind is BotApiErrorKind.STRANGER:
            advice = f"{rejected_token(self._token_from)}, or ask @BotFather for a new one"
            raise ChannelFailed(advice, vendor=failure.vendor)
        if failure.kind in (BotApiErrorKind.REFUSED, BotApiErrorKind.MOVED):
            raise ChannelFailed(failure.reason, vendor=failure.vendor)
        self._failures += 1
        self.is_up = False
        self._intake.disconnected(_sentence(failure), vendor=failure.vendor)
        await self._tasks.sleep(self._delay_ms(failure))

    def _delay_ms(self, failure: BotApiError) -> float:
        if failure.kind is BotApiErrorKind.BUSY:
            return failure.retry_after_ms
        policy = CONFLICT if failure.kind is BotApiErrorKind.CONFLICT else RETRY
        return policy.delay_ms(self._failures, self._entropy.fraction())


def rejected_token(token_from: str) -> str:
    return f"Telegram does not accept the bot's token; check the value of {token_from}"


def _sentence(failure: BotApiError) -> str:
    if failure.kind is not BotApiErrorKind.CONFLICT:
        return failure.reason
    if "webhook" in failure.description.lower():
        return "a webhook is set for this bot; it is removed so that polling can continue"
    return "another process polls with this bot's token; stop one of them, or give each its own bot"
