"""The dispatcher: claims lanes whose heads are due and starts provider deliveries, a bounded number per provider.

Providers are independent: a slow provider uses only its own calls, a dead provider opens its own circuit, and neither
delays another provider, a session or a turn (R8). A lost index of a provider is rebuilt from the journal while none of
its calls runs: the rebuild would miss a delivery that is not settled yet.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.ids import Instant
from holdfast.kernel.loop import Loop
from holdfast.kernel.notifier import Event, Topic
from holdfast.kernel.tasks import Task
from holdfast.memory.cursor_sql import next_overdue, schedule_overdue
from holdfast.memory.delivery_call import ProviderDelivery
from holdfast.memory.lane import DispatchPolicy, LaneClaim, LaneKey
from holdfast.memory.lane_sql import claim_lanes, list_lane_keys, next_due
from holdfast.memory.provider import Indexed
from holdfast.memory.providers import Providers
from holdfast.store.membership import Member
from holdfast.store.ports import Ports

POLL_MS = 1_000
POLL_MS_MIN = 20
SCAN_EVERY_MS = 15_000  # interval of the search for lanes of agents that this process has not used
OVERDUE_EVERY_MS = 5_000
OVERDUE_BATCH = 100
Refill: TypeAlias = Callable[[LaneKey], Awaitable[int | None]]  # number of parcels; None if nothing was missing


class Dispatcher(Loop):
    name = "dispatcher"

    def __init__(
        self,
        ports: Ports,
        *,
        providers: Providers,
        member: Member,
        policy: DispatchPolicy | None = None,
        refill: Refill | None = None,
    ) -> None:
        super().__init__(ports.tasks, ports.entropy)
        self._ports = ports
        self._providers = providers
        self._member = member
        self._policy = policy or DispatchPolicy()
        self._deliveries: dict[LaneKey, ProviderDelivery] = {}
        self._refill = refill
        self._refilling: dict[LaneKey, Task] = {}
        self._checked: set[LaneKey] = set()
        self._has_scanned = False
        self._calls = 0
        self._next_due: Instant | None = None
        self._ended = asyncio.Event()
        self._scanned_at = self._overdue_at = -SCAN_EVERY_MS

    async def step(self) -> bool:
        now = self._ports.clock.now()
        for key in self._providers.lane_keys():
            self._delivery_to(key)
        if now - self._scanned_at >= SCAN_EVERY_MS:
            self._scanned_at = now
            # The first scan includes lanes without work: an index may have been lost while no process ran.
            for key in await self._ports.db.read(list_lane_keys(ever=not self._has_scanned)):
                self._delivery_to(key)
            self._has_scanned = True
            for key in self._deliveries:
                self._check_index(key)
        if now - self._overdue_at >= OVERDUE_EVERY_MS:
            self._overdue_at = now
            due_at = await self._ports.db.read(next_overdue())
            if due_at is not None and due_at <= now:
                await self._ports.db.write(schedule_overdue(limit=OVERDUE_BATCH))
        return await self._take()

    async def _take(self) -> bool:
        """Claim lanes for every provider with free calls; True if any was claimed."""
        able = [delivery for key, delivery in self._deliveries.items() if delivery.room and key not in self._refilling]
        due = await self._ports.db.read(next_due([delivery.key for delivery in able]))
        self._next_due = min((at for at in due if at is not None), default=None)
        now, taken = self._ports.clock.now(), False
        for delivery, due_at in zip(able, due, strict=True):
            if (due_at is not None and due_at <= now) or delivery.claim_name:
                taken = await self._claim(delivery) or taken
        return taken

    async def _claim(self, delivery: ProviderDelivery) -> bool:
        able = delivery.provider.capabilities
        # The name is kept until the store answers: if the answer is lost, the next claim returns the same lanes.
        delivery.claim_name = delivery.claim_name or self._ports.new_id("lane")
        asked_at = self._ports.clock.now()
        claims = await self._ports.db.write(
            claim_lanes(
                self._member.node,
                delivery.key,
                name=delivery.claim_name,
                lanes=able.lanes_per_call,
                units=able.units_per_lane,
                renderer=able.renderer,
                passing=able.notes_pass,
            )
        )
        delivery.claim_name = ""
        if claims:
            self._calls += 1
            call = self._calls
            delivery.calls[call] = self._ports.tasks.start(
                self._run(delivery, call, claims, asked_at), name=f"carry {delivery.key}"
            )
        return bool(claims)

    async def _run(self, delivery: ProviderDelivery, call: int, claims: Sequence[LaneClaim], taken_at: Instant) -> None:
        """Make one call. An exception affects its lanes only."""
        with log.pinned(provider=delivery.key.provider, agent=delivery.key.agent):
            try:
                await delivery.carry(claims, taken_at)
            except Exception as error:  # noqa: BLE001
                log.error("loop.failed", failure=error, loop=self.name, code=type(error).__name__, why=str(error))
                await delivery.give_back(claims)
            finally:
                delivery.calls.pop(call, None)
                self._ended.set()
                self._ports.notifier.wake(Topic.DELIVERY)

    def _check_index(self, key: LaneKey) -> None:
        """Check the provider's index once, and whenever the provider reports that it needs a rebuild."""
        provider = self._deliveries[key].provider
        if self._refill is None or not isinstance(provider, Indexed) or key in self._refilling:
            return
        if provider.needs_rebuild or key not in self._checked:
            self._checked.add(key)
            self._refilling[key] = self._ports.tasks.start(self._rebuild(key, self._refill), name=f"refill {key}")

    async def _rebuild(self, key: LaneKey, refill: Refill) -> None:
        """Rebuild an index after the running calls. A failed rebuild is retried at the next scan."""
        with log.pinned(provider=key.provider, agent=key.agent):
            try:
                while self._deliveries[key].calls:
                    self._ended.clear()
                    await self._ended.wait()
                parcels = await refill(key)
                if parcels is not None:
                    log.info("memory.refilled", parcels=parcels)
                    fields = {"provider": key.provider, "agent": key.agent, "parcels": parcels}
                    self._ports.notifier.publish(Event(name="memory.refilled", fields=fields))
            except Exception as error:  # noqa: BLE001
                self._checked.discard(key)
                known = isinstance(error, HoldfastError)
                code = error.code if isinstance(error, HoldfastError) else type(error).__name__
                log.error("loop.failed", failure=None if known else error, loop=self.name, code=code, why=str(error))
            finally:
                self._refilling.pop(key, None)
                self._ports.notifier.wake(Topic.DELIVERY)

    def _delivery_to(self, key: LaneKey) -> ProviderDelivery | None:
        if key not in self._deliveries and (provider := self._providers.get(key)) is not None:
            self._deliveries[key] = ProviderDelivery(self._ports, key, provider, policy=self._policy)
        return self._deliveries.get(key)

    async def rest(self) -> None:
        """Wait until a lane is due, or until a commit of a delivery wakes the topic."""
        due_at = self._next_due
        wait_ms = POLL_MS if due_at is None else max(POLL_MS_MIN, min(POLL_MS, due_at - self._ports.clock.now()))
        await self._ports.notifier.wait(Topic.DELIVERY, timeout_ms=wait_ms)

    async def drain(self, grace_ms: int) -> None:
        """Let running calls end within the grace period; other deliveries go out after the restart (R7)."""
        try:
            async with asyncio.timeout(grace_ms / 1000):
                while any(delivery.calls for delivery in self._deliveries.values()):
                    self._ended.clear()
                    await self._ended.wait()
        except TimeoutError:
            self.cut_off()

    def cut_off(self) -> None:
        for task in list(self._refilling.values()):
            task.cancel()
        for delivery in self._deliveries.values():
            for task in list(delivery.calls.values()):
                task.cancel()
