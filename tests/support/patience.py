"""Limits that mean hanging, not slowness: they count the share of the machine that a test gets, not the wall clock.

A second on a machine where twelve processes compete for each processor counts as a twelfth of a second. So a limit that
is generous on a quiet machine is as generous under load, and a test that hangs still fails. Where the system does not
tell its load (Windows), a second is a second.

`Watch` counts. `within` bounds what an event loop awaits. The limit of every test is counted the same way
(tests/conftest.py); what only waits for a process may wait for HANGS_S and leave the judgement to that.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

LOOK_EVERY_S = 2.0
CROWDING_MAX = 60.0  # an upper bound, so that a test that hangs fails within two hours
HANGS_S = 3_600.0  # for waits that the limit of the test interrupts


def crowding() -> float:
    """How many processes compete for each processor; at least one."""
    if not hasattr(os, "getloadavg"):
        return 1.0
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(CROWDING_MAX, max(1.0, os.getloadavg()[0] / processors, _running() / processors))


def _running() -> int:
    """How many are runnable at this moment: the average of the last minute is slow to notice."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:  # noqa: PTH123 - called every few seconds
            return int(file.read().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return 0


class Watch:
    """Counts a limit down, slower the more crowded the machine is."""

    def __init__(
        self,
        limit_s: float,
        *,
        now: Callable[[], float] = time.monotonic,
        crowded: Callable[[], float] = crowding,
    ) -> None:
        self._left_s = limit_s
        self._now = now
        self._crowded = crowded
        self._looked_at = now()

    def left_s(self) -> float:
        """What is left of the limit; zero or less when it is over. To be asked every few seconds."""
        now = self._now()
        self._left_s -= (now - self._looked_at) / self._crowded()
        self._looked_at = now
        return self._left_s

    def next_look_s(self) -> float:
        return max(0.01, min(LOOK_EVERY_S, self._left_s))


@asynccontextmanager
async def within(limit_s: float) -> AsyncIterator[None]:
    """Like `asyncio.timeout`, for tests on a real event loop. Raises `TimeoutError`."""
    watch, loop = Watch(limit_s), asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:
        due: list[asyncio.TimerHandle] = []

        def look() -> None:
            if watch.left_s() <= 0:
                limit.reschedule(loop.time())
            else:
                due[:] = [loop.call_later(watch.next_look_s(), look)]

        due.append(loop.call_later(watch.next_look_s(), look))
        try:
            yield
        finally:
            due[0].cancel()
