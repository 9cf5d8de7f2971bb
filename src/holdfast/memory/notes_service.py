"""The notes service: reading and changing an agent's notes, for its tool, its files, its instructions and commands.

All changes go through this module: on return a change is durable, and its delivery to every provider is scheduled.
The edit reader turns people's edits of the memory files into changes.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from holdfast.audit.actor import acting
from holdfast.inbox.access_sql import is_admitted
from holdfast.inbox.identity_sql import linked_principals
from holdfast.kernel import log
from holdfast.kernel.errors import InvalidInput, ProviderFailed, StoreUnavailable
from holdfast.kernel.ids import AgentName, Principal
from holdfast.kernel.loop import Loop
from holdfast.kernel.notifier import Topic
from holdfast.memory import notes_sql, notes_view
from holdfast.memory.delivery import Outcome
from holdfast.memory.notes import (
    DELIMITER,
    AgentNotes,
    MemoryBatch,
    MemoryOutcome,
    MemoryUndo,
    MemoryVerb,
    NotApplied,
    NoteChange,
    Target,
)
from holdfast.memory.notes_plan import entry_named
from holdfast.memory.notes_view import NoteForReview, Revoked
from holdfast.memory.provider import Providers
from holdfast.memory.visibility import Audience, ShownNotes, chat_scope, holder_of
from holdfast.store.ports import Database, Ports
from holdfast.turns.policy import AccessPolicy

LOOK_EVERY_MS = 3_000
SUBJECTS_EVERY_MS = 60_000  # another process may have made notes about a new person
REVOCATIONS_MAX = 20  # attempts, if the notes keep changing during a revocation


async def all_subjects(db: Database, agent: AgentName) -> list[str]:
    """All subjects of an agent's notes, read page by page."""
    found: list[str] = []
    while page := await db.read(notes_sql.list_memory_subjects(agent, after=found[-1] if found else None)):
        found += page
    return found


