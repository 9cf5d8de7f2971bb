"""The running tasks of one component: started, counted by group, awaited for a bounded time, and cancelled."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable
from typing import Any

from holdfast.kernel.loop import log_failure
from holdfast.kernel.tasks import Task, Tasks


class TaskSet:
    def __init__(self, tasks: Tasks, *, name: str) -> None:
        self._tasks = tasks
        self._name = name
        self._running: dict[int, Task] = {}
        self._groups: Counter[Hashable] = Counter()
        self._started = 0
        self._ended = asyncio.Event()

    def __len__(self) -> int:
        return len(self._running)

    def count(self, group: Hashable) -> int:
        return self._groups[group]

    def start(self, work: Callable[[], Coroutine[Any, Any, None]], *, name: str, group: Hashable = None) -> None:
        """Start a task. It creates the coroutine itself, so a task cancelled before it runs leaves none unawaited."""
        self._started += 1
        self._groups[group] += 1
        self._running[self._started] = self._tasks.start(self._run(self._started, work, group), name=name)

    async def _run(self, number: int, work: Callable[[], Coroutine[Any, Any, None]], group: Hashable) -> None:
        """Run a task and log its exception: it affects no other task."""
        try:
            await work()
        except Exception as error:  # noqa: BLE001
            log_failure(self._name, error)
        finally:
            if self._running.pop(number, None) is not None:
                self._leave(group)

    def _leave(self, group: Hashable) -> None:
        self._groups[group] -= 1
        if not self._groups[group]:
            del self._groups[group]
        self._ended.set()

    async def fewer_than(self, limit: int, group: Hashable = None) -> None:
        """Wait until fewer tasks than `limit` run, of the group or, without one, of all."""
        while (len(self) if group is None else self.count(group)) >= limit:
            self._ended.clear()
            await self._ended.wait()

    async def drain(self, grace_ms: int) -> None:
        """Let the tasks end within the grace period, then cancel the rest."""
        try:
            async with asyncio.timeout(grace_ms / 1000):
                await self.fewer_than(1)
        except TimeoutError:
            self.cut_off()

    def cut_off(self) -> None:
        """Cancel the tasks without waiting for them."""
        running = list(self._running.values())
        self._running.clear()  # a task cancelled before it ran does not remove itself
        self._groups.clear()
        for task in running:
            task.cancel()
        self._ended.set()
