"""The reply sender: claims due replies, in order per chat, and sends each through the sender of its bot account.

Bot accounts are independent: a slow account uses only its own slots, an unreachable account costs an occasional probe,
and a waiting chat delays no other chat (D26).

The sender learns what is due: a committed reply wakes it with its account, a settlement says when its reply is due
again, and the node's poll wakes it for everything else. Only then it asks the store.
"""

import asyncio
from collections.abc import Hashable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import NamedTuple

from holdfast.inbox.channel import Channel, Editing
from holdfast.inbox.channels import ChannelKey, Channels
from holdfast.kernel import log
from holdfast.kernel.errors import AgentNotFound, HoldfastError
from holdfast.kernel.ids import Instant
from holdfast.kernel.loop import IDLE_MS, Batch, ClaimLoop
from holdfast.kernel.notifier import Event, Topic
from holdfast.kernel.retry import CircuitBreaker, RetryPolicy
from holdfast.kernel.spans import POST, span
from holdfast.outbox.post import Declined, Doubtful, NotSent, OnDoubt, Post, ReplyState, SendOutcome, Sent
from holdfast.outbox.reply import BEYOND_DOUBT, Kept, ReplyClaim, ReplySettlement, SendPolicy, after_send, untried
from holdfast.outbox.reply_sql import claim_replies, next_reply_due, settle_reply
from holdfast.outbox.splitting import split
from holdfast.store.membership import Member
from holdfast.store.ports import Ports
from holdfast.turns.agents import Agents
from holdfast.turns.model_call import is_cancelled_from_outside
from holdfast.turns.policy import DAY_MS

POLL_MS = 1_000  # while an account with due replies has no free slot
POLL_MS_MIN = 20
NO_OUTCOME = "the channel's code failed: it did not say what became of it"
NEVER_DOUBLES_MS = DAY_MS  # a platform that remembers nonces for this long never posts a piece twice


