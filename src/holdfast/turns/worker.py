"""The worker: claims mailboxes and serves each in its own task, a bounded number at a time."""

import asyncio

from holdfast.inbox.mailbox import Claim
from holdfast.kernel import log
from holdfast.kernel.errors import ClaimLost, HoldfastError, InvariantBroken
from holdfast.kernel.ids import Instant
from holdfast.kernel.loop import Loop
from holdfast.kernel.notifier import Event, Topic
from holdfast.kernel.retry import RetryPolicy
from holdfast.kernel.tasks import Task
from holdfast.sessions.history_sql import next_ready
from holdfast.store.membership import Member
from holdfast.store.node_sql import release_claim
from holdfast.store.ports import Ports
from holdfast.turns.context_cache import ContextCache
from holdfast.turns.interruption import MailboxWatch
from holdfast.turns.mailbox_processor import MailboxProcessor
from holdfast.turns.turn_limit import TURNS_MAX, TurnLimit
from holdfast.turns.work import ClaimedWork, Work
from holdfast.turns.work_sql import claim_work

CLAIMS_AT_ONCE_MAX = 16  # one commit claims all mailboxes that became ready together
POLL_MS = 1_000
LIMIT_LOOK_MS = 50  # how often a worker without capacity looks whether the limit has risen
POLL_MS_MIN = 20  # keeps the loop from spinning on a ready mailbox that cannot be claimed
RETRY_MS_MAX = 30_000
LOST_PAUSE_MS = 1_000


