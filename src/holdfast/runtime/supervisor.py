"""The supervisor: starts the loops of one process and ends them within a bounded time."""

import asyncio
from collections.abc import Sequence

from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.loop import Loop
from holdfast.kernel.notifier import Notifier, Topic
from holdfast.kernel.tasks import Task, Tasks
from holdfast.memory.dispatcher import Dispatcher
from holdfast.outbox.reply_sender import ReplySender
from holdfast.store.membership import Member
from holdfast.turns.worker import Worker

GRACE_MS = 5_000
COURIER_GRACE_MS = 2_000  # for calls under way; what is cut off is asked about after the restart
POSTMAN_GRACE_MS = 2_000  # for replies under way; what is cut off is in doubt
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
        courier: Dispatcher | None = None,
        postman: ReplySender | None = None,
    ) -> None:
        self._member = member
        self._worker = worker
        self._courier = courier
        self._postman = postman
        self._loops: tuple[Loop, ...] = (worker, *others)
        self._notifier = notifier
        self._tasks = tasks
        self._sole = sole
        self._running: list[Task] = []

    async def start(self) -> None:
        await self._member.join(sole=self._sole)
        self._running = [self._tasks.start(loop.run(), name=loop.name) for loop in self._loops]

    async def stop(self, grace_ms: int = GRACE_MS) -> None:
        """Take no new work, let turns end within the grace, give every claim back. Nothing is lost either way."""
        for loop in self._loops:
            loop.stopping = True
        for topic in Topic:
            self._notifier.wake(topic)
        await self._worker.drain(grace_ms)
        if self._courier is not None:
            await self._courier.drain(COURIER_GRACE_MS)
        if self._postman is not None:
            await self._postman.drain(POSTMAN_GRACE_MS)
        for loop in self._loops:
            loop.cut_off()
        for task in self._running:
            task.cancel()
        try:
            async with asyncio.timeout(LEAVE_MS / 1000):
                await self._member.leave()
        except (HoldfastError, TimeoutError) as error:
            # The claims lapse with the lease, or are voided by the next owner: late, not lost.
            log.warning("node.lost", node=self._member.node, why=str(error))
