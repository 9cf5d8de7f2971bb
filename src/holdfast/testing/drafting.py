"""A chat platform whose messages can be edited, for histories with drafts.

Edits and deletions fail as posts do. An edit that was sent arrives even if its node dies, within the timeout of the
draft writer. Some messages can no longer be edited; they stay unchanged.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field, replace

import apsw

from holdfast.inbox.address import Address
from holdfast.inbox.channel import ChannelCapabilities, Intake
from holdfast.outbox.draft import WRITE_WAIT_MS
from holdfast.outbox.post import Declined, Doubtful, NotSent, Post, SendOutcome, Sent
from holdfast.testing.chats import FAULTS, FOREVER_S, LAG_S_MAX, ChatFailure, ChatServer, FakeChat
from holdfast.testing.crash import Reach, crashing

DRAFT = "dra_"  # the prefix of the ids of drafts
RECORDED = "select 1 from draft where id = ?"
EVERY_MS = 700  # between two edits
UNCHANGED = frozenset({ChatFailure.BEFORE_EFFECT, ChatFailure.LIMITED, ChatFailure.ACCOUNT_LIMITED, ChatFailure.LOST})


@dataclass(slots=True)
class DraftServer:
    """The history of the drafts on the platform, beside the current texts."""

    chats: ChatServer
    unrecorded: list[str] = field(default_factory=list)  # drafts that were sent before they were recorded
    unanswered: set[str] = field(default_factory=set)  # drafts whose post was not answered
    locked: set[str] = field(default_factory=set)  # receipts of messages that can no longer be edited
    retracted: set[str] = field(default_factory=set)
    edits: Counter[str] = field(default_factory=Counter)  # calls, by receipt

    def edit(self, receipt: str, text: str) -> None:
        if receipt not in self.locked and receipt in self.chats.texts:
            self.chats.texts[receipt] = text

    def retract(self, receipt: str) -> None:
        self.retracted.add(receipt)

    @property
    def posts(self) -> list[Post]:
        """The drafts that were shown in the chats."""
        return [post for post in self.chats.landed if post.reply.startswith(DRAFT)]


class EditingEnd:
    """The part of a client that edits and deletes, for one account."""

    def __init__(self, seed: int | str, server: DraftServer, healed: Callable[[], bool]) -> None:
        self._seed = seed
        self._server = server
        self._healed = healed
        self._outside = Context()

    async def edit(self, receipt: str, text: str) -> SendOutcome:
        return await self._change(receipt, lambda: self._server.edit(receipt, text))

    async def retract(self, receipt: str) -> SendOutcome:
        return await self._change(receipt, lambda: self._server.retract(receipt))

    async def _change(self, receipt: str, change: Callable[[], None]) -> SendOutcome:
        self._server.edits[receipt] += 1
        rng = random.Random(f"{self._seed}/edit/{receipt}/{self._server.edits[receipt]}")
        failure = rng.choice(list(ChatFailure)) if rng.random() < FAULTS and not self._healed() else None
        if failure is ChatFailure.DECLINED:
            self._server.locked.add(receipt)
        elif failure is ChatFailure.STALLS:
            self._leave(change, rng.random() * WRITE_WAIT_MS / 1000)
        elif failure not in UNCHANGED:
            self._leave(change, rng.random() * LAG_S_MAX)
        await asyncio.sleep(LAG_S_MAX + rng.random() * LAG_S_MAX)
        if failure is ChatFailure.STALLS:
            await asyncio.sleep(FOREVER_S)
        return self._outcome(receipt, failure)

    def _outcome(self, receipt: str, failure: ChatFailure | None) -> SendOutcome:
        if receipt in self._server.locked:
            return Declined("it cannot be edited any more")
        if failure is None:
            return Sent(receipt)
        if failure in UNCHANGED and failure is not ChatFailure.LOST:
            return NotSent("not now", retry_after_ms=300)
        return Doubtful("the connection was lost")

    def _leave(self, change: Callable[[], None], delay_s: float) -> None:
        """Schedule the arrival of a request that was sent and cannot be cancelled."""
        asyncio.get_running_loop().call_later(delay_s, change, context=self._outside)


class DraftingChat:
    """Implements `Channel` and `Editing`. Both ends are guarded, so a node can die around each call."""

    def __init__(
        self, chat: FakeChat, end: EditingEnd, server: DraftServer, reach: Reach, observe: Callable[[], apsw.Connection]
    ) -> None:
        self._chat = crashing(chat, reach)
        self._end = crashing(end, reach)
        self._server = server
        self._observe = observe

    @property
    def capabilities(self) -> ChannelCapabilities:
        return replace(self._chat.capabilities, drafts=True, edit_interval_ms=EVERY_MS, group_edit_interval_ms=EVERY_MS)

    async def run(self, intake: Intake) -> None:
        await self._chat.run(intake)

    async def typing(self, address: Address) -> None:
        await self._chat.typing(address)

    async def close(self) -> None:
        await self._chat.close()

    async def send(self, post: Post) -> SendOutcome:
        if post.reply.startswith(DRAFT) and not self._observe().execute(RECORDED, (post.reply,)).fetchall():
            self._server.unrecorded.append(post.reply)
        self._server.unanswered.add(post.reply)
        outcome = await self._chat.send(post)
        if isinstance(outcome, Sent):
            self._server.unanswered.discard(post.reply)
        return outcome

    async def edit(self, address: Address, receipt: str, text: str) -> SendOutcome:
        del address  # receipts are unique on this platform
        return await self._end.edit(receipt, text)

    async def retract(self, address: Address, receipt: str) -> SendOutcome:
        del address
        return await self._end.retract(receipt)