class Worker(Loop):
    name = "worker"

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
        super().__init__(ports.tasks, ports.entropy)
        self._ports = ports
        self._contexts = contexts
        self._processor = processor
        self._member = member
        self._turns_max = turns_max
        self._limit = limit
        self._waiting = 0  # turns that wait for a model, a tool or memory
        self._serving: dict[Claim, Task] = {}
        self._freed = asyncio.Event()
        self._backoff = RetryPolicy(delay_ms_base=250, delay_ms_max=RETRY_MS_MAX)
        self._failures: dict[str, int] = {}
        self._claim_name, self._claim_limit = "", 0
        self._opens = True  # False after a claim that failed because of one mailbox: the next one opens no turn
        self._ready_at: Instant | None = None  # when a free mailbox becomes ready, as far as this process knows
        self._unreleased: dict[Claim, int] = {}  # claims whose release failed
        self._stirred: set[str] = set()  # mailboxes that accepted a message since the newest claim began
        ports.notifier.tap(self._hear)

    @property
    def serving(self) -> int:
        return len(self._serving)

    async def step(self) -> bool:
        limit = min(CLAIMS_AT_ONCE_MAX, await self._capacity())
        if self.stopping:  # it was stopped during the wait
            return False
        for late, retry_in_ms in list(self._unreleased.items()):
            await self._ports.db.write(release_claim(late, retry_in_ms=retry_in_ms))
            del self._unreleased[late]
        # The request keeps its name until a result arrives, so a retry returns the claims of a lost result.
        if not self._claim_name:
            self._claim_name, self._claim_limit = self._ports.new_id("claim"), limit
        claimed = await self._claim()
        self._claim_name, self._ready_at = "", claimed.ready_at
        for work in claimed.work:
            claim = work.claim
            watch = MailboxWatch(self._ports, claim, is_news=claim.mailbox in self._stirred, wait=self._wait)
            self._serving[claim] = self._ports.tasks.start(self._serve(work, watch), name=f"serve {claim.mailbox}")
        return len(claimed.work) == self._claim_limit

    async def _claim(self) -> ClaimedWork:
        """Claim ready mailboxes and open their turns.

        If that fails because of one mailbox, the next attempt only claims. Then each mailbox fails by itself.
        """
        self._stirred.clear()
        planner = self._processor if self._opens else None
        self._opens = True
        claiming = claim_work(
            self._member.node, planner, self._contexts.get, name=self._claim_name, limit=self._claim_limit
        )
        try:
            return await self._ports.db.write(claiming)
        except InvariantBroken:
            self._opens = planner is None
            raise

    async def _capacity(self) -> int:
        """The number of mailboxes that may be claimed now; waits while there is no capacity. Running turns continue."""
        while (free := self._free()) <= 0 and not self.stopping:
            self._freed.clear()
            try:
                async with asyncio.timeout(LIMIT_LOOK_MS / 1000):
                    await self._freed.wait()
            except TimeoutError:
                continue  # the limit may have risen
        return free

    def _free(self) -> int:
        active_max = self._limit.active_max(self._ports.clock.now())
        return min(self._turns_max - len(self._serving), active_max - (len(self._serving) - self._waiting))

    def _wait(self, change: int) -> None:
        """A turn began (1) or ended (-1) to wait for a model, a tool or memory."""
        self._waiting += change
        if change > 0:
            self._freed.set()

    def _is_enough(self, taken: int) -> bool:
        """While turns are limited, a mailbox is released after every turn and queues for its next one."""
        return self.stopping or (taken > 0 and self._limit.is_reduced(self._ports.clock.now()))

    async def rest(self) -> None:
        """Wait until this process accepts mail or releases some, or another mailbox is ready."""
        while not self.stopping:
            ready_at, now = self._ready_at, self._ports.clock.now()
            wait_ms = POLL_MS if ready_at is None else max(POLL_MS_MIN, min(POLL_MS, ready_at - now))
            if await self._ports.notifier.wait(Topic.MAIL, timeout_ms=wait_ms):
                return
            self._ready_at = await self._ports.db.read(next_ready())  # another process may have accepted mail
            if self._ready_at is not None and self._ready_at <= self._ports.clock.now():
                return

    def _hear(self, event: Event) -> None:
        if event.name == "message.accepted":
            self._stirred.add(event.mailbox)

    async def _serve(self, work: Work, watch: MailboxWatch) -> None:
        """Serve one claim to its end. An exception affects this mailbox only."""
        claim, is_empty = work.claim, False
        with log.pinned(mailbox=claim.mailbox, fence=claim.fence):
            try:
                log.info("claim.taken", agent=claim.agent)
                released = await self._processor.serve(work, watch, self._is_enough)
                if released is None:
                    await self._ports.db.write(release_claim(claim))
                is_empty = released is not None and released.waiting <= 0
                self._failures.pop(claim.mailbox, None)
            except ClaimLost as lost:
                log.info("claim.lost", why=str(lost))
                # A claim without a server must not stay taken. The store ignores the release of a void claim.
                await self._release(claim, LOST_PAUSE_MS)
            except Exception as error:  # noqa: BLE001
                await self._give_back(claim, error)
            finally:
                watch.close()
                self._serving.pop(claim, None)
                self._freed.set()
                if not is_empty:
                    self._ports.notifier.wake(Topic.MAIL)

    async def _give_back(self, claim: Claim, error: Exception) -> None:
        failures = self._failures[claim.mailbox] = self._failures.get(claim.mailbox, 0) + 1
        retry_in_ms = self._backoff.delay_ms(failures, self._ports.entropy.fraction())
        code = error.code if isinstance(error, HoldfastError) else type(error).__name__
        known = isinstance(error, HoldfastError)
        log.error(
            "claim.failed",
            failure=None if known else error,
            code=code,
            why=str(error),
            retry_in_ms=retry_in_ms,
        )
        await self._release(claim, retry_in_ms)

    async def _release(self, claim: Claim, retry_in_ms: int) -> None:
        try:
            await self._ports.db.write(release_claim(claim, retry_in_ms=retry_in_ms))
        except HoldfastError as failed:
            self._unreleased[claim] = retry_in_ms
            log.error("claim.failed", code=failed.code, why=str(failed))

    async def drain(self, grace_ms: int) -> None:
        """Let running turns end within the grace period; the rest are cancelled and resumed after the restart."""
        try:
            async with asyncio.timeout(grace_ms / 1000):
                while self._serving:
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            self.cut_off()

    def cut_off(self) -> None:
        for task in list(self._serving.values()):
            task.cancel()
