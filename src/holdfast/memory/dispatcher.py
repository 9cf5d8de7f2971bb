"""The courier: takes lanes whose heads are due and hands them to carriers, a bounded number per provider.

Each provider goes at its own pace: one that is slow fills its own calls, one that is dead opens its own circuit, and
neither keeps another provider, a session or a turn waiting (R8). A provider whose own index was lost gets everything
once more, between its deliveries: what is delivered and not yet settled would be missing from what the journal tells.
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
LOOK_ROUND_MS = 15_000  # how often agents are looked for that nobody in this process has spoken with
OVERDUE_EVERY_MS = 5_000
OVERDUE_BATCH = 100
Refill: TypeAlias = Callable[[LaneKey], Awaitable[int | None]]  # how many parcels; None when nothing was missing


class Dispatcher(Loop):
    name = "courier"

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
        self._carriers: dict[LaneKey, ProviderDelivery] = {}
        self._refill = refill
        self._refilling: dict[LaneKey, Task] = {}
        self._looked_into: set[LaneKey] = set()
        self._has_looked = False
        self._calls = 0
        self._next_due: Instant | None = None
        self._ended = asyncio.Event()
        self._looked_at = self._overdue_at = -LOOK_ROUND_MS

    async def step(self) -> bool:
        now = self._ports.clock.now()
        for key in self._providers.lane_keys():
            self._carrier(key)
        if now - self._looked_at >= LOOK_ROUND_MS:
            self._looked_at = now
            # First also at those whose work is done: an index may have been lost while no process was there.
            for key in await self._ports.db.read(list_lane_keys(ever=not self._has_looked)):
                self._carrier(key)
            self._has_looked = True
            for key in self._carriers:
                self._look_into(key)
        if now - self._overdue_at >= OVERDUE_EVERY_MS:
            self._overdue_at = now
            due_at = await self._ports.db.read(next_overdue())
            if due_at is not None and due_at <= now:
                await self._ports.db.write(schedule_overdue(limit=OVERDUE_BATCH))
        return await self._take()

    async def _take(self) -> bool:
        """Lanes for everybody who has room; True when any was taken."""
        able = [carrier for key, carrier in self._carriers.items() if carrier.room and key not in self._refilling]
        due = await self._ports.db.read(next_due([carrier.key for carrier in able]))
        self._next_due = min((at for at in due if at is not None), default=None)
        now, taken = self._ports.clock.now(), False
        for carrier, due_at in zip(able, due, strict=True):
            if (due_at is not None and due_at <= now) or carrier.claim_name:
                taken = await self._claim(carrier) or taken
        return taken

    async def _claim(self, carrier: ProviderDelivery) -> bool:
        able = carrier.provider.capabilities
        # The name is kept until an answer is heard: lanes whose claim was lost are given again, not left taken.
        carrier.claim_name = carrier.claim_name or self._ports.new_id("lane")
        asked_at = self._ports.clock.now()
        claims = await self._ports.db.write(
            claim_lanes(
                self._member.node,
                carrier.key,
                name=carrier.claim_name,
                lanes=able.lanes_per_call,
                units=able.units_per_lane,
                renderer=able.renderer,
                passing=able.notes_pass,
            )
        )
        carrier.claim_name = ""
        if claims:
            self._calls += 1
            call = self._calls
            carrier.calls[call] = self._ports.tasks.start(
                self._run(carrier, call, claims, asked_at), name=f"carry {carrier.key}"
            )
        return bool(claims)

    async def _run(self, carrier: ProviderDelivery, call: int, claims: Sequence[LaneClaim], taken_at: Instant) -> None:
        """One call, to its end. A top of its own: whatever is raised here concerns these lanes only."""
        with log.pinned(provider=carrier.key.provider, agent=carrier.key.agent):
            try:
                await carrier.carry(claims, taken_at)
            except Exception as error:  # noqa: BLE001
                log.error("loop.failed", failure=error, loop=self.name, code=type(error).__name__, why=str(error))
                await carrier.give_back(claims)
            finally:
                carrier.calls.pop(call, None)
                self._ended.set()
                self._ports.notifier.wake(Topic.DELIVERY)

    def _look_into(self, key: LaneKey) -> None:
        """Once, and whenever it says so itself: whether the provider's own index was lost."""
        provider = self._carriers[key].provider
        if self._refill is None or not isinstance(provider, Indexed) or key in self._refilling:
            return
        if provider.needs_rebuild or key not in self._looked_into:
            self._looked_into.add(key)
            self._refilling[key] = self._ports.tasks.start(self._fill_again(key, self._refill), name=f"refill {key}")

    async def _fill_again(self, key: LaneKey, refill: Refill) -> None:
        """A top of its own. What is broken off is begun again at the next look round."""
        with log.pinned(provider=key.provider, agent=key.agent):
            try:
                while self._carriers[key].calls:
                    self._ended.clear()
                    await self._ended.wait()
                parcels = await refill(key)
                if parcels is not None:
                    log.info("memory.refilled", parcels=parcels)
                    fields = {"provider": key.provider, "agent": key.agent, "parcels": parcels}
                    self._ports.notifier.publish(Event(name="memory.refilled", fields=fields))
            except Exception as error:  # noqa: BLE001
                self._looked_into.discard(key)
                known = isinstance(error, HoldfastError)
                code = error.code if isinstance(error, HoldfastError) else type(error).__name__
                log.error("loop.failed", failure=None if known else error, loop=self.name, code=code, why=str(error))
            finally:
                self._refilling.pop(key, None)
                self._ports.notifier.wake(Topic.DELIVERY)

    def _carrier(self, key: LaneKey) -> ProviderDelivery | None:
        if key not in self._carriers and (provider := self._providers.get(key)) is not None:
            self._carriers[key] = ProviderDelivery(self._ports, key, provider, policy=self._policy)
        return self._carriers.get(key)

    async def rest(self) -> None:
        """Until something is due, as the step before has just seen; whoever makes something due rings."""
        due_at = self._next_due
        wait_ms = POLL_MS if due_at is None else max(POLL_MS_MIN, min(POLL_MS, due_at - self._ports.clock.now()))
        await self._ports.notifier.wait(Topic.DELIVERY, timeout_ms=wait_ms)

    async def drain(self, grace_ms: int) -> None:
        """Let running calls end within the grace; what is left goes out after the restart (R7)."""
        try:
            async with asyncio.timeout(grace_ms / 1000):
                while any(carrier.calls for carrier in self._carriers.values()):
                    self._ended.clear()
                    await self._ended.wait()
        except TimeoutError:
            self.cut_off()

    def cut_off(self) -> None:
        for task in list(self._refilling.values()):
            task.cancel()
        for carrier in self._carriers.values():
            for task in list(carrier.calls.values()):
                task.cancel()
