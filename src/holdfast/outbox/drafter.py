"""The drafter: shows a reply in its chat while the model writes it, on channels with drafts enabled (outbox/draft.py).

A `LiveDraft` is the RAM state of one draft in the process that shows it. The `DraftWriter` makes its requests.

Rule 1: deltas arrive as events of the same process, so each process shows the drafts of its own turns. The drafter's
        state is in RAM only: a resumed turn continues its stored draft.
Rule 2: an error pauses or ends the draft. It affects neither the turn nor the reply.
Rule 3: the end of a turn releases its draft at once, so that the reply does not wait for the end of the hold.
"""

import asyncio
from collections.abc import Awaitable, Hashable
from dataclasses import dataclass, replace
from functools import partial

from holdfast.inbox.address import Address
from holdfast.inbox.channel import Channel, Editing
from holdfast.inbox.channels import Channels
from holdfast.kernel import log
from holdfast.kernel.errors import ClaimLost, HoldfastError
from holdfast.kernel.ids import DraftId, Instant, MailboxId, MessageId, ReplyId, SessionId
from holdfast.kernel.loop import Loop, TaskSet
from holdfast.kernel.notifier import DELTA, Event, Topic, is_set_within
from holdfast.kernel.retry import RetryPolicy
from holdfast.outbox.draft import (
    EVERY_MS_MIN,
    FIRST_AFTER_CHARS,
    HOLD_MS,
    QUIET_MS,
    WRITE_WAIT_MS,
    Draft,
    DraftIntent,
    DraftState,
    StrayDraft,
    drafted,
    first_due,
    may_write,
)
from holdfast.outbox.draft_sql import drop_draft, intend_draft, note_draft, release_draft, take_stray_drafts
from holdfast.outbox.post import PULLED, Declined, Doubtful, NotSent, Post, SendOutcome, Sent
from holdfast.outbox.reply import chat_of
from holdfast.outbox.reply_sql import find_destination
from holdfast.outbox.typing_indicator import END
from holdfast.store.ports import Ports
from holdfast.store.script import Call
from holdfast.turns.turn import TurnEvent

VOIDING = frozenset({"turn.restarted", TurnEvent.CALLED.value})  # the text before these events is not part of the reply
DRAFTS_MAX = 1_000  # concurrent turns; further turns get no draft
TEXT_CHARS_MAX = 100_000  # longer than the first piece on any platform
STALE_MS = 15 * 60_000  # a turn without text for this long is dropped: its end event was missed
TROUBLE_MS = 5_000  # the pause after an error without a wait from the platform
SWEEP_MS = 60_000
STRAYS_MAX = 20
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
        now = self._ports.clock.now()  # the process may have been suspended meanwhile
        if draft is not None and may_write(one.held_until, now):
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
        mine = one.draft or Draft(
            id=DraftId(self._ports.new_id("dra")), fence=one.fence, state=DraftState.INTENDED, address=place.address
        )
        one.draft = mine
        intent = DraftIntent(
            id=mine.id,
            session=SessionId(one.session),
            turn=one.turn,
            mailbox=MailboxId(one.mailbox),
            fence=one.fence,
            address=mine.address,
        )
        try:
            found = await self._ports.db.write(intend_draft(intent))
        except ClaimLost:
            one.over = True
            return None
        if found is not None:
            one.draft, one.held_until = found, Instant(asked_at + HOLD_MS)
        if found is not None and (found.state is DraftState.UNKNOWN or (mine.receipt and not found.receipt)):
            one.over = True
            await self.let_go(one)
        return found

    # --- requests

    async def _put(self, one: LiveDraft, place: DraftPlace, draft: Draft, text: str) -> SendOutcome:
        if not draft.receipt:
            one.draft = replace(draft, state=DraftState.UNKNOWN)  # until there is an answer
            post = Post(
                reply=ReplyId(draft.id),
                part=0,
                parts=1,
                address=draft.address,
                text=text,
                message=MessageId(one.message),
                in_reply_to=place.event_id,
            )
            outcome = await _answered(place.channel.send(post))
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
                kept = await self._keep(note_draft(draft, DraftState.STANDING, receipt=receipt))
                one.over = not kept
                if kept:
                    one.draft = replace(draft, state=DraftState.STANDING, receipt=receipt)
            case NotSent() | Declined():
                one.draft, one.held_until, one.over = draft, Instant(0), isinstance(outcome, Declined)
                await self._keep(note_draft(draft, None))
            case _:
                one.over = True
                await self._keep(note_draft(draft, DraftState.UNKNOWN))

    async def let_go(self, one: LiveDraft) -> None:
        """Release the draft to the reply; after an edit whose answer was lost, with a quiet period."""
        draft, one.draft = one.draft, None
        if draft is None:
            return
        if draft.state is DraftState.INTENDED:  # nothing was posted
            await self._keep(note_draft(draft, None))
        else:
            quiet_ms = QUIET_MS if one.in_doubt else 0
            await self._keep(release_draft(draft, quiet_ms=quiet_ms))
        self._ports.notifier.wake(Topic.REPLY)

    async def _keep(self, call: Call[None]) -> bool:
        """Write with a bounded number of retries. A draft whose outcome is not stored is unknown after its hold."""
        for attempt in range(1, KEEP_ATTEMPTS_MAX + 1):
            try:
                await self._ports.db.write(call)
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


