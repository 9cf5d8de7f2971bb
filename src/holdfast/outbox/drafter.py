"""The drafter: shows a reply in its chat while the model writes it, on channels with drafts enabled (outbox/draft.py).

Rule 1: deltas arrive as events of the same process, so each process shows the drafts of its own turns. The drafter's
        state is in RAM only: a resumed turn continues its stored draft.
Rule 2: an error pauses or ends the draft. It affects neither the turn nor the reply.
Rule 3: the end of a turn releases its draft at once, so that the reply does not wait for the end of the hold.
"""

import asyncio
from collections.abc import Hashable
from functools import partial

from holdfast.inbox.channel import Editing
from holdfast.inbox.channels import Channels
from holdfast.kernel.ids import Instant, MessageId
from holdfast.kernel.loop import Loop, TaskSet
from holdfast.kernel.notifier import DELTA, Event
from holdfast.outbox.destination_sql import find_destination
from holdfast.outbox.draft import EVERY_MS_MIN, FIRST_AFTER_CHARS, first_due
from holdfast.outbox.draft_sql import take_stray_drafts
from holdfast.outbox.draft_writer import DraftPlace, DraftWriter, LiveDraft
from holdfast.outbox.post import PULLED
from holdfast.outbox.reply import chat_of
from holdfast.store.ports import Ports
from holdfast.turns.turn import TurnEvent

VOIDING = frozenset({"turn.restarted", TurnEvent.CALLED.value})  # the text before these events is not part of the reply
END = frozenset(event.value for event in (TurnEvent.ANSWERED, TurnEvent.FAILED, TurnEvent.INTERRUPTED, TurnEvent.ASKED))
DRAFTS_MAX = 1_000  # concurrent turns; further turns get no draft
TEXT_CHARS_MAX = 100_000  # longer than the first piece on any platform
STALE_MS = 15 * 60_000  # a turn without text for this long is dropped: its end event was missed
TROUBLE_MS = 5_000  # the pause after an error without a wait from the platform
SWEEP_MS = 60_000
STRAYS_MAX = 20


class Drafter(Loop):
    name = "drafter"

    def __init__(
        self,
        ports: Ports,
        *,
        channels: Channels,
    ) -> None:
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
        try:
            async with asyncio.timeout(max(0, soonest - self._ports.clock.now()) / 1000):
                await self._news.wait()
        except TimeoutError:
            return

    def cut_off(self) -> None:
        self._running.cut_off()


def _limits(place: DraftPlace) -> tuple[Hashable, Hashable]:
    """The keys of the platform's rate limits: the chat and the account."""
    return chat_of(str(place.address)), (place.address.agent, place.address.channel)
