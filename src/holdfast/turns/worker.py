"""The worker: claims mailboxes and serves each in its own task, a bounded number at a time."""

import asyncio
from collections.abc import Callable

from holdfast.inbox.mailbox import Claim
from holdfast.kernel import log
from holdfast.kernel.errors import ClaimLost, HoldfastError
from holdfast.kernel.loop import Loop
from holdfast.kernel.notifier import Topic
from holdfast.kernel.retry import RetryPolicy
from holdfast.kernel.tasks import Task
from holdfast.sessions.history_sql import next_ready
from holdfast.store.membership import Member
from holdfast.store.node_sql import claim_mailboxes, release_claim
from holdfast.store.ports import Ports
from holdfast.turns.mailbox_processor import MailboxProcessor

TURNS_MAX = 64
CROWD_PAUSE_MS = 100  # for each crowd, before every turn that begins while messages crowd in
CROWD_PAUSE_MS_MAX = 1_000
CLAIMS_AT_ONCE_MAX = 16  # one commit for as many mailboxes as became ready together
POLL_MS = 1_000
POLL_MS_MIN = 20  # a mailbox that is ready and cannot be claimed must not make the loop spin
RETRY_MS_MAX = 30_000
LOST_PAUSE_MS = 1_000


class Worker(Loop):
    name = "worker"

    def __init__(
        self,
        ports: Ports,
        *,
        processor: MailboxProcessor,
        member: Member,
        turns_max: int = TURNS_MAX,
        crowds: Callable[[], int] = lambda: 0,
    ) -> None:
        super().__init__(ports.tasks, ports.entropy)
        self._ports = ports
        self._processor = processor
        self._member = member
        self._turns_max = turns_max
        self._crowds = crowds
        self._serving: dict[Claim, Task] = {}
        self._room = asyncio.Event()
        self._backoff = RetryPolicy(delay_ms_base=250, delay_ms_max=RETRY_MS_MAX)
        self._failures: dict[str, int] = {}
        self._claim_name, self._claim_limit = "", 0
        self._unreleased: dict[Claim, int] = {}  # claims that the store did not take back yet

    @property
    def serving(self) -> int:
        return len(self._serving)

    async def step(self) -> bool:
        limit = min(CLAIMS_AT_ONCE_MAX, await self._room_for_more())
        if self.stopping:  # it was told so while it waited
            return False
        for late, retry_in_ms in list(self._unreleased.items()):
            await self._ports.db.write(release_claim(late, retry_in_ms=retry_in_ms))
            del self._unreleased[late]
        # The same is asked until an answer is heard: claims whose answer was lost are all given again, not left taken.
        if not self._claim_name:
            self._claim_name, self._claim_limit = self._ports.new_id("claim"), limit
        taken = await self._ports.db.write(
            claim_mailboxes(self._member.node, name=self._claim_name, limit=self._claim_limit)
        )
        self._claim_name = ""
        for claim in taken:
            self._serving[claim] = self._ports.tasks.start(self._serve(claim), name=f"serve {claim.mailbox}")
        return bool(taken)

    async def _room_for_more(self) -> int:
        """How many more mailboxes may be claimed now; waits while there is no room.

        While messages crowd in turns are begun one at a time, with a pause before each, longer in a larger crowd: a
        message that is taken in late is a sender who waits, a turn that begins late was going to wait for a model
        anyway. Turns under way go on.
        """
        if len(self._serving) >= self._turns_max:
            self._room.clear()
            await self._room.wait()
        if crowds := self._crowds():
            await self._ports.tasks.sleep(min(CROWD_PAUSE_MS * crowds, CROWD_PAUSE_MS_MAX))
            return 1
        return self._turns_max - len(self._serving)

    def _is_enough(self, taken: int) -> bool:
        """In a crowd a mailbox is given back after every turn and waits for its next one like all others."""
        return self.stopping or (taken > 0 and self._crowds() > 0)

    async def rest(self) -> None:
        ready_at = await self._ports.db.read(next_ready())
        wait_ms = POLL_MS if ready_at is None else max(POLL_MS_MIN, min(POLL_MS, ready_at - self._ports.clock.now()))
        await self._ports.notifier.wait(Topic.MAIL, timeout_ms=wait_ms)

    async def _serve(self, claim: Claim) -> None:
        """One claim, to its end. A top of its own: whatever is raised here concerns this mailbox only."""
        with log.pinned(mailbox=claim.mailbox, fence=claim.fence):
            try:
                log.info("claim.taken", agent=claim.agent)
                await self._processor.serve(claim, self._is_enough)
                await self._ports.db.write(release_claim(claim))
                self._failures.pop(claim.mailbox, None)
            except ClaimLost as lost:
                log.info("claim.lost", why=str(lost))
                # Void or not: a claim that nobody serves may not stay taken. A void one is passed over.
                await self._release(claim, LOST_PAUSE_MS)
            except Exception as error:  # noqa: BLE001
                await self._give_back(claim, error)
            finally:
                self._serving.pop(claim, None)
                self._room.set()
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
        """Let running turns end within the grace; what is left is cut off and resumed after the restart."""
        try:
            async with asyncio.timeout(grace_ms / 1000):
                while self._serving:
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            self.cut_off()

    def cut_off(self) -> None:
        for task in list(self._serving.values()):
            task.cancel()
