"""The draft writer, and the live draft: the RAM state of one draft in the process that shows it (outbox/draft.py)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from holdfast.inbox.address import Address
from holdfast.inbox.channel import Channel, Editing
from holdfast.kernel import log
from holdfast.kernel.errors import ClaimLost, HoldfastError
from holdfast.kernel.ids import DraftId, Instant, MailboxId, MessageId, ReplyId, SessionId
from holdfast.kernel.notifier import Topic
from holdfast.kernel.retry import RetryPolicy
from holdfast.outbox.draft import (
    HOLD_MS,
    QUIET_MS,
    WRITE_WAIT_MS,
    Draft,
    DraftIntent,
    DraftState,
    StrayDraft,
    drafted,
    may_write,
)
from holdfast.outbox.draft_sql import drop_draft, intend_draft, note_draft, release_draft
from holdfast.outbox.post import Declined, Doubtful, NotSent, Post, SendOutcome, Sent
from holdfast.store.ports import Ports

KEEP_ATTEMPTS_MAX = 5
NOT_HELD = "somebody else may write to it, or a reply before it is on its way"


@dataclass(frozen=True, slots=True)
class DraftPlace:
    """The destination of a reply. `channel` and `editing` are the same object with different types."""

    channel: Channel
    editing: Editing
    address: Address
    event_id: str  # of the message that the turn answers


@dataclass(slots=True, kw_only=True)
class LiveDraft:
    """A running turn whose text this process receives."""

    session: str
    turn: int
    mailbox: str
    fence: int
    message: str
    began_at: Instant
    heard_at: Instant
    text: str = ""
    is_new: bool = False  # some text may not have been shown yet
    shown: str = ""
    place: DraftPlace | None = None
    draft: Draft | None = None
    held_until: Instant = Instant(0)
    busy: bool = False  # a request is in progress
    in_doubt: bool = False  # the answer to the newest edit was lost
    over: bool = False  # no further text is shown
    ended: bool = False  # the turn has ended


class DraftWriter:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._retry = RetryPolicy(delay_ms_base=250, delay_ms_max=2_000)

    async def write(self, one: LiveDraft, place: DraftPlace) -> NotSent | None:
        """Show the new text. The result, if any, says how long to wait before the next attempt."""
        able = place.channel.capabilities
        text = drafted(one.text, able.text_chars_max, able.text_length)
        one.is_new = False  # later text sets it again
        if not text or text == one.shown:
            return None
        try:
            draft = await self._hold(one, place)
        except HoldfastError as error:
            return NotSent(error.code)
        if one.ended or one.over:
            return None
        outcome: SendOutcome = NotSent(NOT_HELD, QUIET_MS)
        if draft is not None and may_write(
            one.held_until, self._ports.clock.now()
        ):  # the process may have been suspended meanwhile
            outcome = await self._put(one, place, draft, text)
        if isinstance(outcome, Sent):
            one.shown, one.in_doubt = text, False
            return None
        log.info("draft.paused", session=one.session, turn=one.turn, why=outcome.reason, **outcome.vendor.fields)
        return outcome if isinstance(outcome, NotSent) else NotSent(outcome.reason)

    async def _hold(self, one: LiveDraft, place: DraftPlace) -> Draft | None:
        """Hold the draft in the store; None while it must wait. A draft that a reply took over is not recreated."""
        asked_at = self._ports.clock.now()
        if one.draft is not None and may_write(one.held_until, asked_at):
            return one.draft
        mine = one.draft = one.draft or self._new(one, place)
        try:
            found = await self._ports.db.write(intend_draft(_intent(one, mine)))
        except ClaimLost:
            one.over = True
            return None
        if found is not None:
            one.draft, one.held_until = found, Instant(asked_at + HOLD_MS)
        if found is not None and (found.state is DraftState.UNKNOWN or (mine.receipt and not found.receipt)):
            one.over = True
            await self.let_go(one)
        return found

    def _new(self, one: LiveDraft, place: DraftPlace) -> Draft:
        id_ = DraftId(self._ports.new_id("dra"))
        return Draft(id=id_, fence=one.fence, state=DraftState.INTENDED, address=place.address)

    # --- requests

    async def _put(self, one: LiveDraft, place: DraftPlace, draft: Draft, text: str) -> SendOutcome:
        if not draft.receipt:
            one.draft = replace(draft, state=DraftState.UNKNOWN)  # until there is an answer
            outcome = await _answered(place.channel.send(_post(one, place, draft, text)))
            await self._posted(one, draft, outcome)
            return outcome
        one.in_doubt = True  # until there is an answer
        outcome = await _answered(place.editing.edit(draft.address, draft.receipt, text))
        one.in_doubt = isinstance(outcome, Doubtful)
        one.over = isinstance(outcome, Declined)  # the message was deleted; the reply's edit detects that too
        return outcome

    async def _posted(self, one: LiveDraft, draft: Draft, outcome: SendOutcome) -> None:
        """Store the outcome of the first request, so that the reply can replace the draft even after a crash."""
        match outcome:
            case Sent(receipt) if receipt:
                kept = await self._keep(
                    lambda: self._ports.db.write(note_draft(draft, DraftState.STANDING, receipt=receipt))
                )
                one.over = not kept
                if kept:
                    one.draft = replace(draft, state=DraftState.STANDING, receipt=receipt)
            case NotSent() | Declined():
                one.draft, one.held_until, one.over = draft, Instant(0), isinstance(outcome, Declined)
                await self._keep(lambda: self._ports.db.write(note_draft(draft, None)))
            case _:
                one.over = True
                await self._keep(lambda: self._ports.db.write(note_draft(draft, DraftState.UNKNOWN)))

    async def let_go(self, one: LiveDraft) -> None:
        """Release the draft to the reply; after an edit whose answer was lost, with a quiet period."""
        draft, one.draft = one.draft, None
        if draft is None:
            return
        if draft.state is DraftState.INTENDED:  # nothing was posted
            await self._keep(lambda: self._ports.db.write(note_draft(draft, None)))
        else:
            quiet_ms = QUIET_MS if one.in_doubt else 0
            await self._keep(lambda: self._ports.db.write(release_draft(draft, quiet_ms=quiet_ms)))
        self._ports.notifier.wake(Topic.REPLY)

    async def _keep(self, verb: Callable[[], Awaitable[None]]) -> bool:
        """Write with a bounded number of retries. A draft whose outcome is not stored is unknown after its hold."""
        for attempt in range(1, KEEP_ATTEMPTS_MAX + 1):
            try:
                await verb()
            except HoldfastError as error:
                log.warning("loop.failed", loop="drafter", code=error.code, why=str(error))
                await self._ports.tasks.sleep(self._retry.delay_ms(attempt, self._ports.entropy.fraction()))
            else:
                return True
        return False

    async def retract(self, channel: Channel, stray: StrayDraft) -> None:
        outcome: SendOutcome = Declined("the channel deletes no messages")
        if isinstance(channel, Editing):
            outcome = await _answered(channel.retract(stray.address, stray.receipt))
        if isinstance(outcome, Sent | Declined):
            await self._ports.db.write(drop_draft(stray))
            log.info("draft.retracted", draft=stray.id, outcome=type(outcome).__name__)


async def _answered(request: Awaitable[SendOutcome]) -> SendOutcome:
    try:
        async with asyncio.timeout(WRITE_WAIT_MS / 1000):
            return await request
    except TimeoutError:
        return Doubtful(f"no answer within {WRITE_WAIT_MS} ms")


def _intent(one: LiveDraft, draft: Draft) -> DraftIntent:
    return DraftIntent(
        id=draft.id,
        session=SessionId(one.session),
        turn=one.turn,
        mailbox=MailboxId(one.mailbox),
        fence=one.fence,
        address=draft.address,
    )


def _post(one: LiveDraft, place: DraftPlace, draft: Draft, text: str) -> Post:
    return Post(
        reply=ReplyId(draft.id),
        part=0,
        parts=1,
        address=draft.address,
        text=text,
        message=MessageId(one.message),
        in_reply_to=place.event_id,
    )
