"""Hints between nodes: "something was written", over LISTEN/NOTIFY.

Rule 1: a hint carries no news, only a reason to look. Losing one costs the time to the next slow poll.
Rule 2: hints are sent outside the verbs, and many become one: every NOTIFY takes a lock that all
        databases of the server share, so one per verb would queue the commits of all nodes.
Rule 3: a node does not hear itself; it knows what it wrote.

It starts no tasks: `send` is awaited by whoever may wait, and listening begins with the first `heard`.
"""

import asyncio
from typing import Any, Protocol

import asyncpg  # type: ignore[import-untyped]

from holdfast.store.postgres.faults import DRIVER_ERRORS

HINT_GAP_S = 0.050  # at most one NOTIFY per node in this time


class Connect(Protocol):
    async def __call__(self) -> Any:  # noqa: ANN401 - asyncpg has no types
        """Open one connection of its own, outside the pool."""
        ...


class Hints:
    """One node's ear and voice on the channel of a schema."""

    def __init__(self, channel: str, node: str, pool: Any, connect: Connect) -> None:  # noqa: ANN401
        self._channel = channel
        self._node = node
        self._pool = pool
        self._connect = connect
        self._ear: Any = None
        self._tuning = asyncio.Lock()  # two callers of `heard` must not open two ears
        self._heard = False
        self._wanted = False
        self._sending = False

    async def send(self) -> None:
        """Tell the other nodes to look.

        The first caller sends at once and lingers for the gap; whoever calls meanwhile returns at once
        and is covered by one more NOTIFY at its end. Await it where lingering does not matter.
        """
        self._wanted = True
        if self._sending:
            return
        self._sending = True
        try:
            while self._wanted:
                self._wanted = False
                await self._pool.execute("select pg_notify($1, $2)", self._channel, self._node)
                await asyncio.sleep(HINT_GAP_S)
        finally:
            self._sending = False

    async def heard(self) -> bool:
        """True when another node hinted since the last call, or when a hint may have been missed."""
        async with self._tuning:
            if self._ear is None or self._ear.is_closed():
                await self._listen()
                self._heard = True  # nobody listened until now
        heard, self._heard = self._heard, False
        return heard

    async def close(self) -> None:
        if self._ear is not None:
            self._ear.terminate()  # nothing is under way that a polite goodbye could save

    async def _listen(self) -> None:
        ear = await self._connect()
        try:
            await ear.add_listener(self._channel, self._on_notify)
        except (asyncpg.PostgresError, *DRIVER_ERRORS, asyncio.CancelledError):
            ear.terminate()
            raise
        self._ear = ear

    def _on_notify(self, _connection: object, _pid: int, _channel: str, node: str) -> None:
        if node != self._node:
            self._heard = True