class NotesService:
    """Implements `NotesPort`."""

    def __init__(self, db: Database, providers: Providers) -> None:
        self._db = db
        self._providers = providers
        self.changed: Callable[[], None] = lambda: None  # called after every change

    async def memory(self, agent: AgentName, subject: str) -> AgentNotes:
        return await self._db.read(notes_sql.read_memory(agent, subject))

    async def shown(self, audience: Audience) -> ShownNotes:
        """The notes that an audience may be shown, those of linked accounts included."""
        return await self._db.read(notes_sql.read_shown_notes(audience))

    async def apply(self, batch: MemoryBatch) -> MemoryOutcome:
        """Apply a batch, or reverse the operation of a `MemoryUndo`."""
        mirrored = replace(batch, policies=self._providers.policies(batch.agent))
        verb = (
            notes_sql.undo_memory(mirrored, by=acting())
            if isinstance(mirrored, MemoryUndo)
            else notes_sql.apply_memory(mirrored, by=acting())
        )
        outcome = await self._db.write(verb)
        self.changed()
        return outcome

    async def move(self, batch: MemoryBatch, to: str) -> MemoryOutcome:
        """Move the entry that the batch's one change names to another scope.

        The new note is added before the old one is removed. An origin counts per scope, so a repetition does the
        missing part.
        """
        (named,) = batch.changes
        entry = entry_named(await self.memory(batch.agent, batch.subject), named)
        if isinstance(entry, NotApplied):
            return entry
        added = NoteChange(verb=MemoryVerb.ADD, target=named.target, text=entry.text)
        outcome = await self.apply(replace(batch, subject=to, changes=(added,)))
        if isinstance(outcome, NotApplied) or to == batch.subject:
            return outcome
        gone = NoteChange(verb=MemoryVerb.REMOVE, target=named.target, version=entry.seq)
        removed = await self.apply(replace(batch, changes=(gone,)))
        return removed if isinstance(removed, NotApplied) else outcome

    async def strangers(
        self, agent: AgentName, access: AccessPolicy, principals: Collection[Principal]
    ) -> frozenset[Principal]:
        """The principals that no operator admitted by name (memory/notes_view.py)."""
        asked = sorted(one for one in principals if notes_view.may_be_stranger(one, access))
        return frozenset([one for one in asked if not await self._db.read(is_admitted(agent, one))])

    async def soul(self, agent: AgentName) -> str | None:
        """SOUL.md, if the agent has files; None if it cannot be read."""
        for configured in self._providers.of(agent).values():
            read = getattr(configured.provider, "soul", None)
            if read is not None:
                try:
                    found: str | None = await read()
                except ProviderFailed as error:
                    log.warning("recall.skipped", providers=["files"], code=error.code)
                    return None
                return found
        return None

    async def for_review(self, agent: AgentName, access: AccessPolicy) -> tuple[NoteForReview, ...]:
        """Every note that a model made in a group or from a stranger's words, newest first."""
        memories = await self._memories(agent)
        speakers = {entry.principal for memory in memories for entry in memory.entries}
        return notes_view.for_review(memories, await self.strangers(agent, access, speakers))

    async def revoke(
        self, agent: AgentName, access: AccessPolicy, *, author: str, chat: str, by: str, origin: str
    ) -> Revoked:
        """Remove the notes from the words of an author and their linked accounts, or the notes of a chat.

        A revoked note disappears from every running conversation at its next turn, and from every provider as soon as
        the provider can be reached. The turns themselves stay; `forget` erases them. `origin` is unique for each
        request, so that a repetition removes nothing twice.
        """
        if bool(author) == bool(chat):
            raise InvalidInput("name an author or a chat, and not both: that is whose notes are revoked")
        authors = {author, *(await self._db.read(linked_principals(Principal(author))))} if author else set[str]()
        subject = chat_scope(chat) if chat else ""
        removed = 0
        for memory in await self._memories(agent):
            removed += await self._clear(memory, authors, subject, by=by, origin=origin)
        left = [one for one in await self.for_review(agent, access) if not one.entry.principal] if author else []
        return Revoked(removed=removed, unattributed=tuple(left))

    async def _clear(self, memory: AgentNotes, authors: set[str], subject: str, *, by: str, origin: str) -> int:
        removed = 0
        for attempt in range(REVOCATIONS_MAX):
            entries = notes_view.to_revoke(memory, authors, subject)[: notes_view.CHANGES_MAX]
            if not entries:
                return removed
            batch = MemoryBatch(
                agent=memory.agent,
                subject=memory.subject,
                origin=f"{origin}:{attempt}",
                changes=tuple(
                    NoteChange(verb=MemoryVerb.REMOVE, target=one.target, version=one.seq) for one in entries
                ),
                by=by,
                withdraws=True,
            )
            removed += 0 if isinstance(await self.apply(batch), NotApplied) else len(entries)
            memory = await self.memory(memory.agent, memory.subject)
        raise StoreUnavailable(f"the notes of {memory.subject or 'the shared scope'} kept changing; revoke them again")

    async def _memories(self, agent: AgentName) -> list[AgentNotes]:
        return [await self.memory(agent, subject) for subject in await all_subjects(self._db, agent)]

    async def migrate(self, agent: AgentName, subject: str) -> dict[str, dict[str, Outcome]]:
        """Bring the current notes to providers that can import files, each at most once (R19)."""
        kept = await self.memory(agent, subject)
        own = tuple(one for one in kept.entries if holder_of(subject, one.by, one.principal) == subject)
        memory = replace(kept, entries=own)
        files = {
            "MEMORY.md": DELIMITER.join(entry.text for entry in memory.of(Target.MEMORY)),
            "USER.md": DELIMITER.join(entry.text for entry in memory.of(Target.USER)),
            "SOUL.md": await self.soul(agent) or "",
        }
        moved: dict[str, dict[str, Outcome]] = {}
        for name, configured in self._providers.of(agent).items():
            migrate = getattr(configured.provider, "migrate", None)
            if migrate is not None:
                moved[name] = await migrate(files, subject=subject)
        return moved


class EditReader(Loop):
    """Turns edits of the memory files into changes of the notes.

    The people and chats that have notes are read when notes of this process changed, and else rarely: files are looked
    at every few seconds without a question to the store.
    """

    name = "edits"

    def __init__(self, ports: Ports, providers: Providers) -> None:
        super().__init__(ports.tasks, ports.entropy)
        self._ports = ports
        self._providers = providers
        self._subjects: Mapping[AgentName, Collection[str]] = {}
        self._read_at = -SUBJECTS_EVERY_MS

    async def step(self) -> bool:
        found = [
            (key.agent, getattr(self._providers.get(key), "notice_edits", None)) for key in self._providers.lane_keys()
        ]
        readers = [(agent, notice) for agent, notice in found if notice is not None]
        if readers:
            await self._refresh()
        for agent, notice in readers:
            for noticed in await notice(agent, self._subjects.get(agent, ())):
                log.info("memory.edited", agent=agent, file=noticed.file, fault=noticed.fault)
        return False

    async def _refresh(self) -> None:
        now = self._ports.clock.now()
        if self._ports.notifier.take(Topic.NOTES).anything or not 0 <= now - self._read_at < SUBJECTS_EVERY_MS:
            self._read_at = -SUBJECTS_EVERY_MS  # until the read succeeds
            found: dict[AgentName, list[str]] = {}
            last = AgentName(""), ""
            while page := await self._ports.db.read(notes_sql.list_all_subjects(after=last)):
                for agent, subject in page:
                    found.setdefault(agent, []).append(subject)
                last = page[-1]
            self._subjects, self._read_at = found, now

    async def rest(self) -> None:
        await self._ports.tasks.sleep(LOOK_EVERY_MS)
