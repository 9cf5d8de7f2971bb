"""The real clock, chance and tasks: the only place where the package asks the machine for them."""

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from holdfast import log
from holdfast.core.ids import Instant

T = TypeVar("T")


class SystemClock:
    def now(self) -> Instant:
        return Instant(time.time_ns() // 1_000_000)


class SystemEntropy:
    def bits(self, count: int) -> int:
        return secrets.randbits(count)

    def fraction(self) -> float:
        return secrets.randbits(53) / (1 << 53)


class AsyncTasks:
    """Tasks on the running event loop. References are kept, since the loop itself keeps weak ones only."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def sleep(self, delay_ms: float) -> None:
        await asyncio.sleep(delay_ms / 1000)

    async def in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.to_thread(log.carried(call))
