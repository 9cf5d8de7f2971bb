"""The provider: parcels become documents, outcomes become values.

How a delivery is made safe is told in writing.py, what is recalled to whom in recalling.py. The bank is read from
the parcel's place, so a template that was changed since, or another session that is live now, moves nothing.
"""

from collections.abc import Sequence

from holdfast.kernel.errors import ProviderFailed
from holdfast.memory.delivery import Delivered, Landing, MemoryNote, Op, Outcome, Parcel, Refused, Unreachable
from holdfast.memory.provider import Capabilities, ProviderSetup
from holdfast.memory.recall import RecallQuery, Recollection
from holdfast.providers.hindsight.document import RENDERER, note_document, note_id, turns_document, unit_id
from holdfast.providers.hindsight.erasing import Eraser
from holdfast.providers.hindsight.faults import Faulted
from holdfast.providers.hindsight.naming import BankTemplate, bank_of
from holdfast.providers.hindsight.recalling import recollections, scopes_of, words_of
from holdfast.providers.hindsight.server import Server
from holdfast.providers.hindsight.settings import HindsightSettings
from holdfast.providers.hindsight.writing import Writer

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
        self._server = Server(settings, key, setup.clock)
        self._writer = Writer(self._server, setup.clock, setup.tasks, settle_ms=round(settings.settle_s * 1000))
        self._eraser = Eraser(self._server, self._writer)
        self._quiet_ms = round(settings.timeout_s * 1000) + 10_000

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            renderer=RENDERER, retracts=True, quiet_ms=self._quiet_ms, repeats=True, delivered_means=DELIVERED_MEANS
        )

    async def deliver(self, parcels: Sequence[Parcel]) -> Sequence[Outcome]:
        outcomes: list[Outcome] = []
        stopped: set[str] = set()
        for parcel in parcels:
            if parcel.place in stopped:
                outcomes.append(Unreachable("it waits behind a delivery that was not made"))
                continue
            outcome = await self._carried(parcel)
            outcomes.append(outcome)
            if not isinstance(outcome, Delivered):
                stopped.add(parcel.place)
        return outcomes

    async def landed(self, parcel: Parcel) -> Landing:
        try:
            return await self._asked(parcel)
        except Faulted:
            return Landing.POSSIBLE

    async def recall(self, query: RecallQuery) -> Sequence[Recollection]:
        words, scopes = words_of(query), scopes_of(query)
        if not words:
            return ()
        try:
            await self._server.ready()
            results = await self._server.recall(self._naming.bank(query.naming), words, scopes)
        except Faulted as fault:
            raise ProviderFailed(fault.problem.reason, provider=self._name) from fault
        return recollections(self._name, results, scopes, query.limit)

    async def reflect(self, query: RecallQuery) -> str:
        """An answer that the server's own model gives from what may be recalled. Raises `ProviderFailed`."""
        try:
            await self._server.ready()
            return await self._server.reflect(self._naming.bank(query.naming), words_of(query), scopes_of(query))
        except Faulted as fault:
            raise ProviderFailed(fault.problem.reason, provider=self._name) from fault

    async def healthy(self) -> str | None:
        try:
            await self._server.check_version()
            await self._server.operations(bank_of(self._naming.memory_place(self._agent, "")), "failed")
        except Faulted as fault:
            return fault.problem.reason
        return None

    async def close(self) -> None:
        await self._server.close()

    # --- by operation

    async def _carried(self, parcel: Parcel) -> Outcome:
        try:
            match parcel.op:
                case Op.RETAIN:
                    return await self._writer.write(turns_document(parcel, parcel.id))
                case Op.RETRACT:
                    return await self._taken_back(parcel)
                case Op.REMEMBER if parcel.note is not None:
                    return await self._noted(parcel, parcel.note)
                case Op.ERASE if parcel.erasure is not None:
                    return await self._eraser.erase(parcel.erasure)
                case _:
                    return Refused(f"a parcel to {parcel.op.value} lacks what it is about")
        except Faulted as fault:
            return fault.problem

    async def _asked(self, parcel: Parcel) -> Landing:
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
                return await self._eraser.has_landed(parcel.erasure)
            case _:
                return Landing.ABSENT

    async def _taken_back(self, parcel: Parcel) -> Outcome:
        if parcel.of is None:
            return Refused("a parcel to retract lacks the delivery that it takes back")
        if parcel.turns:
            return await self._writer.write(turns_document(parcel, parcel.of))
        return await self._writer.remove(bank_of(parcel.place), [unit_id(parcel.of)])

    async def _noted(self, parcel: Parcel, note: MemoryNote) -> Outcome:
        """The new words first: a note that is replaced may be there twice for a moment, but is never missing."""
        outcome: Outcome = Delivered("nothing to do")
        if note.text:
            outcome = await self._writer.write(note_document(parcel, note))
        if not isinstance(outcome, Delivered) or not _replaces(note):
            return outcome
        removed = await self._writer.remove(bank_of(parcel.place), _olds(parcel, note))
        return outcome if note.text and isinstance(removed, Delivered) else removed

    async def _note_landed(self, parcel: Parcel, note: MemoryNote) -> Landing:
        if note.text:
            landing = await self._writer.has_landed(note_document(parcel, note))
            if landing is not Landing.LANDED or not _replaces(note):
                return landing
        return await self._gone(bank_of(parcel.place), *_olds(parcel, note))

    async def _gone(self, bank: str, *documents: str) -> Landing:
        """Deleting twice is deleting once, so a document that is there may be deleted again at once."""
        return Landing.LANDED if await self._writer.are_gone(bank, documents) else Landing.ABSENT


def _replaces(note: MemoryNote) -> bool:
    return bool(note.old_text) and (note.old_text, note.old_scope) != (note.text, note.scope)


def _olds(parcel: Parcel, note: MemoryNote) -> list[str]:
    """What a note replaces: under its scope, and as renderer 1 named it, by the subject under which it is kept."""
    subjects = dict.fromkeys((note.old_scope, note.subject))
    ids = [note_id(parcel.naming.agent, subject, note.target, note.old_text) for subject in subjects]
    kept = note_id(parcel.naming.agent, note.scope, note.target, note.text) if note.text else ""
    return [id_ for id_ in ids if id_ != kept]
