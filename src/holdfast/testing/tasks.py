"""The Tasks port of one simulated node: tasks die and pause with it, sleep takes virtual time, threads are inlined."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, TypeVar

from holdfast.testing.node import NODE, SimNode
from holdfast.testing.simloop import SimLoop

T = TypeVar("T")


class SimTasks:
    def __init__(self, loop: SimLoop, node: SimNode) -> None:
        self._loop = loop
        self._node = node

    def start(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        """As on a real loop, the new task inherits the context of its creator."""
        inherited = copy_context() if NODE.get() is self._node else None
        return self._node.start(work, name=name, context=inherited)

    async def sleep(self, delay_ms: float) -> None:
        await asyncio.sleep(delay_ms / 1000)

    async def in_thread(self, call: Callable[[], T]) -> T:
        result: T = await self._loop.run_in_executor(None, call)
        return result