class Drafter(Loop):
    name = "drafter"

    def __init__(self, ports: Ports, *, channels: Channels) -> None:
        super().__init__(ports.tasks, ports.entropy)
        self._ports = ports
        self._channels = channels
        self._writer = DraftWriter(ports)
        self._drafts: dict[tuple[str, int], LiveDraft] = {}
        self._rest_until: dict[Hashable, Instant] = {}  # by chat, and by account
        self._running = TaskSet(ports.tasks, name=self.name)
        self._sweep_at = ports.clock.now()
        self._news = asyncio.Event()
        ports.notifier.tap(self._hear, deltas=True)

    # --- events

    def _hear(self, event: Event) -> None:
        one = self._drafts.get((event.session, event.turn))
        if one is not None and event.fence < one.fence:
            return  # a run that lost its claim publishes events until it notices
        if event.name == DELTA:
            self._heard(event)
        elif one is not None:
            if event.name in VOIDING:
                one.text = ""
            elif event.name in END:
                self._end(one)

    def _heard(self, event: Event) -> None:
        one = self._draft_of(event)
        if one is None or one.over or len(one.text) > TEXT_CHARS_MAX:
            return
        had = len(one.text)
        one.text += event.text
        one.heard_at = self._ports.clock.now()
        if not one.is_new or had < FIRST_AFTER_CHARS <= len(one.text):
            one.is_new = True
            self._news.set()

    def _draft_of(self, event: Event) -> LiveDraft | None:
        key = event.session, event.turn
        known = self._drafts.get(key)
        if known is not None and known.fence == event.fence:
            return known
        if known is not None:
            self._end(known)  # the turn continues under a newer claim
        if not event.messages or len(self._drafts) >= DRAFTS_MAX:
            return None
        made = self._drafts[key] = LiveDraft(
            session=event.session,
            turn=event.turn,
            mailbox=event.mailbox,
            fence=event.fence,
            message=event.messages[-1],
            began_at=self._ports.clock.now(),
            heard_at=self._ports.clock.now(),
        )
        return made

    # --- writing

    async def step(self) -> bool:
        now = self._ports.clock.now()
        self._rest_until = {what: at for what, at in self._rest_until.items() if at > now}
        for one in tuple(self._drafts.values()):
            if now - one.heard_at > STALE_MS:
                self._end(one)
            elif one.is_new and not (one.busy or one.over) and self._due_at(one) <= now:
                self._begin(one)
        if now >= self._sweep_at:
            self._sweep_at = Instant(now + SWEEP_MS)
            self._running.start(self._sweep, name="stray drafts")
        return False

    def _due_at(self, one: LiveDraft) -> Instant:
        if one.place is None:
            return one.began_at  # its destination is looked up at once
        first = one.began_at if one.shown else first_due(one.began_at, len(one.text))
        rests = (self._rest_until.get(what, first) for what in _limits(one.place))
        return max(first, *rests)

    def _begin(self, one: LiveDraft) -> None:
        one.busy = True
        if one.place is not None:
            able = one.place.channel.capabilities
            is_group = one.place.address.type != "dm"
            each_ms = max(EVERY_MS_MIN, able.group_edit_interval_ms if is_group else able.edit_interval_ms)
            for what, wait_ms in zip(_limits(one.place), (each_ms, able.account_edit_interval_ms), strict=True):
                self._rest_until[what] = Instant(self._ports.clock.now() + wait_ms)
        self._running.start(partial(self._go_on, one), name=f"draft {one.session}/{one.turn}")

    def _end(self, one: LiveDraft) -> None:
        """Release the draft, after the request in progress if there is one."""
        one.ended = True
        if self._drafts.get((one.session, one.turn)) is one:
            del self._drafts[one.session, one.turn]
        if one.draft is not None and not one.busy:
            self._running.start(partial(self._writer.let_go, one), name=f"draft {one.session}/{one.turn}")

    async def _go_on(self, one: LiveDraft) -> None:
        """Do one step of one draft. An unexpected exception ends the draft."""
        failed = True
        try:
            if one.place is None:
                await self._find(one)
            else:
                trouble = await self._writer.write(one, one.place)
                if trouble is not None:
                    self._pause(one, one.place, trouble.retry_after_ms, whole_account=trouble.whole_account)
            failed = False
        finally:
            one.busy, one.over = False, one.over or failed
            if one.ended:
                self._end(one)
            self._news.set()

    async def _find(self, one: LiveDraft) -> None:
        """Find the reply's destination; end the draft if its channel shows none."""
        found = await self._ports.db.read(find_destination(MessageId(one.message)))
        if found is None:
            one.over = True
            return
        address = found.address
        channel = None if address.channel in PULLED else self._channels.get(address.agent, address.channel)
        if channel is None or not channel.capabilities.drafts or not isinstance(channel, Editing):
            one.over, one.text = True, ""
        else:
            one.place = DraftPlace(channel, channel, address, found.event_id)

    def _pause(self, one: LiveDraft, place: DraftPlace, wait_ms: int, *, whole_account: bool) -> None:
        until = Instant(self._ports.clock.now() + (wait_ms or TROUBLE_MS))
        chat, account = _limits(place)
        limited = account if whole_account else chat
        # A concurrent request may have been told to wait longer.
        self._rest_until[limited] = max(until, self._rest_until.get(limited, until))
        one.is_new = True

    # --- stray drafts

    async def _sweep(self) -> None:
        """Retract stray drafts, best effort: a failed retraction is retried by a later sweep."""
        for stray in await self._ports.db.write(take_stray_drafts(limit=STRAYS_MAX)):
            channel = self._channels.get(stray.address.agent, stray.address.channel)
            if channel is not None:
                self._running.start(partial(self._writer.retract, channel, stray), name=f"stray {stray.id}")

    async def rest(self) -> None:
        """Wait for new text, or until a draft or the sweep is due."""
        due = [self._due_at(one) for one in self._drafts.values() if one.is_new and not (one.busy or one.over)]
        soonest = min((*due, self._sweep_at))
        self._news.clear()
        await is_set_within(self._news, max(0, soonest - self._ports.clock.now()))

    def cut_off(self) -> None:
        self._running.cut_off()


def _limits(place: DraftPlace) -> tuple[Hashable, Hashable]:
    """The keys of the platform's rate limits: the chat and the account."""
    return chat_of(str(place.address)), (place.address.agent, place.address.channel)
