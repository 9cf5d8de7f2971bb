"""What clients and tokens use: bytes of request bodies in memory, and amounts within a window of time.

A request reserves the bytes of its body before it reads any of them. If they do not fit, it waits up to `WAIT_MS` for
other requests to end, and is then refused. The operator has extra bytes beyond the total, and its requests count for no
client and no token. The counts are in memory only and may be lost.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Sequence

from holdfast.api.errors import BodyMemoryFull, TooManyBytes
from holdfast.kernel.ids import Instant
from holdfast.kernel.ports import Clock

WAIT_MS = 5_000


class BodyMemory:
    def __init__(self, bytes_max: int, operator_bytes: int) -> None:
        self._bytes_max = bytes_max
        self._operator_bytes = operator_bytes
        self._held = 0
        self._by_key: Counter[str] = Counter()
        self._freed = asyncio.Event()

    @property
    def held(self) -> int:
        return self._held

    async def hold(self, size: int, caps: Sequence[tuple[str, int]]) -> None:
        """Wait until `size` more bytes fit. A request without `caps` is the operator's.

        Raises `TooManyBytes` and `BodyMemoryFull`.
        """
        try:
            async with asyncio.timeout(WAIT_MS / 1000):
                while not self.try_hold(size, caps):
                    await self._freed.wait()
        except TimeoutError as error:
            if self._exceeds(size, caps):
                what = "too many bytes of requests are on their way from this client or with this token"
                raise TooManyBytes(what, retry_after_ms=WAIT_MS) from error
            what = f"{self._held} bytes of requests are in memory already"
            raise BodyMemoryFull(what, retry_after_ms=WAIT_MS) from error

    def try_hold(self, size: int, caps: Sequence[tuple[str, int]]) -> bool:
        most = self._bytes_max if caps else self._bytes_max + self._operator_bytes
        if self._held + size > most or self._exceeds(size, caps):
            return False
        self._held += size
        for key, _ in caps:
            self._by_key[key] += size
        return True

    def give_back(self, size: int, caps: Sequence[tuple[str, int]]) -> None:
        self._held -= size
        for key, _ in caps:
            self._by_key[key] -= size
            if self._by_key[key] <= 0:
                del self._by_key[key]
        self._freed.set()
        self._freed = asyncio.Event()

    def _exceeds(self, size: int, caps: Sequence[tuple[str, int]]) -> bool:
        return any(self._by_key[key] + size > most for key, most in caps)


KEYS_MAX = 10_000


class Allowance:
    def __init__(self, clock: Clock, window_ms: int) -> None:
        self._clock = clock
        self._window_ms = window_ms
        self._used: OrderedDict[str, tuple[Instant, int]] = OrderedDict()

    def wait_ms(self, key: str, more: int, most: int) -> int:
        """Milliseconds until `more` fits below `most`; 0 if it fits now. An empty window accepts any amount once."""
        began, used = self._window(key)
        return 0 if used == 0 or used + more <= most else max(1, began + self._window_ms - self._clock.now())

    def use(self, key: str, amount: int) -> None:
        began, used = self._window(key)
        self._used[key] = (began, used + amount)
        self._used.move_to_end(key)
        if len(self._used) > KEYS_MAX:
            self._used.popitem(last=False)

    def _window(self, key: str) -> tuple[Instant, int]:
        now = self._clock.now()
        began, used = self._used.get(key, (now, 0))
        return (began, used) if 0 <= now - began < self._window_ms else (now, 0)
