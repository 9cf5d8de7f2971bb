"""The reply sender: claims due replies, in order per chat, and passes them to the account senders.

Bot accounts are independent: a slow account uses only its own slots, an unreachable account costs an occasional probe,
and a waiting chat delays no other chat (D26).

The sender learns what is due: a committed reply wakes it with its account, a settlement says when its reply is due
again, and the node's poll wakes it for everything else. Only then it asks the store.
"""

from collections.abc import Hashable, Iterable
from contextlib import AbstractContextManager
from typing import NamedTuple

from holdfast.inbox.channels import ChannelKey, Channels
from holdfast.kernel import log
from holdfast.kernel.errors import AgentNotFound
from holdfast.kernel.ids import Instant
from holdfast.kernel.loop import IDLE_MS, Batch, ClaimLoop
from holdfast.kernel.notifier import Topic
from holdfast.outbox.account_sender import AccountSender
from holdfast.outbox.reply import ReplyClaim, SendPolicy
from holdfast.outbox.reply_sql import claim_replies, next_reply_due
from holdfast.store.membership import Member
from holdfast.store.ports import Ports
from holdfast.turns.agents import Agents

POLL_MS = 1_000  # while an account with due replies has no free slot
POLL_MS_MIN = 20


class ClaimedReply(NamedTuple):
    """A reply, and the time of the request that claimed it."""

    reply: ReplyClaim
    asked_at: Instant


class ReplySender(ClaimLoop[ChannelKey, ClaimedReply]):
    name = "reply_sender"
    topic = Topic.REPLY
    claim_prefix = "post"
    grace_ms = 2_000  # for replies in progress; the outcome of an interrupted one is unknown

    def __init__(
        self,
        ports: Ports,
        *,
        channels: Channels,
        agents: Agents,
        member: Member,
        policy: SendPolicy | None = None,
    ) -> None:
        super().__init__(ports.tasks, ports.entropy, ports.notifier, ports.new_id)
        self._ports = ports
        self._channels = channels
        self._agents = agents
        self._member = member
        self._policy = policy or SendPolicy()
        self._senders: dict[ChannelKey, AccountSender] = {}
        self._followed: set[ChannelKey] = set()  # accounts of which a reply may wait for another one

    async def look(self) -> Iterable[ChannelKey]:
        now, due = await self._ports.db.read(next_reply_due())
        ready = [ChannelKey(*key) for key, due_at in due.items() if due_at <= now]
        return [key for key in ready if self._sender(key) is not None]

    def groups(self, key: Hashable) -> Iterable[ChannelKey]:
        return (key,) if isinstance(key, ChannelKey) and self._sender(key) is not None else ()

    def room(self, group: ChannelKey) -> int:
        return self._senders[group].room(self.running.count(group))

    async def claim(self, group: ChannelKey, name: str, *, repeated: bool) -> Batch[ClaimedReply]:
        del repeated
        sender, sending = self._senders[group], self.running.count(group)
        asked_at, resting, limit = self._ports.clock.now(), sender.resting(), sender.room(sending)
        replies = await self._ports.db.write(
            claim_replies(
                self._member.node,
                group.agent,
                group.channel,
                name=name,
                limit=limit,
                on_doubt=sender.on_doubt,
                resting=resting,
            )
        )
        if any(reply.is_followed for reply in replies) or (not replies and (sending or resting)):
            self._followed.add(group)
            self._claim_after_rest(group)
        return Batch([ClaimedReply(reply, asked_at) for reply in replies], more=len(replies) >= max(limit, 1))

    def pinned(self, group: ChannelKey, claim: ClaimedReply) -> AbstractContextManager[object]:
        return log.pinned(channel=group.channel, agent=group.agent, reply=claim.reply.id)

    async def serve(self, group: ChannelKey, claim: ClaimedReply) -> None:
        try:
            await self._senders[group].send(claim.reply, claim.asked_at)
        finally:
            self._claim_followers(group)

    async def give_back(self, group: ChannelKey, claim: ClaimedReply, error: Exception) -> None:
        await self._senders[group].give_back(claim.reply, f"it could not be sent: {type(error).__name__}")
        self._claim_followers(group)

    def _claim_followers(self, group: ChannelKey) -> None:
        """Claim the replies that waited until this one was sent."""
        if group in self._followed:
            self._followed.discard(group)
            self.due[group] = None

    def _claim_after_rest(self, group: ChannelKey) -> None:
        rested_at = self._senders[group].rested_at()
        if rested_at is not None:
            self._ports.notifier.wake_in(Topic.REPLY, rested_at - self._ports.clock.now(), group)

    def _sender(self, key: ChannelKey) -> AccountSender | None:
        """The sender of an account; None if the account or its agent is not configured: its replies wait."""
        if key not in self._senders and (channel := self._channels.get(*key)) is not None:
            try:
                on_doubt = self._agents.policy(key.agent).on_doubt
            except AgentNotFound:
                return None
            self._senders[key] = AccountSender(key, channel, self._ports, self._policy, on_doubt=on_doubt)
        return self._senders.get(key)

    def wait_ms(self) -> float:
        """Until an account with due replies has a free slot."""
        now = self._ports.clock.now()
        waits = [at - now for key in self.due if (at := self._senders[key].rested_at()) is not None]
        return max(POLL_MS_MIN, min([POLL_MS, *waits])) if self.due else IDLE_MS
