"""Erasing a session or a person: their documents, and the operations that still hold the words of them.

Measured (1.1.0): deleting a document takes its facts and chunks along, and leaves the submitted text in the operation
that wrote it, for as long as the server keeps operations (for ever by default). So operations are dropped as well.

What the API cannot erase: the server's own traces of its model calls (HINDSIGHT_API_LLM_TRACE_ENABLED, kept for a day
by default) and names of entities, which its own maintenance removes later.
"""

from holdfast.memory.delivery import Delivered, Erasure, Landing, Outcome, Unreachable
from holdfast.providers.hindsight.document import note_id, note_tags, person_tags, session_tags, unit_id
from holdfast.providers.hindsight.naming import bank_of
from holdfast.providers.hindsight.server import UNFINISHED, Server
from holdfast.providers.hindsight.writing import Writer


class Eraser:
    def __init__(self, server: Server, writer: Writer) -> None:
        self._server = server
        self._writer = writer

    async def erase(self, erasure: Erasure) -> Outcome:
        """Raises `Faulted`. May be repeated: what is gone stays gone."""
        await self._server.ready()
        for bank in _banks(erasure):
            documents = await self._documents(bank, erasure)
            outcome = await self._writer.remove(bank, documents)
            if not isinstance(outcome, Delivered):
                return outcome
            if not await self._drop_operations(bank, documents):
                return Unreachable("Hindsight began to write what is to be erased; it is erased after that")
        if await self.has_landed(erasure) is not Landing.LANDED:
            return Unreachable("Hindsight still has documents of what is to be erased")
        return Delivered("erased")

    async def has_landed(self, erasure: Erasure) -> Landing:
        """Raises `Faulted`."""
        for bank in _banks(erasure):
            found = await self._listed(bank, erasure) or await self._notes(bank, erasure)
            if found or not await self._writer.are_gone(bank, _sent(erasure)):
                return Landing.ABSENT
        return Landing.LANDED

    async def _documents(self, bank: str, erasure: Erasure) -> list[str]:
        notes = await self._notes(bank, erasure)
        return sorted({*await self._listed(bank, erasure), *notes, *_sent(erasure)})

    async def _notes(self, bank: str, erasure: Erasure) -> set[str]:
        """Notes of the scopes that hold no more. A note's id is made of its words, which are gone from the journal: so
        it is not looked for, but found among the others."""
        found: set[str] = set()
        for scope in erasure.scopes:
            for tags in note_tags(erasure.agent, scope):
                found.update(await self._server.tagged(bank, tags))
        held = {
            note_id(erasure.agent, subject, note.target, note.text)
            for note in erasure.holds
            for subject in (note.scope, note.subject)
        }
        return found - held

    async def _listed(self, bank: str, erasure: Erasure) -> set[str]:
        """What tags find, where no delivery is named. Where some are, they are all of it: an erasure that is carried
        out twice must spare what was said since, which tags cannot tell apart."""
        found: set[str] = set()
        if erasure.deliveries or erasure.shared:
            return found
        if erasure.session is not None:
            found.update(await self._server.tagged(bank, session_tags(erasure.agent, erasure.session)))
        if erasure.principal is not None:
            found.update(await self._server.tagged(bank, person_tags(erasure.agent, erasure.principal)))
        return found

    async def _drop_operations(self, bank: str, documents: list[str]) -> bool:
        """False when one of them is not over."""
        wanted = set(documents)
        works = [work for work in await self._server.operations(bank) if work.document in wanted]
        for work in works:
            await self._server.drop(bank, work.id)
        return not any(work.state in UNFINISHED for work in works)


def _banks(erasure: Erasure) -> list[str]:
    return sorted({bank_of(place) for place in erasure.places})


def _sent(erasure: Erasure) -> list[str]:
    """A document is written by one delivery as a whole, so one that others share goes too."""
    return [unit_id(delivery) for delivery in (*erasure.deliveries, *erasure.shared)]
