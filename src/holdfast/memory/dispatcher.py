"""The dispatcher: claims lanes whose heads are due and starts provider deliveries, a bounded number per provider.

Providers are independent: a slow provider uses only its own calls, a dead provider opens its own circuit, and neither
delays another provider, a session or a turn (R8). A lost index of a provider is rebuilt from the journal while none of
its calls runs: the rebuild would miss a delivery that is not settled yet.

The dispatcher learns what is due: a committed turn wakes it with its agent, a settlement says when its lanes are due
again, and the node's poll wakes it for everything else. Only then it asks the store.
"""

from collections.abc import Hashable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import NamedTuple

from holdfast.inbox.channel_status import ComponentKind
from holdfast.inbox.component_states import ComponentStates
from holdfast.kernel import log
from holdfast.kernel.ids import AgentName, Instant
from holdfast.kernel.loop import Batch, ClaimLoop, TaskSet
from holdfast.kernel.notifier import Event, Topic
from holdfast.memory.cursor_sql import next_overdue, schedule_overdue
from holdfast.memory.delivery_call import ProviderDelivery
from holdfast.memory.lane import DispatchPolicy, LaneClaim, LaneKey
from holdfast.memory.lane_sql import claim_lanes, list_lane_keys, next_due
from holdfast.memory.provider import Indexed, Providers
from holdfast.memory.reindex import refill
from holdfast.store.membership import Member
from holdfast.store.ports import Ports

POLL_MS = 1_000  # while a provider with due lanes has no room
POLL_MS_MIN = 20
CHECK_EVERY_MS = 15_000  # interval of the search for indexes that need a rebuild
OVERDUE_BATCH = 100


class ClaimedLanes(NamedTuple):
    """The lanes of one call, and the time of the request that claimed them."""

    lanes: Sequence[LaneClaim]
    asked_at: Instant


