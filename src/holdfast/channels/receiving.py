"""What channels share when they receive: handing over a message, ending their tasks, and the watermark of an account.

Missed messages of a conversation are found by its read position. A conversation whose first message was missed has no
position, so the account keeps a watermark under a key that no conversation has: all messages before that time, in all
conversations without a position, have been taken (D2).

Rule 1: the watermark advances only while the platform is connected and no event or read-back is pending.
Rule 2: it is written now and then, not with every message. An old watermark costs a request, never a message.
Rule 3: reading begins well before it: clocks differ, and a dead connection is noticed late.
Rule 4: nothing from before the account's first start is read. The first start is stored with the watermark.
"""

from collections.abc import Callable, Iterable, Mapping

from holdfast.inbox.channel import Intake
from holdfast.inbox.chat_message import ChatMessage
from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError, Remedy
from holdfast.kernel.ports import Clock, Task, Tasks

WHOLE = "*"  # the key, in place of a conversation
EVERY_MS = 60_000
LEAST_MS = 30_000  # between two writes, however often the channel connects
OVERLAP_MS = 300_000  # Slack's last retry comes after five minutes; a dead connection is noticed within two
STEPS_MAX = 100  # of waiting for cancelled tasks
STEP_MS = 20


async def receive(intake: Intake, message: ChatMessage) -> None:
    """Raises errors that a retry may mend. A message that only its sender could correct is skipped: it would block the
    messages behind it."""
    try:
        await intake.receive(message)
    except HoldfastError as error:
        if error.remedy is not Remedy.CORRECT:
            raise
        log.warning("channel.skipped", account=message.account, event_id=message.event_id, why=error.code)


async def cancel_all(running: Iterable[Task], tasks: Tasks) -> None:
    """Cancel the tasks and wait until they have ended, at most for two seconds."""
    cancelled = list(running)
    for task in cancelled:
        task.cancel()
    for _ in range(STEPS_MAX):
        if all(task.done() for task in cancelled):
            return
        await tasks.sleep(STEP_MS)


class AccountWatermark:
    """The watermark of one account, during one run of its channel."""

    def __init__(self, account: str, intake: Intake, *, clock: Clock, tasks: Tasks) -> None:
        self._account = account
        self._intake = intake
        self._clock = clock
        self._tasks = tasks
        self._first_ms = 0
        self._until_ms = 0
        self._is_first = True

    @property
    def since_ms(self) -> int | None:
        """The time from which conversations without a position are read. None at the first start: from now on."""
        if self._is_first:
            return None
        until_ms = min(self._until_ms, self._clock.now())  # a clock that was set back must not hide new messages
        return max(self._first_ms, until_ms - OVERLAP_MS)

    async def resume(self) -> Mapping[str, tuple[int, str]]:
        """The read position of each conversation. Raises what `read_up_to` and `note_read` raise."""
        marks = dict(await self._intake.read_up_to(self._account))
        mark = marks.pop(WHOLE, None)
        if mark is not None:
            self._until_ms, self._first_ms, self._is_first = mark[0], int(mark[1]), False
            return marks
        self._first_ms = self._clock.now()
        await self._note(self._first_ms)
        return marks

    async def keep(self, has_read_all: Callable[[], bool]) -> None:
        """Advance the watermark now and then while everything has been read, until cancelled."""
        while True:
            await self._tasks.sleep(EVERY_MS)
            if has_read_all():
                await self.advance(self._clock.now())

    async def advance(self, until_ms: int) -> None:
        """Move the watermark, unless it moved a moment ago. A failed write is logged and repeated later."""
        if until_ms - self._until_ms < LEAST_MS:
            return
        try:
            await self._note(until_ms)
        except HoldfastError as error:
            log.warning("channel.behind", account=self._account, why=error.code)

    async def _note(self, until_ms: int) -> None:
        await self._intake.note_read(self._account, WHOLE, until_ms, str(self._first_ms))
        self._until_ms = until_ms
