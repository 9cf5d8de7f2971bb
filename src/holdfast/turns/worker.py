"""The worker: claims mailboxes and serves each in its own task, a bounded number at a time."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import NamedTuple

from holdfast.inbox.mailbox import Claim
from holdfast.inbox.mailbox_sql import release_claim
from holdfast.kernel import log
from holdfast.kernel.errors import ClaimLost, HoldfastError, InvariantBroken
from holdfast.kernel.loop import Batch, ClaimLoop
from holdfast.kernel.notifier import Event, Topic
from holdfast.kernel.retry import RetryPolicy
from holdfast.store.membership import Member
from holdfast.store.ports import Ports
from holdfast.turns.context_cache import ContextCache
from holdfast.turns.mailbox_processor import MailboxProcessor
from holdfast.turns.turn_run import MailboxWatch
from holdfast.turns.work_sql import Work, claim_work

ALL = "mailboxes"  # the one group: the store chooses among all of them
CLAIMS_AT_ONCE_MAX = 16  # one commit claims all mailboxes that became ready together
LIMIT_LOOK_MS = 50  # how often a worker without capacity looks whether the limit has risen
RETRY_MS_MAX = 30_000
LOST_PAUSE_MS = 1_000
TURNS_MAX = 64  # claimed mailboxes of one process, those that wait included
SLOW_MS = 12  # an accept that takes longer lowers the limit
DECREASE = 0.6
INCREASE = 0.5  # divided by the limit: the lower it is, the quicker it rises
ACTIVE_MIN = 4
DECREASE_EVERY_MS = 20  # the accepts of one commit are slow together and count once
CALM_MS = 500  # without a message for this long, there is no limit to observe


class TurnLimit:
    """How many turns may use the processor at once, decided by how long accepting a message takes.

    A sender waits while a message is accepted; a turn waits for a model anyway. So the limit falls while accepting is
    slow and rises while it is quick (additive increase, multiplicative decrease). A turn that waits for a model, a tool
    or memory uses no processor and does not count. The limit never falls below a few turns: where every commit is slow,
    holding turns back would make nothing quicker.
    """

    def __init__(self, turns_max: int = TURNS_MAX) -> None:
        self._turns_max = turns_max
        self._active_max = float(turns_max)
        self._decreased_at = 0
        self._accepted_at = 0

    def accepted(self, now: int, took_ms: int) -> None:
        """Note how long the store took to accept a message."""
        self._active_max = self._current(now)
        self._accepted_at = now
        if took_ms <= SLOW_MS:
            self._active_max = min(self._turns_max, self._active_max + INCREASE / self._active_max)
        elif not 0 <= now - self._decreased_at < DECREASE_EVERY_MS:
            self._decreased_at = now
            self._active_max = max(min(ACTIVE_MIN, self._turns_max), self._active_max * DECREASE)

    def active_max(self, now: int) -> int:
        """The number of turns that may be active now."""
        return int(self._current(now))

    def is_reduced(self, now: int) -> bool:
        return self.active_max(now) < self._turns_max

    def _current(self, now: int) -> float:
        is_calm = not 0 <= now - self._accepted_at < CALM_MS
        return float(self._turns_max) if is_calm else self._active_max


class WatchedWork(NamedTuple):
    """A claimed mailbox, watched from the instant of its claim."""

    work: Work
    watch: MailboxWatch


class Worker(ClaimLoop[str, WatchedWork]):
    name = "worker"
    topic = Topic.MAIL

    def __init__(
        self,
        ports: Ports,
        contexts: ContextCache,
        *,
        processor: MailboxProcessor,
        member: Member,
        limit: TurnLimit,
        turns_max: int = TURNS_MAX,
    ) -> None:
        super().__init__(ports.tasks, ports.entropy, ports.notifier, ports.new_id)
        self._ports = ports
        self._contexts = contexts
        self._processor = processor
        self._member = member
        self._limit = limit
        self._turns_max = turns_max
        self._waiting = 0  # turns that wait for a model, a tool or memory
        self._backoff = RetryPolicy(delay_ms_base=250, delay_ms_max=RETRY_MS_MAX)
        self._failures: dict[str, int] = {}
        self._claim_limit = 0  # of the newest request
        self._opens = True  # False after a claim that failed because of one mailbox: the next one opens no turn
        self._unreleased: dict[Claim, int] = {}  # claims whose release failed
        self._stirred: set[str] = set()  # mailboxes that accepted a message since the newest claim began
        ports.notifier.tap(self._hear)

    # --- claiming

    async def look(self) -> Iterable[str]:
        for late, retry_in_ms in list(self._unreleased.items()):
            await self._ports.db.write(release_claim(late, retry_in_ms=retry_in_ms))
            del self._unreleased[late]
        return (ALL,)

    def room(self, group: str) -> int:  # noqa: ARG002
        active_max = self._limit.active_max(self._ports.clock.now())
        free = min(self._turns_max - len(self.running), active_max - (len(self.running) - self._waiting))
        return min(CLAIMS_AT_ONCE_MAX, free)

    def wait_ms(self) -> float:
        return LIMIT_LOOK_MS if self.due else super().wait_ms()

    async def claim(self, group: str, name: str, *, repeated: bool) -> Batch[WatchedWork]:
        """Claim ready mailboxes and open their turns.

        If that fails because of one mailbox, the next attempt only claims. Then each mailbox fails by itself.
        """
        limit = self._claim_limit = self._claim_limit if repeated else self.room(group)
        planner = self._processor if self._opens else None
        self._opens = True
        self._stirred.clear()
        try:
            taken = await self._ports.db.write(
                claim_work(self._member.node, planner, self._contexts.get, name=name, limit=limit)
            )
        except InvariantBroken:
            self._opens = planner is None
            raise
        watched = []
        for work in taken:
            is_news = work.claim.mailbox in self._stirred
            watch = MailboxWatch(self._ports, work.claim, is_news=is_news, wait=self._wait)
            watched.append(WatchedWork(work, watch))
        return Batch(watched, more=len(taken) == limit)

    def _hear(self, event: Event) -> None:
        if event.name == "message.accepted":
            self._stirred.add(event.mailbox)

    def _wait(self, change: int) -> None:
        """A turn began (1) or ended (-1) to wait for a model, a tool or memory."""
        self._waiting += change
        if change > 0 and self.due:
            self._ports.notifier.nudge(Topic.MAIL)

    # --- serving

    def pinned(self, group: str, claim: WatchedWork) -> AbstractContextManager[object]:  # noqa: ARG002
        return log.pinned(mailbox=claim.work.claim.mailbox, fence=claim.work.claim.fence)

    async def serve(self, group: str, claim: WatchedWork) -> None:  # noqa: ARG002
        held = claim.work.claim
        try:
            log.info("claim.taken", agent=held.agent)
            released = await self._processor.serve(claim.work, claim.watch, self._is_enough)
            if released is None:
                await self._ports.db.write(release_claim(held))
            self._failures.pop(held.mailbox, None)
            if released is None or released.waiting > 0:
                self._ports.notifier.wake(Topic.MAIL)
        except ClaimLost as lost:
            log.info("claim.lost", why=str(lost))
            # A claim without a server must not stay taken. The store ignores the release of a void claim.
            await self._release(held, LOST_PAUSE_MS)
        finally:
            claim.watch.close()

    def _is_enough(self, taken: int) -> bool:
        """While turns are limited, a mailbox is released after every turn and queues for its next one."""
        return self.stopping or (taken > 0 and self._limit.is_reduced(self._ports.clock.now()))

    def tell(self, error: Exception) -> None:
        """`give_back` logs the error, with the time of the retry."""

    async def give_back(self, group: str, claim: WatchedWork, error: Exception) -> None:  # noqa: ARG002
        held = claim.work.claim
        failures = self._failures[held.mailbox] = self._failures.get(held.mailbox, 0) + 1
        retry_in_ms = self._backoff.delay_ms(failures, self._ports.entropy.fraction())
        code = error.code if isinstance(error, HoldfastError) else type(error).__name__
        failure = None if isinstance(error, HoldfastError) else error
        log.error("claim.failed", failure=failure, code=code, why=str(error), retry_in_ms=retry_in_ms)
        await self._release(held, retry_in_ms)

    async def _release(self, claim: Claim, retry_in_ms: int) -> None:
        try:
            await self._ports.db.write(release_claim(claim, retry_in_ms=retry_in_ms))
            self._ports.notifier.wake_in(Topic.MAIL, retry_in_ms)
        except HoldfastError as failed:
            self._unreleased[claim] = retry_in_ms
            self._ports.notifier.wake(Topic.MAIL)
            log.error("claim.failed", code=failed.code, why=str(failed))
