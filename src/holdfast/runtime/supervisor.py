"""The supervisor: starts the loops of one process and ends them within a bounded time."""

import asyncio
from collections.abc import Sequence

from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError, NodeLost
from holdfast.kernel.loop import ClaimLoop, Loop
from holdfast.kernel.notifier import Notifier, Topic
from holdfast.kernel.ports import Task, Tasks
from holdfast.store.membership import RENEW_EVERY_MS, Member
from holdfast.store.node_sql import renew_node
from holdfast.store.ports import Ports
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


class TemporaryLease:
    """Renews this node's lease while a process that serves nothing runs an operation."""

    def __init__(self, ports: Ports, member: Member) -> None:
        self._ports = ports
        self._member = member
        self._renewal: Task | None = None

    @property
    def is_open(self) -> bool:
        return self._renewal is not None

    async def begin(self) -> None:
        if self._renewal is None:
            await self._member.join(sole=False)
            self._renewal = self._ports.tasks.start(self._renew(), name="visit")

    async def _renew(self) -> None:
        while True:
            await self._ports.tasks.sleep(RENEW_EVERY_MS)
            try:
                await self._ports.db.write(renew_node(self._member.node))
            except NodeLost as lost:
                log.warning("node.lost", node=self._member.node, why=str(lost))
                return
            except HoldfastError as error:  # the lease survives several missed renewals
                log.warning("loop.failed", loop="temporary_lease", code=error.code, why=str(error))

    async def end(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
        try:
            await self._member.leave()
        except HoldfastError as error:
            log.warning("node.lost", node=self._member.node, why=str(error))
