"""The store's side of an import: what is there already, writing, reading back, and the end of a session's import."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.audit.actor import acting
from holdfast.hermes.importing.import_sql import (
    IMPORT,
    ImportedSession,
    ImportEnding,
    ImportRun,
    end_import,
    finish_import,
    import_turns,
)
from holdfast.hermes.importing.turns import ImportedSummary, ImportedTurn, JournalDigest
from holdfast.kernel.errors import HermesImportMismatch, SessionNotFound
from holdfast.kernel.ids import MailboxId, NodeId, OperationId, SessionId
from holdfast.sessions.compression import COMPRESS, Busy, SummaryDraft
from holdfast.sessions.history_sql import list_entries, list_operations, read_session
from holdfast.sessions.session import Session, SessionState
from holdfast.sessions.summary_sql import begin_operation, commit_summary
from holdfast.store.ports import Ports

READ_ENTRIES = 1_000
OWNER = NodeId("hermes-import")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """What Holdfast has of a session of Hermes."""

    turns: int = 0
    complete: int | None = None  # the number of turns of the last complete import
    digest: str = ""
    went_on: bool = False


NOTHING_STORED = StoredSession()


class ImportTarget:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._db = ports.db

    async def stored(self, id: SessionId) -> StoredSession:
        found = await self._find(id)
        if found is None:
            return NOTHING_STORED
        operations = await self._db.read(list_operations(session=id, limit=10_000))
        done = next((one.detail for one in operations if one.kind == IMPORT and one.detail), None)
        if done is None:
            return StoredSession(turns=found.turns)
        complete = int(str(done["turns"]))
        went_on = found.live or found.turns > complete or found.state is not SessionState.CLOSED
        return StoredSession(turns=found.turns, complete=complete, digest=str(done["digest"]), went_on=went_on)

    async def _find(self, id: SessionId) -> Session | None:
        try:
            return await self._db.read(read_session(id))
        except SessionNotFound:
            return None

    async def write(self, session: ImportedSession, turns: Sequence[ImportedTurn]) -> None:
        if turns:
            await self._db.write(import_turns(session, tuple(turns)))

    async def verify(self, id: SessionId, *, entries: int, digest: str) -> None:
        """Read the session back. Raises `HermesImportMismatch`."""
        found, after = JournalDigest(), 0
        while page := await self._db.read(list_entries(id, after=after, limit=READ_ENTRIES)):
            for view in page:
                found.add(view.entry.turn, view.entry.at, view.entry.body)
            after = page[-1].entry.seq
        if (found.entries, found.hex()) != (entries, digest):
            what = f"{id} has {found.entries} entries with the digest {found.hex()[:16]}"
            raise HermesImportMismatch(f"{what}; Hermes' rows give {entries} with {digest[:16]}", session=id)

    async def summarise(self, id: SessionId, summaries: Sequence[ImportedSummary]) -> None:
        """Make the summaries of Hermes those of the session, so that a model is shown what Hermes showed it."""
        found = await self._db.read(read_session(id))
        covered = 0
        for n, one in enumerate(summaries, start=1):
            draft = SummaryDraft(
                base_n=n - 1,
                undo_count=found.undo_count,
                covers_from=covered + 1,
                covers_through=one.covers_through,
                head_seq=found.committed_seq,
                text=one.text,
                model="hermes",
            )
            covered = one.covers_through
            operation = await self._db.write(begin_operation(OperationId(f"{id}:{n}"), COMPRESS, id, OWNER))
            if not isinstance(operation, Busy):
                await self._db.write(commit_summary(operation, draft))

    async def end(self, ending: ImportEnding) -> bool:
        """Complete the import of a session; whether its chat goes on with it."""
        return await self._db.write(end_import(ending))

    async def finish(self, run: ImportRun) -> None:
        """Record the run in the audit trail, in the name of the actor."""
        await self._db.write(finish_import(run, by=acting()))

    def new_mailbox(self) -> MailboxId:
        return MailboxId(self._ports.new_id("box"))
