"""The memory files keep the promises of the port, by the suite that third parties use."""

from collections.abc import Sequence
from dataclasses import replace

from holdfast.kernel.machine import AsyncTasks
from holdfast.memory.delivery import Landing, Outcome, Parcel
from holdfast.memory.notes import Applied, MemoryBatch, MemoryVerb, NoteChange, Target
from holdfast.providers.files.provider import FilesProvider
from holdfast.testing.check_provider import CHECKS, check_provider
from holdfast.testing.inline_database import InlineDatabase
from tests.providers.files.cabinet import FERN, NoteStore, open_store


class Noting(FilesProvider):
    """As the runtime has it: a note is in memory before it is delivered, and has its number from there."""

    notes: NoteStore

    async def deliver(self, parcels: Sequence[Parcel]) -> Sequence[Outcome]:
        return await super().deliver([await self._kept(parcel) for parcel in parcels])

    async def landed(self, parcel: Parcel) -> Landing:
        return await super().landed(await self._kept(parcel))

    async def _kept(self, parcel: Parcel) -> Parcel:
        note = parcel.note
        if note is None:
            return parcel
        change = NoteChange(verb=MemoryVerb(note.op), target=Target(note.target), text=note.text, old=note.old_text)
        applied = await self.notes.apply(MemoryBatch(agent=FERN, subject="", origin=parcel.id, changes=(change,)))
        assert isinstance(applied, Applied), applied
        return replace(parcel, note=replace(note, seq=applied.seqs[0]))


async def test_check_provider_passes(tmp_path):
    opened: list[InlineDatabase] = []

    async def make():
        folder = tmp_path / str(len(opened))
        folder.mkdir()
        store, database = await open_store(folder)
        opened.append(database)
        provider = Noting(folder / "files", AsyncTasks(), agent=FERN)
        provider.notes = NoteStore(store)
        provider.attach(provider.notes)
        return provider

    assert await check_provider(make) == len(CHECKS)
    for database in opened:
        await database.close()
