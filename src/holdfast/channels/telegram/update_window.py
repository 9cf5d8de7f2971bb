"""The updates that are being taken: side by side, and in order within a chat.

Rule 1: an update waits for those before it that concern the same chat. A chat that moves concerns two.
Rule 2: few are taken at a time. Updates with a file have places of their own, so that slow files hold up only files.
Rule 3: the offset stands behind the unbroken run of what was taken, whatever was taken behind the first gap (D2).
Rule 4: behind an update that failed nothing of its chats is taken, and no update behind it is confirmed. The other
        chats go on, so that none of them waits for the trouble of one. All comes again and is known by its id.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from holdfast.channels.telegram.reading import Arrival
from holdfast.kernel.errors import InvariantBroken
from holdfast.kernel.tasks import Task, Tasks

WORDS_MAX = 16  # updates without a file that are taken at a time
FILES_MAX = 4  # updates with a file: each may hold 20 MB while it is taken
LEAVE_STEPS_MAX = 100
LEAVE_STEP_MS = 20
Take: TypeAlias = Callable[[Arrival], Awaitable[None]]


@dataclass(eq=False, slots=True)
class PendingUpdate:
    """One update on its way."""

    arrival: Arrival
    before: Sequence["PendingUpdate"]  # the last ones of its chats
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    taken: bool = False


class UpdateWindow:
    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._words = asyncio.Semaphore(WORDS_MAX)
        self._files = asyncio.Semaphore(FILES_MAX)
        self._known: dict[int, PendingUpdate] = {}  # by the update's id, until its confirmation was heard
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
        """What confirms the taken updates before the first that is not; None when there is none to confirm."""
        offset = None
        for number, piece in sorted(self._known.items()):
            if not piece.taken:
                break
            offset = number + 1
        return offset

    def confirmed(self, offset: int | None) -> None:
        """Telegram has heard that offset. It may begin with smaller ids again."""
        if offset is not None:
            self._known = {number: piece for number, piece in self._known.items() if number >= offset}

    def put(self, arrival: Arrival, take: Take) -> None:
        before = [self._last[chat] for chat in arrival.event.chats if chat in self._last]
        piece = PendingUpdate(arrival, before)
        self._last.update(dict.fromkeys(arrival.event.chats, piece))
        if arrival.id is not None:
            self._known[arrival.id] = piece
        self._idle.clear()
        self._running[piece] = self._tasks.start(self._run(piece, take), name=f"telegram {arrival.id}")

    async def settle(self, within_ms: int) -> None:
        """Until everything was taken, or so long. Raises the first failure, once what is under way has ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_ms / 1000):
                await self._idle.wait()
        if self._failure is not None:
            await self._idle.wait()
            raise self._failure

    async def close(self) -> None:
        """Cancel what runs, and wait for it within a bounded time. What was not taken was not confirmed."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        for _ in range(LEAVE_STEPS_MAX):
            if all(task.done() for task in running):
                return
            await self._tasks.sleep(LEAVE_STEP_MS)

    async def _run(self, piece: PendingUpdate, take: Take) -> None:
        try:
            if await self._is_next(piece):
                async with self._files if piece.arrival.has_file else self._words:
                    await take(piece.arrival)
                piece.taken = True
        except Exception as error:  # noqa: BLE001 - raised where the window is settled
            self._failure = self._failure or error
        finally:
            self._end(piece)

    async def _is_next(self, piece: PendingUpdate) -> bool:
        for earlier in piece.before:
            await earlier.ended.wait()
        gone, piece.before = piece.before, ()
        return all(earlier.taken for earlier in gone)

    def _end(self, piece: PendingUpdate) -> None:
        if piece.taken:
            for chat in piece.arrival.event.chats:
                if self._last.get(chat) is piece:
                    del self._last[chat]
        elif self._failure is None:
            self._failure = InvariantBroken("taking an update was cancelled by itself")
        piece.ended.set()
        del self._running[piece]
        if not self._running:
            self._idle.set()
