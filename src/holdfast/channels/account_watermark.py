"""Until when an account has heard everything. Conversations that were never read are asked from there (D2).

What was missed in a conversation is found by the mark of how far it was read. First words have no mark before them. So
the account has a mark of its own, under a name that no conversation has: a time, before which nothing said to it in any
conversation without a mark is still to be taken in.

Rule 1: the time grows only while the platform is there and nothing that it told, or might be asked for, still waits.
Rule 2: it is written now and then, not with every message. A time that is too old costs a question, never a message.
Rule 3: what is asked for begins well before it: clocks differ, and a connection that has died is noticed late.
Rule 4: nothing from before the account's first start is asked for. The first start is kept with the time.
"""

from collections.abc import Callable, Mapping

from holdfast.inbox.channel import Intake
from holdfast.kernel import log
from holdfast.kernel.clock import Clock
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.tasks import Tasks

WHOLE = "*"  # in place of a conversation
EVERY_MS = 60_000
LEAST_MS = 30_000  # between two writes, however often it connects
OVERLAP_MS = 300_000  # Slack's last retry comes after five minutes; a dead line is seen within two


class AccountWatermark:
    """One account's, from one run of its channel."""

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
        """From when on conversations that were never read are to be read. None at the first start: from now on."""
        if self._is_first:
            return None
        until_ms = min(self._until_ms, self._clock.now())  # a clock that was put back does not hide what is said now
        return max(self._first_ms, until_ms - OVERLAP_MS)

    async def resume(self) -> Mapping[str, tuple[int, str]]:
        """How far each conversation was read. Raises what `read_up_to` and `note_read` do."""
        marks = dict(await self._intake.read_up_to(self._account))
        mark = marks.pop(WHOLE, None)
        if mark is not None:
            self._until_ms, self._first_ms, self._is_first = mark[0], int(mark[1]), False
            return marks
        self._first_ms = self._clock.now()
        await self._note(self._first_ms)
        return marks

    async def keep(self, hears_all: Callable[[], bool]) -> None:
        """Until cancelled: note the time now and then, when everything was heard."""
        while True:
            await self._tasks.sleep(EVERY_MS)
            if hears_all():
                await self.advance(self._clock.now())

    async def advance(self, until_ms: int) -> None:
        """Everything until then was heard. Not written when that is hardly news; tried later when it cannot be."""
        if until_ms - self._until_ms < LEAST_MS:
            return
        try:
            await self._note(until_ms)
        except HoldfastError as error:
            log.warning("channel.behind", account=self._account, why=error.code)

    async def _note(self, until_ms: int) -> None:
        await self._intake.note_read(self._account, WHOLE, until_ms, str(self._first_ms))
        self._until_ms = until_ms
