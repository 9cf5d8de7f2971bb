"""The forgetter: sees requests to forget through to their last receipt, whoever took them and whatever happened since.

The courier carries the erasures. What is left here are the store's own files, the copies that recall made while a
provider still had the words, and copies in the RAM of this process: another one may have taken the request.
"""

from holdfast.kernel import log
from holdfast.kernel.entropy import Entropy
from holdfast.kernel.ids import ForgetId
from holdfast.kernel.loop import Loop
from holdfast.kernel.notifier_port import Notifier, Topic
from holdfast.kernel.tasks import Tasks
from holdfast.memory.notes_service import Briefing
from holdfast.memory.recaller import Recaller
from holdfast.store.protocols.reader import Reader
from holdfast.store.protocols.store import Store

POLL_MS = 15_000  # another process may have taken a request, or carried the last erasure
QUIET_MS = 10_000  # a recall that was under way when the last provider erased has been journaled by then, or never is


class Forgetter(Loop):
    name = "forgetter"

    def __init__(
        self,
        *,
        store: Store,
        reader: Reader,
        recaller: Recaller,
        briefing: Briefing,
        notifier: Notifier,
        tasks: Tasks,
        entropy: Entropy,
        quiet_ms: int = QUIET_MS,
    ) -> None:
        super().__init__(tasks, entropy)
        self._store = store
        self._reader = reader
        self._recaller = recaller
        self._briefing = briefing
        self._notifier = notifier
        self._quiet_ms = quiet_ms
        self._newest: ForgetId | None = None

    async def step(self) -> bool:
        newest = await self._reader.newest_forgetting()
        if newest != self._newest:
            self._newest = newest
            self._briefing.clear()
        if not await self._reader.open_forgettings():
            return False
        self._recaller.close()  # nothing that was asked ahead is shown; the next turn asks again
        await self._store.sweep_forgotten(quiet_ms=self._quiet_ms)
        scrubbed = await self._store.scrub_forgotten()
        if scrubbed:
            log.info("forget.scrubbed", requests=scrubbed)
        return False

    async def rest(self) -> None:
        await self._notifier.wait(Topic.FORGET, timeout_ms=POLL_MS)
