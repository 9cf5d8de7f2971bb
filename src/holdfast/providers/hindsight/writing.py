"""Writing documents and taking them away, each with the proof that it was done.

Exactly once in effect rests on two things only: the id of a document is made from the delivery, and a write replaces
the document. Measured on the real server (1.1.0): the same operation id submitted again does no new work, while it
runs, after it, and ten times at once; but an operation can be *executed* twice (the server killed between the commit
of the document and the mark "completed": appended text was there twice 6 of 6 times, a replaced document once). So
nothing is ever appended.

A 200 is no acknowledgement. Measured: an operation that has failed answers a resubmission with success and stays
failed; other content under a known id is dropped with success; an unknown id has the status "not_found", with 200.
A delivery counts when its operation is completed *and* the document has the hash of what was sent.

A document is deleted only when no operation on it is unfinished. Measured: a deletion while one waits answers 404,
and the document appears afterwards.
"""

from collections.abc import Collection, Iterator

from holdfast.kernel.clock import Clock
from holdfast.kernel.ids import Instant
from holdfast.kernel.tasks import Tasks
from holdfast.memory.delivery import Delivered, Landing, Outcome, Refused, Uncertain, Unreachable
from holdfast.providers.hindsight.document import CONTENT_BYTES_MAX, Document
from holdfast.providers.hindsight.faults import Faulted
from holdfast.providers.hindsight.server import UNFINISHED, Server, Status

PAUSE_MS_FIRST = 50
PAUSE_MS_MAX = 2_000
RETRIES_MAX = 2  # of an operation that failed at the server, per attempt of ours
RESUBMITS_MAX = 2
SILENCES_MAX = 8  # questions in a row that get no answer, before it is left to a later attempt


class Writer:
    def __init__(self, server: Server, clock: Clock, tasks: Tasks, *, settle_ms: int) -> None:
        self._server = server
        self._clock = clock
        self._tasks = tasks
        self._settle_ms = settle_ms

    async def write(self, document: Document) -> Outcome:
        """Replace a document, and wait until it is kept. Raises `Faulted` when it could not be handed over."""
        size = len(document.content.encode())
        if size == 0 or size > CONTENT_BYTES_MAX:
            return Refused(f"a document has 1 to {CONTENT_BYTES_MAX} bytes, not {size}")
        await self._server.ready()
        await self._server.submit(document)
        return await _Watch(self._server, document).until_kept(self._pauses(), self._tasks)

    async def has_landed(self, document: Document) -> Landing:
        """Raises `Faulted`."""
        # The operation first: one that ends between the two questions is then found by its document.
        status = await self._server.status(document.bank, document.operation)
        kept = await self._server.document(document.bank, document.id)
        matches = kept.matches(document) if kept else False
        if matches or (matches is None and status.state == "completed"):
            return Landing.LANDED
        if status.state in UNFINISHED or not status.resting or matches is None:
            return Landing.POSSIBLE
        return Landing.ABSENT

    async def remove(self, bank: str, documents: Collection[str]) -> Outcome:
        """Delete documents that are there, and look that they are gone. Raises `Faulted`."""
        await self._server.ready()
        if not await self._is_quiet(bank, documents):
            return Unreachable("Hindsight has not finished writing what is to be deleted; it is deleted after that")
        for document in documents:
            await self._server.delete(bank, document)
        if not await self.are_gone(bank, documents):
            return Unreachable("Hindsight says that it has deleted a document, and still has it", suspect=True)
        return Delivered("deleted")

    async def are_gone(self, bank: str, documents: Collection[str]) -> bool:
        """No operation may write them any more, and they are not there; asked in this order, so that none slips by."""
        if await self.unfinished(bank, documents):
            return False
        for document in documents:
            if await self._server.document(bank, document) is not None:
                return False
        return True

    async def unfinished(self, bank: str, documents: Collection[str]) -> bool:
        """Whether an operation on one of the documents may still write it."""
        wanted = set(documents)
        for state in (*UNFINISHED, UNFINISHED[0]):  # one that fails goes back from processing to pending
            if any(work.document in wanted for work in await self._server.operations(bank, state)):
                return True
        return False

    async def _is_quiet(self, bank: str, documents: Collection[str]) -> bool:
        for pause_ms in self._pauses():
            if not await self.unfinished(bank, documents):
                return True
            await self._tasks.sleep(pause_ms)
        return False

    def _pauses(self) -> Iterator[int]:
        """Growing pauses, as many as fit into the time for one delivery."""
        until = Instant(self._clock.now() + self._settle_ms)
        pause_ms, spent_ms = PAUSE_MS_FIRST, 0
        while spent_ms < self._settle_ms and self._clock.now() < until:
            yield pause_ms
            spent_ms += pause_ms
            pause_ms = min(pause_ms * 2, PAUSE_MS_MAX)


class _Watch:
    """One submitted document, until it is kept or there is nothing more to be done now."""

    def __init__(self, server: Server, document: Document) -> None:
        self._server = server
        self._document = document
        self._retries = 0
        self._resubmits = 0
        self._silences = 0

    async def until_kept(self, pauses: Iterator[int], tasks: Tasks) -> Outcome:
        """From here on the server has the words, so what cannot be found out is uncertain."""
        for pause_ms in pauses:
            try:
                outcome = await self._look()
                self._silences = 0
            except Faulted as fault:
                self._silences += 1
                is_over, problem = self._silences >= SILENCES_MAX, fault.problem
                outcome = Uncertain(problem.reason, vendor=problem.vendor) if is_over else None
            if outcome is not None:
                return outcome
            await tasks.sleep(pause_ms)
        return Uncertain("Hindsight took it and has not finished with it in time")

    async def _look(self) -> Outcome | None:
        """What became of it; None to look again later."""
        document = self._document
        status = await self._server.status(document.bank, document.operation)
        if status.state in UNFINISHED:
            return None
        kept = await self._server.document(document.bank, document.id)
        matches = kept.matches(document) if kept else False
        if matches or (matches is None and status.state == "completed"):
            return Delivered(document.operation)
        return await self._again(status)

    async def _again(self, status: Status) -> Outcome | None:
        """The operation has ended, or is unknown, and the document is not there as it was sent."""
        document = self._document
        if not status.resting:
            return None
        if status.state in ("failed", "cancelled"):
            return await self._retried(status.state)
        if self._resubmits >= RESUBMITS_MAX:
            what = "knows nothing of it" if status.state == "not_found" else "keeps something else"
            return Unreachable(f"Hindsight says that it took the delivery, and {what}", suspect=True)
        self._resubmits += 1
        if status.state != "not_found":
            # Its operation is over, so the server would take the same id for done. Replacing again is harmless.
            await self._server.drop(document.bank, document.operation)
        await self._server.submit(document)
        return None

    async def _retried(self, state: str) -> Outcome | None:
        if self._retries >= RETRIES_MAX:
            return Unreachable(f"Hindsight {state} on it {self._retries + 1} times", suspect=True)
        self._retries += 1
        await self._server.retry(self._document.bank, self._document.operation)
        return None
