"""Work in order, one lane for each conversation: a slow file in one chat holds up no other.

Rule 1: the work of a lane is done in the order in which it came, one at a time; what must be repeated repeats itself.
Rule 2: at most `waiting_max` pieces wait in all; whoever brings more waits.
Rule 3: work that raises is a fault of ours: every lane stops and `broke` is told, since going on would skip something.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from holdfast.kernel.tasks import Task, Tasks

Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
LEAVE_STEPS_MAX = 100
LEAVE_STEP_MS = 20


class ChatQueues:
    def __init__(self, tasks: Tasks, broke: Callable[[], None], *, waiting_max: int) -> None:
        self._tasks = tasks
        self._broke = broke
        self._waiting_max = waiting_max
        self._lanes: dict[str, deque[Work]] = {}
        self._running: dict[str, Task] = {}
        self._waiting = 0
        self._room = asyncio.Event()
        self._room.set()
        self.is_broken = False

    @property
    def is_idle(self) -> bool:
        return not self._lanes

    async def put(self, chat: str, work: Work) -> None:
        await self.room()
        self.put_now(chat, work)

    async def room(self) -> None:
        """Wait until `put_now` may be called, at once: nothing may be awaited between the two."""
        while not self._room.is_set():
            await self._room.wait()

    def put_now(self, chat: str, work: Work) -> None:
        self._count(+1)
        lane = self._lanes.get(chat)
        if lane is not None:
            lane.append(work)
            return
        self._lanes[chat] = deque([work])
        self._running[chat] = self._tasks.start(self._drain(chat), name=f"slack {chat}")

    async def _drain(self, chat: str) -> None:
        lane = self._lanes[chat]
        try:
            while lane:
                await lane.popleft()()
                self._count(-1)
        except Exception:
            self.is_broken = True
            self._room.set()  # what waits in this lane is never done: who waits for that would wait for ever
            self._broke()
            raise
        del self._lanes[chat], self._running[chat]

    def _count(self, change: int) -> None:
        self._waiting += change
        if self._waiting < self._waiting_max or self.is_broken:
            self._room.set()
        else:
            self._room.clear()

    async def close(self) -> None:
        """Cancel what runs, and wait for it within a bounded time. What was not done was not acknowledged."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        for _ in range(LEAVE_STEPS_MAX):
            if all(task.done() for task in running):
                return
            await self._tasks.sleep(LEAVE_STEP_MS)
