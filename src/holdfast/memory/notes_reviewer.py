"""Review of notes: lists notes from unverified sources, and revokes those of one author or one chat.

A revoked note disappears from every running conversation at its next turn, and from every provider as soon as the
provider can be reached. The turns themselves stay; `forget` erases them.
"""

from collections.abc import Iterable

from holdfast.inbox.identity_sql import linked_principals
from holdfast.kernel.errors import InvalidInput, StoreUnavailable
from holdfast.kernel.ids import AgentName, Principal
from holdfast.memory.notes import AgentNotes, MemoryBatch, NotApplied
from holdfast.memory.notes_review import CHANGES_MAX, NoteForReview, Revoked, for_review, removals, to_revoke
from holdfast.memory.notes_service import NotesService
from holdfast.memory.notes_sql import list_memory_subjects
from holdfast.memory.visibility import chat_scope
from holdfast.store.database import Database
from holdfast.turns.policy import AccessPolicy

ATTEMPTS_MAX = 20  # if the notes keep changing during a revocation


class NoteReview:
    def __init__(self, notes: NotesService, db: Database) -> None:
        self._notes = notes
        self._db = db

    async def listed(self, agent: AgentName, access: AccessPolicy) -> tuple[NoteForReview, ...]:
        """Every note that a model made in a group or from a stranger's words, newest first."""
        memories = await self._memories(agent)
        speakers = {entry.principal for memory in memories for entry in memory.entries}
        return for_review(memories, await self._notes.strangers(agent, access, speakers))

    async def revoke(
        self, agent: AgentName, access: AccessPolicy, *, author: str, chat: str, by: str, origin: str
    ) -> Revoked:
        """Remove the notes from the words of an author and their linked accounts, or the notes of a chat.

        `origin` is unique for each request, so that a repetition removes nothing twice.
        """
        if bool(author) == bool(chat):
            raise InvalidInput("name an author or a chat, and not both: that is whose notes are revoked")
        authors = {author, *(await self._db.read(linked_principals(Principal(author))))} if author else set[str]()
        subject = chat_scope(chat) if chat else ""
        removed = 0
        for memory in await self._memories(agent):
            removed += await self._clear(memory, authors, subject, by=by, origin=origin)
        left = [one for one in await self.listed(agent, access) if not one.entry.principal] if author else []
        return Revoked(removed=removed, unattributed=tuple(left))

    async def _clear(self, memory: AgentNotes, authors: Iterable[str], subject: str, *, by: str, origin: str) -> int:
        removed = 0
        for attempt in range(ATTEMPTS_MAX):
            entries = to_revoke(memory, frozenset(authors), subject)[:CHANGES_MAX]
            if not entries:
                return removed
            batch = MemoryBatch(
                agent=memory.agent,
                subject=memory.subject,
                origin=f"{origin}:{attempt}",
                changes=removals(entries),
                by=by,
                withdraws=True,
            )
            outcome = await self._notes.apply(batch)
            removed += 0 if isinstance(outcome, NotApplied) else len(entries)
            memory = await self._notes.memory(memory.agent, memory.subject)
        raise StoreUnavailable(f"the notes of {memory.subject or 'the shared scope'} kept changing; revoke them again")

    async def _memories(self, agent: AgentName) -> list[AgentNotes]:
        found: list[AgentNotes] = []
        while page := await self._db.read(list_memory_subjects(agent, after=found[-1].subject if found else None)):
            found += [await self._notes.memory(agent, subject) for subject in page]
        return found
