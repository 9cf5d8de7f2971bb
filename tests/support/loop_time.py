"""The clock of the running event loop, put forward by a test.

A short timeout in a test is a bet that the machine does everything before it within that time. Instead, the limit
stays long, the test waits for the event after which it may run out, and then lets it run out.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


def put_forward(seconds: float) -> None:
    """Make every timer of the running loop due that is set within so many seconds from now."""
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]


async def timed_out(call: Awaitable[T], *, after: Awaitable[object], limit_s: float) -> T:
    """The result of a call whose limit of `limit_s` runs out once `after` is done."""
    calling = asyncio.ensure_future(call)
    await after
    put_forward(limit_s)
    return await calling
