"""Hints between nodes: LISTEN/NOTIFY messages that announce a write.

Rule 1: a hint carries no data; it only triggers a poll. A lost hint delays work until the next slow poll.
Rule 2: hints are sent outside the verbs and coalesced: every NOTIFY takes a lock that all databases of the
        server share, so one per verb would serialise the commits of all nodes.
Rule 3: a node ignores its own hints; it knows its own writes.

It starts no tasks: a caller awaits `send` where a delay is acceptable, and the first `heard` starts listening.
"""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.pool import Pool

HINT_GAP_S = 0.050  # at most one NOTIFY per node in this interval
TIMEOUT_S = 10.0


class Hints:
    """Sends and receives the hints of one node on the channel of a schema."""

    def __init__(self, channel: str, node: str, pool: Pool, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._channel = channel
        self._node = node
        self._pool = pool
        self._connect = connect
        self._listener: Connection | None = None
        self._connecting = asyncio.Lock()  # two callers of `heard` must not open two connections
        self._heard = False
        self._wanted = False
        self._sending = False

    async def send(self) -> None:
        """Wake the other nodes.

        The first caller sends at once and waits for the gap; concurrent callers return at once, and one more NOTIFY at
        the end of the gap covers them. Await this where a delay is acceptable.
        """
        self._wanted = True
        if self._sending:
            return
        self._sending = True
        try:
            while self._wanted:
                self._wanted = False
                await self._notify()
                await asyncio.sleep(HINT_GAP_S)
        finally:
            self._sending = False

    async def heard(self) -> bool:
        """Whether another node sent a hint since the last call, or a hint may have been missed."""
        async with self._connecting:
            if self._listener is None or self._listener.is_closed:
                await self._listen()
                self._heard = True  # no connection was listening until now
        heard, self._heard = self._heard, False
        return heard

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.terminate()  # no work is in progress on it, so no graceful close is needed

    async def _notify(self) -> None:
        connection = await self._pool.acquire()
        try:
            await connection.fetch("select pg_notify($1, $2)", (self._channel, self._node), timeout_s=TIMEOUT_S)
        finally:
            self._pool.release(connection)

    async def _listen(self) -> None:
        listener = await self._connect()
        try:
            await listener.listen(self._channel, self._on_notify)
        except BaseException:
            listener.terminate()
            raise
        self._listener = listener

    def _on_notify(self, node: bytes) -> None:
        if node != self._node.encode():
            self._heard = True
