"""A files provider over a real store in one folder, and a person who edits the files beside it."""

from pathlib import Path

from holdfast.kernel.ids import AgentName, DeliveryId, Principal, Provider, SessionId
from holdfast.kernel.machine import AsyncTasks
from holdfast.memory.delivery import DeliveryPolicy, MemoryNote, NamingInputs, Op, Parcel
from holdfast.memory.files.disk import Disk
from holdfast.memory.notes import AgentNotes, Applied, Capacity, MemoryBatch, MemoryOutcome, Target
from holdfast.memory.notes_sql import apply_memory, list_memory_operations, read_memory
from holdfast.providers.files.provider import FilesProvider
from holdfast.store.ports import Database
from holdfast.testing import ManualClock
from holdfast.testing.inline_database import InlineDatabase

FERN = AgentName("fern")
MIRRORED = (DeliveryPolicy(provider=Provider("files"), memory=True, turns=False),)


class NoteStore:
    """The port over the store, as the runtime gives it."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.batches: list[MemoryBatch] = []

    async def memory(self, agent: AgentName, subject: str) -> AgentNotes:
        return await self.db.read(read_memory(agent, subject))

    async def apply(self, batch: MemoryBatch) -> MemoryOutcome:
        self.batches.append(batch)
        return await self.db.write(apply_memory(batch))


class Cabinet:
    def __init__(
        self, folder: Path, notes: NoteStore, *, per_user: bool = True, chars: int = 2_200, agent: AgentName = FERN
    ) -> None:
        self.folder = folder / "files"
        self.notes = notes
        self.agent = agent
        self.per_user = per_user
        self.capacity = Capacity(memory_chars=chars, user_chars=chars)
        self.made = 0
        self.provider = self.open()

    def open(self, disk: Disk | None = None, notes: NoteStore | None = None) -> FilesProvider:
        """A provider as a process makes it after a start: it knows nothing but the disk and the store."""
        self.provider = FilesProvider(
            self.folder, AsyncTasks(), agent=self.agent, capacity=self.capacity, per_user=self.per_user, disk=disk
        )
        self.provider.attach(notes or self.notes)
        return self.provider

    @property
    def file(self) -> Path:
        return self.folder / "MEMORY.md"

    def text(self) -> str:
        return self.file.read_text(encoding="utf-8")

    def edit(self, text: str, path: Path | None = None) -> None:
        """What an editor does: another file, renamed over the old one."""
        path = path or self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name("draft")
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)

    async def apply(self, *changes, subject: str = "") -> tuple[int, ...]:
        self.made += 1
        batch = MemoryBatch(
            agent=self.agent, subject=subject, origin=f"o{self.made}", changes=changes, capacity=Capacity()
        )
        outcome = await self.notes.db.write(apply_memory(batch))
        assert isinstance(outcome, Applied), outcome
        return outcome.seqs

    async def deliver(self, seq: int = 1, *, target: str = "memory", subject: str = ""):
        (outcome,) = await self.provider.deliver([note(seq, target=target, subject=subject)])
        return outcome

    async def notice(self, *subjects: str):
        return await self.provider.notice_edits(self.agent, subjects)

    async def entries(self, target: Target = Target.MEMORY, subject: str = "") -> list[str]:
        return [entry.text for entry in (await self.notes.memory(self.agent, subject)).of(target)]

    async def operations(self, subject: str = "") -> list[tuple[str, str, str, str]]:
        found = await self.notes.db.read(list_memory_operations(self.agent, subject))
        return [(one.by, one.verb.value, one.old_text, one.text) for one in found]

    def beside(self) -> list[str]:
        """The files that people see."""
        return sorted(path.name for path in self.folder.iterdir() if not path.name.startswith("."))


def note(seq: int, *, target: str = "memory", subject: str = "", op: Op = Op.REMEMBER) -> Parcel:
    return Parcel(
        id=DeliveryId(f"files:memory:fern:{subject}:{seq}"),
        op=op,
        provider=Provider("files"),
        place=f"memory:fern:{subject}",
        naming=NamingInputs(agent=FERN, session=SessionId(""), principal=Principal("ada")),
        note=MemoryNote(seq=seq, target=target, op="add", text="x", subject=subject),
    )


async def open_store(folder: Path) -> tuple[Database, InlineDatabase]:
    database = InlineDatabase(folder / "store.db", ManualClock())
    return database, database
