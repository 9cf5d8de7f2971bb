"""Time for the tests of channels: pauses that take none, and a clock that can be put forward."""

import asyncio

from holdfast.channels.account_watermark import EVERY_MS
from holdfast.kernel.ids import Instant
from holdfast.kernel.machine import AsyncTasks, SystemClock
from tests.support.patience import within

WAIT_S = 30.0


class HastyTasks(AsyncTasks):
    """Pauses take no time; how long they would have been is kept. The time of attendance passes when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses_ms: list[float] = []
        self.minutes = asyncio.Semaphore(0)
        self.kept = 0  # how often the time of attendance was waited for
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
        """It is noted, or not, that everything was heard."""
        kept = self.kept
        self.minutes.release()
        async with within(WAIT_S):
            while self.kept == kept:
                self.told.clear()
                await self.told.wait()


class Later:
    """The real clock, put forward."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now(self) -> Instant:
        return Instant(SystemClock().now() + self.ahead_ms)
