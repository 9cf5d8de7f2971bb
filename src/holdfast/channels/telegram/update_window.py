"""The updates that are being taken: concurrently, and in order within a chat.

Rule 1: an update waits for the earlier updates of the same chat. A chat that moves counts as two chats.
Rule 2: the number of updates taken at once is limited. Updates with a file have a limit of their own, so that slow
        files delay only files.
Rule 3: the offset stands behind the longest unbroken run of taken updates (D2).
Rule 4: after an update fails, no later update of its chats is taken, and no update behind it is confirmed. Other chats
        continue. Everything unconfirmed is delivered again and recognised by its id.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from holdfast.channels.receiving import cancel_all
from holdfast.channels.telegram.reading import IncomingUpdate
from holdfast.kernel.errors import InvariantBroken
from holdfast.kernel.ports import Task, Tasks

TEXTS_MAX = 16  # updates without a file that are taken at once
FILES_MAX = 4  # updates with a file; each may occupy 20 MB
Take: TypeAlias = Callable[[IncomingUpdate], Awaitable[None]]


@dataclass(eq=False, slots=True)
class PendingUpdate:
    update: IncomingUpdate
    before: Sequence["PendingUpdate"]  # the previous updates of its chats
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    taken: bool = False


class UpdateWindow:
    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._texts = asyncio.Semaphore(TEXTS_MAX)
        self._files = asyncio.Semaphore(FILES_MAX)
        self._known: dict[int, PendingUpdate] = {}  # by update id, until Telegram has received the confirmation
        self._last: dict[str, PendingUpdate] = {}  # of each chat
        self._running: dict[PendingUpdate, Task] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._failure: Exception | None = None

    @property
    def is_busy(self) -> bool:
        return not self._idle.is_set()

    def knows(self, number: int | None) -> bool:
        """Whether the update is being taken, or was taken and is not confirmed yet."""
        return number in self._known

    def offset(self) -> int | None:
        """The offset that confirms the taken updates before the first untaken one; None if there is none to confirm."""
        offset = None
        for number, pending in sorted(self._known.items()):
            if not pending.taken:
                break
            offset = number + 1
        return offset

    def confirmed(self, offset: int | None) -> None:
        """Forget the updates before the offset, which Telegram has received. Later ids may be smaller."""
        if offset is not None:
            self._known = {number: pending for number, pending in self._known.items() if number >= offset}

    def put(self, update: IncomingUpdate, take: Take) -> None:
        before = [self._last[chat] for chat in update.chats if chat in self._last]
        pending = PendingUpdate(update, before)
        self._last.update(dict.fromkeys(update.chats, pending))
        if update.id is not None:
            self._known[update.id] = pending
        self._idle.clear()
        self._running[pending] = self._tasks.start(self._run(pending, take), name=f"telegram {update.id}")

    async def settle(self, within_ms: int) -> None:
        """Wait until all updates are taken, up to `within_ms`. Raises the first failure once the others ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_ms / 1000):
                await self._idle.wait()
        if self._failure is not None:
            await self._idle.wait()
            raise self._failure

    async def close(self) -> None:
        """Cancel the running updates and wait for them, within a bounded time. They are not confirmed."""
        await cancel_all(self._running.values(), self._tasks)

    async def _run(self, pending: PendingUpdate, take: Take) -> None:
        try:
            if await self._is_next(pending):
                async with self._files if pending.update.file_id else self._texts:
                    await take(pending.update)
                pending.taken = True
        except Exception as error:  # noqa: BLE001 - raised where the window is settled
            self._failure = self._failure or error
        finally:
            self._end(pending)

    async def _is_next(self, pending: PendingUpdate) -> bool:
        for earlier in pending.before:
            await earlier.ended.wait()
        gone, pending.before = pending.before, ()
        return all(earlier.taken for earlier in gone)

    def _end(self, pending: PendingUpdate) -> None:
        if pending.taken:
            for chat in pending.update.chats:
                if self._last.get(chat) is pending:
                    del self._last[chat]
        elif self._failure is None:
            self._failure = InvariantBroken("taking an update was cancelled by itself")
        pending.ended.set()
        del self._running[pending]
        if not self._running:
            self._idle.set()
