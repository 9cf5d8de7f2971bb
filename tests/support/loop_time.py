"""The clock of the running event loop, moved forward by a test.

A short timeout in a test assumes that the machine finishes all earlier work within that time. Instead, the limit
stays long, the test waits for the event after which it may expire, and then lets it expire.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


def put_forward(seconds: float) -> None:
    """Make every timer of the running loop due that would be due within so many seconds."""
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]


async def timed_out(call: Awaitable[T], *, after: Awaitable[object], limit_s: float) -> T:
    """The result of a call whose limit of `limit_s` runs out once `after` is done."""
    calling = asyncio.ensure_future(call)
    await after
    put_forward(limit_s)
    return await calling
