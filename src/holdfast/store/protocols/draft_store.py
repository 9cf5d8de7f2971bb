"""Drafts of replies, as the store keeps them (outbox/draft.py). Part of the port `Store`."""

from typing import Protocol

from holdfast.outbox.draft import Draft, DraftIntent, DraftState, StrayDraft


class DraftStore(Protocol):
    async def intend_draft(self, intent: DraftIntent) -> Draft | None:
        """Put the draft of an open turn on record, or take it up, and hold it for `hold_ms`.

        Asked again by the same claim, the hold is prolonged. None while an older claim may still write to it, or while
        a reply to its address is on its way, which it would overtake in the chat. One that was intended by somebody
        else, who never said what came of it, is `UNKNOWN`. Raises `ClaimLost` when a younger claim holds the mailbox,
        or the turn is not open any more.
        """
        ...

    async def note_draft(self, draft: Draft, state: DraftState | None, *, receipt: str = "") -> None:
        """What came of sending it: `STANDING` with its id, `UNKNOWN`, or None when it was certainly not posted."""
        ...

    async def release_draft(self, draft: Draft, *, quiet_ms: int = 0) -> None:
        """End the hold, now or in a while: the reply of the turn may take the draft's place then."""
        ...

    async def stray_drafts(self, *, limit: int) -> tuple[StrayDraft, ...]:
        """Drafts that stand in a chat and that no reply will replace: their turns ended without one.

        Each is held for the caller for a while, so that it is retracted once and no reply takes its place meanwhile.
        """
        ...

    async def drop_draft(self, stray: StrayDraft) -> None:
        """It was retracted, or cannot be."""
        ...
