"""The reply sender: claims due replies, in order per chat, and passes them to the account senders.

Bot accounts are independent: a slow account uses only its own slots, an unreachable account costs an occasional probe,
and a waiting chat delays no other chat (D26).
"""

import asyncio
from collections.abc import Iterable

from holdfast.inbox.channels import ChannelKey, Channels
from holdfast.kernel import log
from holdfast.kernel.errors import AgentNotFound
from holdfast.kernel.ids import Instant
from holdfast.kernel.loop import Loop
from holdfast.kernel.notifier import Topic
from holdfast.outbox.account_sender import AccountSender
from holdfast.outbox.reply import ReplyClaim, SendPolicy
from holdfast.outbox.reply_sql import claim_replies, next_reply_due
from holdfast.store.membership import Member
from holdfast.store.ports import Ports
from holdfast.turns.agents import Agents

POLL_MS = 1_000
POLL_MS_MIN = 20


class ReplySender(Loop):
    name = "reply_sender"

    def __init__(
        self,
        ports: Ports,
        *,
        channels: Channels,
        agents: Agents,
        member: Member,
        policy: SendPolicy | None = None,
    ) -> None:
        super().__init__(ports.tasks, ports.entropy)
        self._ports = ports
        self._channels = channels
        self._agents = agents
        self._member = member
        self._policy = policy or SendPolicy()
        self._senders: dict[ChannelKey, AccountSender] = {}
        self._calls = 0
        self._next_due: Instant | None = None
        self._ended = asyncio.Event()

    async def step(self) -> bool:
        """Claim replies for every account with free slots; True if any was claimed."""
        due = await self._ports.db.read(next_reply_due())
        now, taken = self._ports.clock.now(), False
        self._next_due = min((at for at in due.values() if at > now), default=None)
        ready = [ChannelKey(*key) for key, at in due.items() if at <= now]
        unanswered = [key for key, sender in self._senders.items() if sender.claim_name]
        for key in dict.fromkeys((*ready, *unanswered)):
            sender = self._sender(key)
            if sender is not None and (sender.room or sender.claim_name):
                taken = await self._claim(sender) or taken
        return taken

    async def _claim(self, sender: AccountSender) -> bool:
        # The name is kept until the store answers: if the answer is lost, the next claim returns the same replies.
        sender.claim_name = sender.claim_name or self._ports.new_id("post")
        asked_at = self._ports.clock.now()
        claims = await self._ports.db.write(
            claim_replies(
                self._member.node,
                sender.key.agent,
                sender.key.channel,
                name=sender.claim_name,
                limit=sender.room,
                on_doubt=sender.on_doubt,
                resting=sender.resting(),
            )
        )
        sender.claim_name = ""
        for claim in claims:
            self._calls += 1
            sender.sending[self._calls] = self._ports.tasks.start(
                self._run(sender, self._calls, claim, asked_at), name=f"post {claim.id}"
            )
        return bool(claims)

    async def _run(self, sender: AccountSender, call: int, claim: ReplyClaim, asked_at: Instant) -> None:
        """Send one reply. An exception affects this reply only."""
        with log.pinned(channel=sender.key.channel, agent=sender.key.agent, reply=claim.id):
            try:
                await sender.send(claim, asked_at)
            except Exception as error:  # noqa: BLE001
                log.error("loop.failed", failure=error, loop=self.name, code=type(error).__name__, why=str(error))
                await sender.give_back(claim, f"it could not be sent: {type(error).__name__}")
            finally:
                sender.sending.pop(call, None)
                self._ended.set()
                self._ports.notifier.wake(Topic.REPLY)

    def _sender(self, key: ChannelKey) -> AccountSender | None:
        """The sender of an account; None if the account or its agent is not configured: its replies wait."""
        if key not in self._senders and (channel := self._channels.get(*key)) is not None:
            try:
                on_doubt = self._agents.policy(key.agent).on_doubt
            except AgentNotFound:
                return None
            self._senders[key] = AccountSender(key, channel, self._ports, self._policy, on_doubt=on_doubt)
        return self._senders.get(key)

    async def rest(self) -> None:
        """Wait until a reply is due, a pause ends, or a commit of a reply wakes the topic."""
        await self._ports.notifier.wait(Topic.REPLY, timeout_ms=self._wait_ms(self._wakes()))

    def _wakes(self) -> Iterable[Instant]:
        rested = (sender.rested_at() for sender in self._senders.values())
        return (at for at in (self._next_due, *rested) if at is not None)

    def _wait_ms(self, wakes: Iterable[Instant]) -> int:
        soonest = min(wakes, default=None)
        return POLL_MS if soonest is None else max(POLL_MS_MIN, min(POLL_MS, soonest - self._ports.clock.now()))

    async def drain(self, grace_ms: int) -> None:
        """Let running sends end within the grace period. A cancelled send is in doubt; pending replies go out later."""
        try:
            async with asyncio.timeout(grace_ms / 1000):
                while any(sender.sending for sender in self._senders.values()):
                    self._ended.clear()
                    await self._ended.wait()
        except TimeoutError:
            self.cut_off()

    def cut_off(self) -> None:
        for sender in self._senders.values():
            for task in list(sender.sending.values()):
                task.cancel()
