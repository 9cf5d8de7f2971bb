"""The real clock, entropy and tasks. No other module of the package asks the machine for them."""

import asyncio
import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from holdfast.kernel import log
from holdfast.kernel.ids import Instant

PIECE_BYTES = 16
STOCK_PIECES = 256
T = TypeVar("T")
stopwatch = time.perf_counter  # seconds since some moment, for durations below a millisecond

_stock: deque[bytes] = deque()  # shared by all instances, because a fork handler cannot be unregistered
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_stock.clear)


class SystemClock:
    def now(self) -> Instant:
        return Instant(time.time_ns() // 1_000_000)


class SystemEntropy:
    """The system's entropy, read in blocks, so that an id costs no system call.

    Taking a piece from the stock is one atomic operation, so no two threads get the same piece. A child process starts
    with an empty stock.
    """

    def bits(self, count: int) -> int:
        if count > PIECE_BYTES * 8:
            return secrets.randbits(count)
        try:
            piece = _stock.popleft()
        except IndexError:
            fresh = os.urandom(PIECE_BYTES * STOCK_PIECES)
            piece, *rest = (fresh[at : at + PIECE_BYTES] for at in range(0, len(fresh), PIECE_BYTES))
            _stock.extend(rest)
        return int.from_bytes(piece, "big") >> (PIECE_BYTES * 8 - count)

    def fraction(self) -> float:
        return self.bits(53) / (1 << 53)


class AsyncTasks:
    """Tasks on the running event loop. It keeps references, since the loop itself has only weak ones."""

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
