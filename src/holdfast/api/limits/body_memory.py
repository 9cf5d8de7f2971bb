"""The bytes of request bodies in memory, in total and per client and token.

A request reserves the bytes of its body before it reads any of them. If they do not fit, it waits up to `WAIT_MS` for
other requests to end, and is then refused. The operator has extra bytes beyond the total, and its requests count for no
client and no token.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

from holdfast.api.errors import BodyMemoryFull, TooManyBytes

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