class Dispatcher(ClaimLoop[LaneKey, ClaimedLanes]):
    name = "dispatcher"
    topic = Topic.DELIVERY
    claim_prefix = "lane"
    grace_ms = 2_000  # for calls in progress; interrupted ones are looked up after a restart (R7)

    def __init__(
        self,
        ports: Ports,
        *,
        providers: Providers,
        member: Member,
        policy: DispatchPolicy | None = None,
        states: ComponentStates | None = None,
    ) -> None:
        super().__init__(ports.tasks, ports.entropy, ports.notifier, ports.new_id)
        self._ports = ports
        self._providers = providers
        self._member = member
        self._policy = policy or DispatchPolicy()
        self._states = states or ComponentStates(ports.clock, ComponentKind.MEMORY)
        self._deliveries: dict[LaneKey, ProviderDelivery] = {}
        self._rebuilds = TaskSet(ports.tasks, name=self.name)
        self._checked: set[LaneKey] = set()
        self._begun: set[LaneKey] = set()  # lanes of which this process made a claim
        self._knows_lanes = False
        self._checked_at = -CHECK_EVERY_MS

    async def step(self) -> bool:
        if not self._knows_lanes:  # also lanes without work: an index may have been lost while no process ran
            for key in await self._ports.db.read(list_lane_keys()):
                self._delivery_to(key)
            self._knows_lanes = True
        now = self._ports.clock.now()
        if now - self._checked_at >= CHECK_EVERY_MS:
            self._checked_at = now
            for key in self._providers.lane_keys():
                self._delivery_to(key)
            for key in self._deliveries:
                self._check_index(key)
        return await super().step()

    # --- claiming

    async def look(self) -> Iterable[LaneKey]:
        now, due = await self._ports.db.read(next_due())
        overdue_at = await self._ports.db.read(next_overdue())
        if overdue_at is not None and overdue_at <= now:
            await self._ports.db.write(schedule_overdue(limit=OVERDUE_BATCH))
            now, due = await self._ports.db.read(next_due())
        return [key for key, due_at in due.items() if due_at <= now and self._delivery_to(key) is not None]

    def groups(self, key: Hashable) -> Iterable[LaneKey]:
        """A provider, or all providers of an agent that accept turns."""
        if isinstance(key, LaneKey):
            return (key,) if self._delivery_to(key) is not None else ()
        agent = AgentName(str(key))
        found = [self._delivery_to(LaneKey(agent, name)) for name in self._providers.names(agent)]
        return [one.key for one in found if one is not None and one.provider.capabilities.turns]

    def room(self, group: LaneKey) -> int:
        if self._rebuilds.count(group):
            return 0
        return self._deliveries[group].room(self.running.count(group))

    async def claim(self, group: LaneKey, name: str, *, repeated: bool) -> Batch[ClaimedLanes]:
        del repeated
        if group not in self._begun:
            self._begun.add(group)
            await self._deliveries[group].begin_index()
        able = self._deliveries[group].provider.capabilities
        asked_at = self._ports.clock.now()
        lanes = await self._ports.db.write(
            claim_lanes(
                self._member.node,
                group,
                name=name,
                lanes=able.lanes_per_call,
                units=able.units_per_lane,
                renderer=able.renderer,
                passing=able.notes_pass,
            )
        )
        if not lanes:
            return Batch([])
        full = len(lanes) >= able.lanes_per_call
        self._deliveries[group].claimed(asked_at, full=full)
        return Batch([ClaimedLanes(lanes, asked_at)], more=full)

    def pinned(self, group: LaneKey, claim: ClaimedLanes) -> AbstractContextManager[object]:
        del claim
        return log.pinned(provider=group.provider, agent=group.agent)

    async def serve(self, group: LaneKey, claim: ClaimedLanes) -> None:
        await self._deliveries[group].carry(claim.lanes, claim.asked_at)

    async def give_back(self, group: LaneKey, claim: ClaimedLanes, error: Exception) -> None:
        del error
        await self._deliveries[group].give_back(claim.lanes)

    def _delivery_to(self, key: LaneKey) -> ProviderDelivery | None:
        if key not in self._deliveries and (provider := self._providers.get(key)) is not None:
            self._deliveries[key] = ProviderDelivery(
                self._ports, key, provider, policy=self._policy, states=self._states
            )
            self._check_index(key)
        return self._deliveries.get(key)

    def wait_ms(self) -> float:
        """Until a provider with due lanes may be called."""
        if not self.due:
            return CHECK_EVERY_MS
        waits = [self._deliveries[key].waits_ms() for key in self.due]
        return max(POLL_MS_MIN, min([POLL_MS, *(wait for wait in waits if wait > 0)]))

    # --- indexes

    def _check_index(self, key: LaneKey) -> None:
        """Check the provider's index once, and whenever the provider reports that it needs a rebuild."""
        provider = self._deliveries[key].provider
        if not isinstance(provider, Indexed) or self._rebuilds.count(key):
            return
        if provider.needs_rebuild or key not in self._checked:
            self._checked.add(key)
            self._rebuilds.start(partial(self._rebuild, key), name=f"refill {key}", group=key)

    async def _rebuild(self, key: LaneKey) -> None:
        """Rebuild an index after the running calls. A failed rebuild is retried at the next check."""
        with log.pinned(provider=key.provider, agent=key.agent):
            rebuilt = False
            try:
                await self.running.fewer_than(1, key)
                parcels = await refill(self._ports.db, self._providers, key, self._policy)
                rebuilt = True
                if parcels is not None:
                    log.info("memory.refilled", parcels=parcels)
                    fields = {"provider": key.provider, "agent": key.agent, "parcels": parcels}
                    self._ports.notifier.publish(Event(name="memory.refilled", fields=fields))
            finally:
                if not rebuilt:
                    self._checked.discard(key)
                self._ports.notifier.nudge(Topic.DELIVERY)

    def cut_off(self) -> None:
        super().cut_off()
        self._rebuilds.cut_off()
