"""Writing and deleting documents, each with proof that it was done.

Exactly-once effect rests on two facts only: a document's id is made from the delivery, and a write replaces the
document. Measured on the real server (1.1.0): a repeated operation id does no new work, while the operation runs, after
it, and ten times at once; but the server can *execute* an operation twice (killed between the commit of the document
and the mark "completed": appended text was there twice 6 of 6 times, a replaced document once). So no text is ever
appended.

A 200 is no acknowledgement. Measured: an operation that has failed answers a resubmission with success and stays
failed; other content under a known id is dropped with success; an unknown id has the status "not_found", with 200.
A delivery counts when its operation is completed *and* the document has the hash of the content that was sent.

A document is deleted only when no operation on it is unfinished. Measured: a deletion while one waits answers 404,
and the document appears afterwards.

Erasing a session or a person deletes their documents, and the operations that still hold their text. Measured: deleting
a document deletes its facts and chunks, but leaves the submitted text in the operation that wrote it, for as long as
the server keeps operations (for ever by default).

The API cannot erase the server's own traces of its model calls (HINDSIGHT_API_LLM_TRACE_ENABLED, kept for a day by
default), nor names of entities, which the server's maintenance removes later.
"""

from collections.abc import Collection, Iterator
from itertools import count

from hindsight_client_api.models.document_response import DocumentResponse

from holdfast.kernel.ports import Clock, Tasks
from holdfast.kernel.retry import RetryPolicy
from holdfast.memory.delivery import Delivered, Erasure, Landing, Outcome, Refused, Uncertain, Unreachable
from holdfast.providers.hindsight.client import UNFINISHED, HindsightClient, OperationStatus
from holdfast.providers.hindsight.document import (
    CONTENT_BYTES_MAX,
    Document,
    note_id,
    note_tags,
    session_tags,
    tag,
    unit_id,
)
from holdfast.providers.hindsight.naming import bank_of
from holdfast.providers.hindsight.transport import HindsightCallFailed

PAUSES = RetryPolicy(delay_ms_base=50, delay_ms_max=2_000)
RETRIES_MAX = 2  # of an operation that failed at the server, per delivery attempt
RESUBMITS_MAX = 2
SILENCES_MAX = 8  # consecutive questions without a response before the attempt ends


class DocumentWriter:
    def __init__(self, client: HindsightClient, clock: Clock, tasks: Tasks, *, settle_ms: int) -> None:
        self._client = client
        self._clock = clock
        self._tasks = tasks
        self._settle_ms = settle_ms

    async def write(self, document: Document) -> Outcome:
        """Replace a document, and wait until it is stored. Raises `HindsightCallFailed` if it was not handed over."""
        size = len(document.content.encode())
        if size == 0 or size > CONTENT_BYTES_MAX:
            return Refused(f"a document has 1 to {CONTENT_BYTES_MAX} bytes, not {size}")
        await self._client.ready()
        await self._client.submit(document)
        return await _Submission(self._client, document).until_stored(self._pauses(), self._tasks)

    async def has_landed(self, document: Document) -> Landing:
        """Raises `HindsightCallFailed`."""
        # The operation first: if it ends between the two questions, the second finds its document.
        status = await self._client.status(document.bank, document.operation)
        matches = _matches(await self._client.document(document.bank, document.id), document)
        if matches or (matches is None and status.state == "completed"):
            return Landing.LANDED
        if status.state in UNFINISHED or not status.resting or matches is None:
            return Landing.POSSIBLE
        return Landing.ABSENT

    async def remove(self, bank: str, documents: Collection[str]) -> Outcome:
        """Delete documents, and check that they are gone. Raises `HindsightCallFailed`."""
        await self._client.ready()
        if not await self._is_quiet(bank, documents):
            return Unreachable("Hindsight is still writing a document that is to be deleted; it is deleted after that")
        for document in documents:
            await self._client.delete(bank, document)
        if not await self.are_gone(bank, documents):
            return Unreachable("Hindsight acknowledged a deletion and still has the document", suspect=True)
        return Delivered("deleted")

    async def are_gone(self, bank: str, documents: Collection[str]) -> bool:
        """Operations are asked for before documents, so that no write in progress is missed."""
        if await self._is_unfinished(bank, documents):
            return False
        for document in documents:
            if await self._client.document(bank, document) is not None:
                return False
        return True

    async def _is_unfinished(self, bank: str, documents: Collection[str]) -> bool:
        """Whether an operation may still write one of the documents."""
        wanted = set(documents)
        for state in (*UNFINISHED, UNFINISHED[0]):  # an operation that fails goes back from processing to pending
            if any(one.document_id in wanted for one in await self._client.operations(bank, state)):
                return True
        return False

    async def _is_quiet(self, bank: str, documents: Collection[str]) -> bool:
        for pause_ms in self._pauses():
            if not await self._is_unfinished(bank, documents):
                return True
            await self._tasks.sleep(pause_ms)
        return False

    def _pauses(self) -> Iterator[int]:
        """Growing pauses, as many as fit into the time for one delivery."""
        until, spent_ms = self._clock.now() + self._settle_ms, 0
        for attempt in count(1):
            if spent_ms >= self._settle_ms or self._clock.now() >= until:
                return
            pause_ms = PAUSES.delay_ms(attempt)
            yield pause_ms
            spent_ms += pause_ms


def _matches(found: DocumentResponse | None, document: Document) -> bool | None:
    """Compare the hash, or the text if the server hashes differently; None if it returns neither."""
    if found is None:
        return False
    if found.content_hash is None and found.original_text is None:
        return None
    return found.content_hash == document.sha256 or found.original_text == document.content


