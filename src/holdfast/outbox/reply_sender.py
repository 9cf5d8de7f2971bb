"""The postman: takes replies that are due, chat by chat and in order, and has them posted.

Every bot account goes at its own pace: one that is slow fills its own places, one that is away costs a probe now and
then, and a chat that must wait holds up nobody else (D26).
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
    name = "postman"

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
        self._posters: dict[ChannelKey, AccountSender] = {}
        self._calls = 0
        self._next_due: Instant | None = None
        self._ended = asyncio.Event()

    async def step(self) -> bool:
        """Replies for every account that has room; True when any was taken."""
        due = await self._ports.db.read(next_reply_due())
        now, taken = self._ports.clock.now(), False
        self._next_due = min((at for at in due.values() if at > now), default=None)
        ready = [ChannelKey(*key) for key, at in due.items() if at <= now]
        unheard = [key for key, poster in self._posters.items() if poster.claim_name]
        for key in dict.fromkeys((*ready, *unheard)):
            poster = self._poster(key)
            if poster is not None and (poster.room or poster.claim_name):
                taken = await self._claim(poster) or taken
        return taken

    async def _claim(self, poster: AccountSender) -> bool:
        # The name is kept until an answer is heard: replies whose claim was lost are given again, not left taken.
        poster.claim_name = poster.claim_name or self._ports.new_id("post")
        asked_at = self._ports.clock.now()
        claims = await self._ports.db.write(
            claim_replies(
                self._member.node,
                poster.key.agent,
                poster.key.channel,
                name=poster.claim_name,
                limit=poster.room,
                on_doubt=poster.on_doubt,
                resting=poster.resting(),
            )
        )
        poster.claim_name = ""
        for claim in claims:
            self._calls += 1
            poster.sending[self._calls] = self._ports.tasks.start(
                self._run(poster, self._calls, claim, asked_at), name=f"post {claim.id}"
            )
        return bool(claims)

    async def _run(self, poster: AccountSender, call: int, claim: ReplyClaim, asked_at: Instant) -> None:
        """One reply, to its end. A top of its own: whatever is raised here concerns this reply only."""
        with log.pinned(channel=poster.key.channel, agent=poster.key.agent, reply=claim.id):
            try:
                await poster.send(claim, asked_at)
            except Exception as error:  # noqa: BLE001
                log.error("loop.failed", failure=error, loop=self.name, code=type(error).__name__, why=str(error))
                await poster.give_back(claim, f"it could not be sent: {type(error).__name__}")
            finally:
                poster.sending.pop(call, None)
                self._ended.set()
                self._ports.notifier.wake(Topic.REPLY)

    def _poster(self, key: ChannelKey) -> AccountSender | None:
        """None for an account that is not configured (any more), or whose agent is not: its replies wait."""
        if key not in self._posters and (channel := self._channels.get(*key)) is not None:
            try:
                on_doubt = self._agents.policy(key.agent).on_doubt
            except AgentNotFound:
                return None
            self._posters[key] = AccountSender(key, channel, self._ports, self._policy, on_doubt=on_doubt)
        return self._posters.get(key)

    async def rest(self) -> None:
        """Until something is due or rested, as the step before has just seen; whoever commits a reply rings."""
        await self._ports.notifier.wait(Topic.REPLY, timeout_ms=self._wait_ms(self._wakes()))

    def _wakes(self) -> Iterable[Instant]:
        rested = (poster.rested_at() for poster in self._posters.values())
        return (at for at in (self._next_due, *rested) if at is not None)

    def _wait_ms(self, wakes: Iterable[Instant]) -> int:
        soonest = min(wakes, default=None)
        return POLL_MS if soonest is None else max(POLL_MS_MIN, min(POLL_MS, soonest - self._ports.clock.now()))

    async def drain(self, grace_ms: int) -> None:
        """Let what is being sent end within the grace; what is cut off is in doubt, what waits goes out later."""
        try:
            async with asyncio.timeout(grace_ms / 1000):
                while any(poster.sending for poster in self._posters.values()):
                    self._ended.clear()
                    await self._ended.wait()
        except TimeoutError:
            self.cut_off()

    def cut_off(self) -> None:
        for poster in self._posters.values():
            for task in list(poster.sending.values()):
                task.cancel()
