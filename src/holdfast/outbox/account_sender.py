"""The account sender: sends the replies of one bot account, piece by piece, and stores the outcome of each piece.

The rate-limit state (recently used chats, the account's next allowed send) is in RAM only: after a restart the platform
reports its limits again.
"""

import asyncio
from dataclasses import replace

from holdfast.inbox.channel import Channel, Editing
from holdfast.inbox.channels import ChannelKey
from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.ids import Instant
from holdfast.kernel.notifier import Event, Topic
from holdfast.kernel.retry import CircuitBreaker, RetryPolicy
from holdfast.kernel.spans import POST, span
from holdfast.outbox.post import Declined, Doubtful, NotSent, OnDoubt, Post, ReplyState, SendOutcome, Sent
from holdfast.outbox.reply import (
    BEYOND_DOUBT,
    Kept,
    ReplyClaim,
    ReplySettlement,
    SendPolicy,
    after_send,
    untried,
)
from holdfast.outbox.reply_sql import settle_reply
from holdfast.outbox.splitting import split
from holdfast.store.ports import Ports
from holdfast.turns.model_call import is_cancelled_from_outside
from holdfast.turns.policy import DAY_MS

NO_OUTCOME = "the channel's code failed: it did not say what became of it"
NEVER_DOUBLES_MS = DAY_MS  # a platform that remembers nonces for this long never posts a piece twice


class AccountSender:
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
            return self._raised(post, error)

    async def _edit(self, claim: ReplyClaim, post: Post) -> SendOutcome:
        if not isinstance(self._channel, Editing):
            return Declined("the channel edits no messages")
        return await self._channel.edit(post.address, claim.draft, post.text)

    def _raised(self, post: Post, error: Exception) -> Doubtful:
        log.error("reply.failed", failure=error, channel=self.key.channel, agent=self.key.agent, reply=post.reply)
        return Doubtful(f"the channel's code failed: {type(error).__name__}")

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