class AccountSender:
    """Sends the replies of one bot account, piece by piece, and stores the outcome of each piece.

    The rate-limit state (recently used chats, the account's next allowed send) is in RAM only: after a restart the
    platform reports its limits again.
    """

    def __init__(
        self, key: ChannelKey, channel: Channel, ports: Ports, policy: SendPolicy, *, on_doubt: OnDoubt
    ) -> None:
        self.key = key
        self._channel = channel
        self._ports = ports
        self._policy = policy
        self._on_doubt = on_doubt
        self._unsettled = RetryPolicy(delay_ms_base=250, delay_ms_max=5_000)
        self._circuit = CircuitBreaker()
        self._chats_rest_until: dict[str, Instant] = {}

    @property
    def on_doubt(self) -> OnDoubt:
        forever = self._channel.capabilities.nonce_lasts_ms >= NEVER_DOUBLES_MS
        return OnDoubt.RESEND if forever else self._on_doubt

    def room(self, sending: int) -> int:
        """The number of replies that may be sent now beside those being sent."""
        allowed = self._circuit.calls_allowed(self._ports.clock.now(), self._policy.sends_max)
        return max(0, allowed - sending)

    def resting(self) -> frozenset[str]:
        """The chats that are paused by their rate limit."""
        now = self._ports.clock.now()
        self._chats_rest_until = {chat: at for chat, at in self._chats_rest_until.items() if at > now}
        return frozenset(self._chats_rest_until)

    def rested_at(self) -> Instant | None:
        """The earliest end of a current pause, of the account or of a chat; None without one."""
        now = self._ports.clock.now()
        return min(
            (at for at in (self._circuit.reopens_at, *self._chats_rest_until.values()) if at > now), default=None
        )

    # --- one reply

    async def send(self, claim: ReplyClaim, asked_at: Instant) -> None:
        """Send the pieces of a claimed reply. `asked_at` is the time of the claim request; an old claim may be lost."""
        able = self._channel.capabilities
        self._rest(claim.chat, able.chat_interval_ms)
        pieces = split(claim.text, able.text_chars_max, able.text_length)
        while True:
            if self._ports.clock.now() - asked_at > self._policy.send_within_ms:
                await self._keep(claim, untried(claim))
                return
            outcome = await self._post(claim, pieces)
            settlement = after_send(
                claim,
                outcome,
                parts=len(pieces),
                on_doubt=self.on_doubt,
                nonce_lasts_ms=able.nonce_lasts_ms,
                pace_ms=able.chat_interval_ms,
                elapsed_ms=self._ports.clock.now() - asked_at,
                policy=self._policy,
                chance=self._ports.entropy.fraction(),
            )
            if not isinstance(outcome, Sent):
                settlement = replace(settlement, vendor=outcome.vendor)
            self._learn(claim, outcome)
            asked_at = self._ports.clock.now()
            if await self._keep(claim, settlement) is not Kept.GOES_ON:
                return
            claim = claim.after(settlement)

    async def _post(self, claim: ReplyClaim, pieces: tuple[str, ...]) -> SendOutcome:
        if claim.part >= len(pieces):
            return Declined("there is nothing in it to send") if not pieces else Sent("")
        post, wait_ms = claim.post(pieces), self._policy.send_wait_ms
        try:
            with span(
                POST,
                self.key.channel,
                gen_ai_agent_name=self.key.agent,
                holdfast_reply_id=claim.id,
                holdfast_reply_attempt=claim.attempt,
            ) as seen:
                async with asyncio.timeout(wait_ms / 1000):
                    outcome = await (self._edit(claim, post) if claim.edits else self._channel.send(post))
                seen.note(holdfast_reply_outcome=type(outcome).__name__)
                return outcome if isinstance(outcome, SendOutcome) else Doubtful(NO_OUTCOME)
        except TimeoutError:
            return Doubtful(f"no answer within {wait_ms} ms")
        except asyncio.CancelledError:
            if is_cancelled_from_outside():
                raise
            return Doubtful("the channel cancelled its own work")
        except Exception as error:  # noqa: BLE001 - third-party code: its effect is unknown
            log.error("reply.failed", failure=error, channel=self.key.channel, agent=self.key.agent, reply=post.reply)
            return Doubtful(f"the channel's code failed: {type(error).__name__}")

    async def _edit(self, claim: ReplyClaim, post: Post) -> SendOutcome:
        if not isinstance(self._channel, Editing):
            return Declined("the channel edits no messages")
        return await self._channel.edit(post.address, claim.draft, post.text)

    def _learn(self, claim: ReplyClaim, outcome: SendOutcome) -> None:
        """Update the rate limits of the chat and of the account, and the failure count, from an outcome."""
        self._rest(claim.chat, self._channel.capabilities.chat_interval_ms)
        match outcome:
            case NotSent(retry_after_ms=wait_ms, whole_account=True) if wait_ms:
                self._circuit.wait(self._ports.clock.now(), wait_ms)
            case NotSent(retry_after_ms=wait_ms) if wait_ms:
                self._rest(claim.chat, wait_ms)
            case NotSent():
                self._circuit.failed(self._ports.clock.now(), self._ports.entropy.fraction())
            case Sent() | Declined():
                self._circuit.succeeded()

    def _rest(self, chat: str, wait_ms: int) -> None:
        if wait_ms:
            self._chats_rest_until[chat] = Instant(self._ports.clock.now() + wait_ms)

    # --- settling

    async def give_back(self, claim: ReplyClaim, reason: str) -> None:
        """End a claim whose sending failed with a bug: the reply is uncertain, because it may have been posted."""
        doubts = min(claim.doubts + 1, BEYOND_DOUBT)
        await self._keep(
            claim, ReplySettlement(state=ReplyState.UNCERTAIN, part=claim.part, doubts=doubts, reason=reason)
        )

    async def _keep(self, claim: ReplyClaim, settlement: ReplySettlement) -> Kept:
        """Store a settlement, retrying while the store is unavailable: until then the chat's next reply must wait."""
        attempt = 0
        while True:
            try:
                kept = await self._ports.db.write(settle_reply(claim, settlement))
            except HoldfastError as error:
                attempt += 1
                log.warning("loop.failed", loop="reply_sender", code=error.code, why=str(error))
                await self._ports.tasks.sleep(self._unsettled.delay_ms(attempt, self._ports.entropy.fraction()))
            else:
                break
        if kept is Kept.VOID:
            log.info("reply.lost", reply=claim.id, attempt=claim.attempt)
        elif settlement.state is ReplyState.PENDING:
            self._ports.notifier.wake_in(Topic.REPLY, settlement.delay_ms, self.key)
        if kept is not Kept.VOID:
            self._note(claim, settlement)
        return kept

    def _note(self, claim: ReplyClaim, settlement: ReplySettlement) -> None:
        fields: dict[str, object] = {
            "reply": claim.id,
            "agent": self.key.agent,
            "channel": self.key.channel,
            "state": settlement.state.value,
            "attempt": claim.attempt,
            "parts_sent": settlement.part,
            "retry_in_ms": settlement.delay_ms or None,
        }
        log.info("reply.settled", **fields, why=settlement.reason, **settlement.vendor.fields)
        if settlement.state not in {ReplyState.ATTEMPTING, ReplyState.PENDING}:
            self._ports.notifier.publish(Event(name="reply.settled", messages=(claim.message,), fields=fields))


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
            if (rested_at := sender.rested_at()) is not None:
                self._ports.notifier.wake_in(Topic.REPLY, rested_at - self._ports.clock.now(), group)
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
