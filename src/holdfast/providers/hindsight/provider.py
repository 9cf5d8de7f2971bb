"""The provider: parcels become documents, failures become outcomes.

document_writer.py makes a delivery safe; recall.py decides who may recall what. The bank is read from the parcel's
place, so a changed template or another live session moves no document.
"""

from collections.abc import Sequence

from holdfast.kernel.errors import ProviderFailed
from holdfast.memory.delivery import Delivered, Landing, MemoryNote, Op, Outcome, Parcel, Refused, Unreachable
from holdfast.memory.provider import Capabilities, ProviderSetup
from holdfast.memory.recall import RecallQuery, Recollection
from holdfast.providers.hindsight.client import HindsightClient
from holdfast.providers.hindsight.document import RENDERER, note_document, note_id, turns_document, unit_id
from holdfast.providers.hindsight.document_writer import DocumentWriter, erase, erased
from holdfast.providers.hindsight.factory import HindsightSettings
from holdfast.providers.hindsight.naming import BankTemplate, bank_of
from holdfast.providers.hindsight.recall import query_tags, query_text, recollections
from holdfast.providers.hindsight.transport import HindsightCallFailed

DELIVERED_MEANS = (
    "Hindsight finished the operation that extracts its facts, and keeps the document with the hash of what was sent"
)


class HindsightProvider:
    def __init__(
        self, setup: ProviderSetup, settings: HindsightSettings, naming: BankTemplate, key: str | None
    ) -> None:
        self._name = setup.name
        self._agent = setup.agent
        self._naming = naming
        self._client = HindsightClient(settings, key, setup.clock)
        settle_ms = round(settings.settle_s * 1000)
        self._writer = DocumentWriter(self._client, setup.clock, setup.tasks, settle_ms=settle_ms)
        quiet_ms = round(settings.timeout_s * 1000) + 10_000
        self.capabilities = Capabilities(
            renderer=RENDERER, retracts=True, quiet_ms=quiet_ms, repeats=True, delivered_means=DELIVERED_MEANS
        )

    async def deliver(self, parcels: Sequence[Parcel]) -> Sequence[Outcome]:
        outcomes: list[Outcome] = []
        stopped: set[str] = set()
        for parcel in parcels:
            if parcel.place in stopped:
                outcomes.append(Unreachable("it waits for an earlier delivery that failed"))
                continue
            outcome = await self._deliver_one(parcel)
            outcomes.append(outcome)
            if not isinstance(outcome, Delivered):
                stopped.add(parcel.place)
        return outcomes

    async def landed(self, parcel: Parcel) -> Landing:
        try:
            return await self._landed(parcel)
        except HindsightCallFailed:
            return Landing.POSSIBLE

    async def recall(self, query: RecallQuery) -> Sequence[Recollection]:
        text, tags = query_text(query), query_tags(query)
        if not text:
            return ()
        try:
            await self._client.ready()
            results = await self._client.recall(self._naming.bank(query.naming), text, tags)
        except HindsightCallFailed as failure:
            raise ProviderFailed(failure.problem.reason, provider=self._name) from failure
        return recollections(self._name, results, tags, query.limit)

    async def healthy(self) -> str | None:
        try:
            await self._client.check_version()
            await self._client.operations(bank_of(self._naming.memory_place(self._agent, "")), "failed")
        except HindsightCallFailed as failure:
            return failure.problem.reason
        return None

    async def close(self) -> None:
        await self._client.close()

    # --- by operation

    async def _deliver_one(self, parcel: Parcel) -> Outcome:
        try:
            match parcel.op:
                case Op.RETAIN:
                    return await self._writer.write(turns_document(parcel, parcel.id))
                case Op.RETRACT:
                    return await self._retract(parcel)
                case Op.REMEMBER if parcel.note is not None:
                    return await self._remember(parcel, parcel.note)
                case Op.ERASE if parcel.erasure is not None:
                    return await erase(self._client, self._writer, parcel.erasure)
                case _:
                    return Refused(f"the {parcel.op.value} parcel has no content")
        except HindsightCallFailed as failure:
            return failure.problem

    async def _landed(self, parcel: Parcel) -> Landing:
        match parcel.op:
            case Op.RETAIN:
                return await self._writer.has_landed(turns_document(parcel, parcel.id))
            case Op.RETRACT if parcel.of is not None and parcel.turns:
                return await self._writer.has_landed(turns_document(parcel, parcel.of))
            case Op.RETRACT if parcel.of is not None:
                return await self._gone(bank_of(parcel.place), unit_id(parcel.of))
            case Op.REMEMBER if parcel.note is not None:
                return await self._note_landed(parcel, parcel.note)
            case Op.ERASE if parcel.erasure is not None:
                return await erased(self._client, self._writer, parcel.erasure)
            case _:
                return Landing.ABSENT

    async def _retract(self, parcel: Parcel) -> Outcome:
        if parcel.of is None:
            return Refused("the retract parcel does not name the delivery to retract")
        if parcel.turns:
            return await self._writer.write(turns_document(parcel, parcel.of))
        return await self._writer.remove(bank_of(parcel.place), [unit_id(parcel.of)])

    async def _remember(self, parcel: Parcel, note: MemoryNote) -> Outcome:
        """The new text is written first: a replaced note may be stored twice for a moment, but is never missing."""
        outcome: Outcome = Delivered("there was nothing to store")
        if note.text:
            outcome = await self._writer.write(note_document(parcel, note))
        if not isinstance(outcome, Delivered) or not _replaces(note):
            return outcome
        removed = await self._writer.remove(bank_of(parcel.place), _old_ids(parcel, note))
        return outcome if note.text and isinstance(removed, Delivered) else removed

    async def _note_landed(self, parcel: Parcel, note: MemoryNote) -> Landing:
        if note.text:
            landing = await self._writer.has_landed(note_document(parcel, note))
            if landing is not Landing.LANDED or not _replaces(note):
                return landing
        return await self._gone(bank_of(parcel.place), *_old_ids(parcel, note))

    async def _gone(self, bank: str, *documents: str) -> Landing:
        """A repeated deletion is harmless, so a document that still exists counts as absent, not as possible."""
        return Landing.LANDED if await self._writer.are_gone(bank, documents) else Landing.ABSENT


def _replaces(note: MemoryNote) -> bool:
    return bool(note.old_text) and (note.old_text, note.old_scope) != (note.text, note.scope)


def _old_ids(parcel: Parcel, note: MemoryNote) -> list[str]:
    """The ids of the note's old text: by its scope, and by its subject, as renderer 1 named it."""
    subjects = dict.fromkeys((note.old_scope, note.subject))
    ids = [note_id(parcel.naming.agent, subject, note.target, note.old_text) for subject in subjects]
    kept = note_id(parcel.naming.agent, note.scope, note.target, note.text) if note.text else ""
    return [id_ for id_ in ids if id_ != kept]
