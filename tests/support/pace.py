"""Time for the tests of channels: pauses that take no time, and a clock that can be moved forward."""

import asyncio

from holdfast.channels.receiving import EVERY_MS
from holdfast.kernel.ids import Instant
from holdfast.kernel.machine import AsyncTasks, SystemClock
from tests.support.patience import within

WAIT_S = 30.0


class HastyTasks(AsyncTasks):
    """Pauses take no time and are recorded. The interval of the account watermark passes when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses_ms: list[float] = []
        self.minutes = asyncio.Semaphore(0)
        self.kept = 0  # how often the interval of the account watermark was waited for
        self.told = asyncio.Event()

    async def sleep(self, delay_ms: float) -> None:
        if delay_ms == EVERY_MS:
            self.kept += 1
            self.told.set()
            await self.minutes.acquire()
            return
        self.pauses_ms.append(delay_ms)
        await asyncio.sleep(0)

    async def minute(self) -> None:
        """Let the interval pass, in which the account watermark may advance."""
        kept = self.kept
        self.minutes.release()
        async with within(WAIT_S):
            while self.kept == kept:
                self.told.clear()
                await self.told.wait()


class Later:
    """The real clock, moved forward."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now(self) -> Instant:
        return Instant(SystemClock().now() + self.ahead_ms)
