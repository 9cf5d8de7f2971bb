"""The connections of one node: opened when they are needed, kept while they are used, closed with the pool."""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.kernel.errors import StoreUnavailable
from holdfast.store.postgres.connection import Connection

ACQUIRE_TIMEOUT_S = 10.0
IDLE_MAX_S = 300.0  # a proxy may have dropped a connection that was idle for longer


class Pool:
    """At most `size` connections. Each is lent to one caller at a time; the one used last is lent first."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], size: int) -> None:
        self._connect = connect
        self._size = size
        self._free = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        self._lent: set[Connection] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def acquire(self) -> Connection:
        """Lend a connection. Raises `StoreUnavailable`, and what `connect` raises."""
        async with asyncio.timeout(ACQUIRE_TIMEOUT_S):
            await self._free.acquire()
        try:
            connection = self._take() or await self._connect()
        except BaseException:
            self._free.release()
            raise
        self._lent.add(connection)
        return connection

    def release(self, connection: Connection) -> None:
        self._lent.discard(connection)
        self._note_ending(connection)
        if connection.is_worn or self._is_closed:
            connection.terminate()
        if not connection.is_closed:
            connection.idle_since_s = asyncio.get_running_loop().time()
            self._idle.append(connection)
        self._free.release()

    async def close(self, timeout_s: float) -> None:
        """Wait for the connections that are lent, then close all."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            async with asyncio.timeout(timeout_s):
                for _ in range(self._size):
                    await self._free.acquire()
        except TimeoutError:
            pass  # the callers of these get an error
        for connection in (*self._idle, *self._lent):
            connection.terminate()
            self._note_ending(connection)
        self._idle.clear()
        if self._ending:
            await asyncio.wait(self._ending)

    def _note_ending(self, connection: Connection) -> None:
        if connection.ending is not None:
            self._ending.add(connection.ending)
            connection.ending.add_done_callback(self._ending.discard)

    def _take(self) -> Connection | None:
        """The idle connection that was used last, if it can still be used."""
        if self._is_closed:
            raise StoreUnavailable("the database is closed")
        oldest_s = asyncio.get_running_loop().time() - IDLE_MAX_S
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed and connection.idle_since_s >= oldest_s:
                return connection
            connection.terminate()
        return None
