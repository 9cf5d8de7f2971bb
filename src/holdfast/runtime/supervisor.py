"""The supervisor: starts the loops of one process and ends them within a bounded time."""

import asyncio
from collections.abc import Sequence

from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.loop import ClaimLoop, Loop
from holdfast.kernel.notifier import Notifier, Topic
from holdfast.kernel.tasks import Task, Tasks
from holdfast.store.membership import Member
from holdfast.turns.worker import Worker

GRACE_MS = 5_000
LEAVE_MS = 2_000


class Supervisor:
    def __init__(
        self,
        member: Member,
        worker: Worker,
        others: Sequence[Loop],
        notifier: Notifier,
        tasks: Tasks,
        *,
        sole: bool,
    ) -> None:
        self._member = member
        self._worker = worker
        self._loops: tuple[Loop, ...] = (worker, *others)
        self._notifier = notifier
        self._tasks = tasks
        self._sole = sole
        self._running: list[Task] = []

    async def start(self) -> None:
        await self._member.join(sole=self._sole)
        self._running = [self._tasks.start(loop.run(), name=loop.name) for loop in self._loops]

    async def stop(self, grace_ms: int = GRACE_MS) -> None:
        """Stop taking work, let turns finish within the grace period, then release every claim. No work is lost."""
        for loop in self._loops:
            loop.stopping = True
        for topic in Topic:
            self._notifier.wake(topic)
        await self._worker.drain(grace_ms)
        for loop in self._loops:
            if isinstance(loop, ClaimLoop) and loop is not self._worker:
                await loop.drain()
        for loop in self._loops:
            loop.cut_off()
        for task in self._running:
            task.cancel()
        try:
            async with asyncio.timeout(LEAVE_MS / 1000):
                await self._member.leave()
        except (HoldfastError, TimeoutError) as error:
            # The claims expire with the lease, or the next owner voids them; the work is delayed, not lost.
            log.warning("node.lost", node=self._member.node, why=str(error))
