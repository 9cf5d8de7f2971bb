"""Ordered work, with one queue per conversation: a slow file in one chat delays no other chat.

Rule 1: the jobs of a queue run in order and one at a time. A job that must be retried retries itself.
Rule 2: at most `waiting_max` jobs wait in all queues together; `put` waits for space.
Rule 3: a job that raises is a bug: all queues stop and `on_broken` is called, because continuing would skip a message.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from holdfast.channels.receiving import cancel_all
from holdfast.kernel.ports import Task, Tasks

Job: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class ChatQueues:
    def __init__(self, tasks: Tasks, on_broken: Callable[[], None], *, waiting_max: int) -> None:
        self._tasks = tasks
        self._on_broken = on_broken
        self._waiting_max = waiting_max
        self._queues: dict[str, deque[Job]] = {}
        self._running: dict[str, Task] = {}
        self._waiting = 0
        self._has_space = asyncio.Event()
        self._has_space.set()
        self.is_broken = False

    @property
    def is_idle(self) -> bool:
        return not self._queues

    async def put(self, chat: str, job: Job) -> None:
        await self.space()
        self.put_now(chat, job)

    async def space(self) -> None:
        """Wait until `put_now` may be called. The caller must not await anything between the two."""
        while not self._has_space.is_set():
            await self._has_space.wait()

    def put_now(self, chat: str, job: Job) -> None:
        self._count(+1)
        queue = self._queues.get(chat)
        if queue is not None:
            queue.append(job)
            return
        self._queues[chat] = deque([job])
        self._running[chat] = self._tasks.start(self._drain(chat), name=f"slack {chat}")

    async def _drain(self, chat: str) -> None:
        queue = self._queues[chat]
        try:
            while queue:
                await queue.popleft()()
                self._count(-1)
        except Exception:
            self.is_broken = True
            self._has_space.set()  # the jobs of this queue never run, so callers waiting for space would wait for ever
            self._on_broken()
            raise
        del self._queues[chat], self._running[chat]

    def _count(self, change: int) -> None:
        self._waiting += change
        if self._waiting < self._waiting_max or self.is_broken:
            self._has_space.set()
        else:
            self._has_space.clear()

    async def close(self) -> None:
        """Cancel the running jobs within a bounded time. Their messages were not acknowledged."""
        await cancel_all(self._running.values(), self._tasks)