class _Submission:
    """One submitted document, until it is stored or the attempt ends."""

    def __init__(self, client: HindsightClient, document: Document) -> None:
        self._client = client
        self._document = document
        self._retries = 0
        self._resubmits = 0
        self._silences = 0

    async def until_stored(self, pauses: Iterator[int], tasks: Tasks) -> Outcome:
        """The server has the text by now, so a status that cannot be read makes the outcome uncertain."""
        for pause_ms in pauses:
            try:
                outcome = await self._check()
                self._silences = 0
            except HindsightCallFailed as failure:
                self._silences += 1
                is_over, problem = self._silences >= SILENCES_MAX, failure.problem
                outcome = Uncertain(problem.reason, vendor=problem.vendor) if is_over else None
            if outcome is not None:
                return outcome
            await tasks.sleep(pause_ms)
        return Uncertain("Hindsight accepted it and has not finished it in time")

    async def _check(self) -> Outcome | None:
        """The outcome, or None to check again later."""
        document = self._document
        status = await self._client.status(document.bank, document.operation)
        if status.state in UNFINISHED:
            return None
        matches = _matches(await self._client.document(document.bank, document.id), document)
        if matches or (matches is None and status.state == "completed"):
            return Delivered(document.operation)
        return await self._resubmit(status)

    async def _resubmit(self, status: OperationStatus) -> Outcome | None:
        """The operation has ended or is unknown, and the stored document is not the one that was sent."""
        document = self._document
        if not status.resting:
            return None
        if status.state in ("failed", "cancelled"):
            return await self._retry(status.state)
        if self._resubmits >= RESUBMITS_MAX:
            what = "has no record of it" if status.state == "not_found" else "stores other content"
            return Unreachable(f"Hindsight acknowledged the delivery and {what}", suspect=True)
        self._resubmits += 1
        if status.state != "not_found":
            # The operation has ended, so the server would treat the same id as done. Replacing again is harmless.
            await self._client.drop(document.bank, document.operation)
        await self._client.submit(document)
        return None

    async def _retry(self, state: str) -> Outcome | None:
        if self._retries >= RETRIES_MAX:
            return Unreachable(f"Hindsight reported the operation as {state} {self._retries + 1} times", suspect=True)
        self._retries += 1
        await self._client.retry(self._document.bank, self._document.operation)
        return None


# --- erasing -----------------------------------------------------------------------------------------


async def erase(client: HindsightClient, writer: DocumentWriter, erasure: Erasure) -> Outcome:
    """Raises `HindsightCallFailed`. Repeating an erasure is harmless."""
    await client.ready()
    for bank in _banks(erasure):
        documents = sorted({*await _remaining(client, bank, erasure), *_sent(erasure)})
        outcome = await writer.remove(bank, documents)
        if not isinstance(outcome, Delivered):
            return outcome
        if not await _drop_operations(client, bank, documents):
            return Unreachable("Hindsight began to write a document that is to be erased; it is erased after that")
    if await erased(client, writer, erasure) is not Landing.LANDED:
        return Unreachable("Hindsight still has documents that are to be erased")
    return Delivered("erased")


async def erased(client: HindsightClient, writer: DocumentWriter, erasure: Erasure) -> Landing:
    """Raises `HindsightCallFailed`."""
    for bank in _banks(erasure):
        if await _remaining(client, bank, erasure) or not await writer.are_gone(bank, _sent(erasure)):
            return Landing.ABSENT
    return Landing.LANDED


async def _remaining(client: HindsightClient, bank: str, erasure: Erasure) -> set[str]:
    return await _tagged(client, bank, erasure) | await _notes(client, bank, erasure)


async def _notes(client: HindsightClient, bank: str, erasure: Erasure) -> set[str]:
    """Notes of the erased scopes that no longer hold. A note's id is made of its text, which is gone from the journal,
    so these are all notes of the scopes without those that still hold."""
    found: set[str] = set()
    for scope in erasure.scopes:
        for tags in note_tags(erasure.agent, scope):
            found.update(await client.tagged(bank, tags))
    held = {
        note_id(erasure.agent, subject, note.target, note.text)
        for note in erasure.holds
        for subject in (note.scope, note.subject)
    }
    return found - held


async def _tagged(client: HindsightClient, bank: str, erasure: Erasure) -> set[str]:
    """Documents by tag, if the erasure names no delivery. An erasure that names deliveries names all of them, and a
    repetition must spare later documents, which tags cannot tell apart."""
    found: set[str] = set()
    if erasure.deliveries or erasure.shared:
        return found
    if erasure.session is not None:
        found.update(await client.tagged(bank, session_tags(erasure.agent, erasure.session)))
    if erasure.principal is not None:
        of_person = (tag("agent", erasure.agent), tag("user", erasure.principal))
        found.update(await client.tagged(bank, of_person))
    return found


async def _drop_operations(client: HindsightClient, bank: str, documents: list[str]) -> bool:
    """False if one of the operations has not ended."""
    wanted = set(documents)
    operations = [one for one in await client.operations(bank) if one.document_id in wanted]
    for operation in operations:
        await client.drop(bank, operation.id)
    return not any(operation.status in UNFINISHED for operation in operations)


def _banks(erasure: Erasure) -> list[str]:
    return sorted({bank_of(place) for place in erasure.places})


def _sent(erasure: Erasure) -> list[str]:
    """One delivery writes a whole document, so a document that others share is erased too."""
    return [unit_id(delivery) for delivery in (*erasure.deliveries, *erasure.shared)]
