"""The part of the store that keeps drafts of replies."""

from holdfast.outbox import draft_sql
from holdfast.outbox.draft import Draft, DraftIntent, DraftState, StrayDraft
from holdfast.store.database import Database


class DraftVerbs:
    """Implements the port `DraftStore`."""

    _db: Database

    async def intend_draft(self, intent: DraftIntent) -> Draft | None:
        return await self._db.write("intend_draft", lambda: draft_sql.intend_draft(intent))

    async def note_draft(self, draft: Draft, state: DraftState | None, *, receipt: str = "") -> None:
        await self._db.write("note_draft", lambda: draft_sql.note_draft(draft, state, receipt))

    async def release_draft(self, draft: Draft, *, quiet_ms: int = 0) -> None:
        await self._db.write("release_draft", lambda: draft_sql.release_draft(draft, quiet_ms))

    async def stray_drafts(self, *, limit: int) -> tuple[StrayDraft, ...]:
        return await self._db.write("stray_drafts", lambda: draft_sql.take_stray_drafts(limit))

    async def drop_draft(self, stray: StrayDraft) -> None:
        await self._db.write("drop_draft", lambda: draft_sql.drop_draft(stray))
