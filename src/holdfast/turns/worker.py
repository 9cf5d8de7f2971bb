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
from holdfast.store.membership import Member
from holdfast.store.node_sql import claim_mailboxes, release_claim
from holdfast.store.ports import Ports
from holdfast.turns.mailbox_processor import MailboxProcessor

TURNS_MAX = 64
CROWD_PAUSE_MS = 100  # times the value of `crowds`, before every turn that begins under load
CROWD_PAUSE_MS_MAX = 1_000
CLAIMS_AT_ONCE_MAX = 16  # one commit claims all mailboxes that became ready together
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
        self._freed = asyncio.Event()
        self._backoff = RetryPolicy(delay_ms_base=250, delay_ms_max=RETRY_MS_MAX)
        self._failures: dict[str, int] = {}
        self._claim_name, self._claim_limit = "", 0
        self._unreleased: dict[Claim, int] = {}  # claims whose release failed

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
        taken = await self._ports.db.write(
            claim_mailboxes(self._member.node, name=self._claim_name, limit=self._claim_limit)
        )
        self._claim_name = ""
        for claim in taken:
            self._serving[claim] = self._ports.tasks.start(self._serve(claim), name=f"serve {claim.mailbox}")
        return bool(taken)

    async def _capacity(self) -> int:
        """The number of mailboxes that may be claimed now; waits while there is no capacity.

        Under load the worker begins one turn at a time and pauses before each; the pause grows with the number of
        waiting messages. A delay in accepting a message keeps its sender waiting, while a new turn would wait for a
        model anyway. Running turns continue.
        """
        if len(self._serving) >= self._turns_max:
            self._freed.clear()
            await self._freed.wait()
        if crowds := self._crowds():
            await self._ports.tasks.sleep(min(CROWD_PAUSE_MS * crowds, CROWD_PAUSE_MS_MAX))
            return 1
        return self._turns_max - len(self._serving)

    def _is_enough(self, taken: int) -> bool:
        """Under load a mailbox is released after every turn and queues for its next one."""
        return self.stopping or (taken > 0 and self._crowds() > 0)

    async def rest(self) -> None:
        """Wait until mail is announced: by this process, or by the node's poll (store/membership.py)."""
        await self._ports.notifier.wait(Topic.MAIL)

    async def _serve(self, claim: Claim) -> None:
        """Serve one claim to its end. An exception affects this mailbox only."""
        with log.pinned(mailbox=claim.mailbox, fence=claim.fence):
            try:
                log.info("claim.taken", agent=claim.agent)
                await self._processor.serve(claim, self._is_enough)
                await self._ports.db.write(release_claim(claim))
                self._failures.pop(claim.mailbox, None)
            except ClaimLost as lost:
                log.info("claim.lost", why=str(lost))
                # A claim without a server must not stay taken. The store ignores the release of a void claim.
                await self._release(claim, LOST_PAUSE_MS)
            except Exception as error:  # noqa: BLE001
                await self._give_back(claim, error)
            finally:
                self._serving.pop(claim, None)
                self._freed.set()
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
            self._ports.notifier.wake_in(Topic.MAIL, retry_in_ms)
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
