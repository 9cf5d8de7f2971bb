"""The provider delivery: calls to one provider, from the claim of its lanes to their settlement.

Rule 1: before a delivery that may have landed is resent, the provider is asked (D20).
Rule 2: the outcome is stored in the transaction that frees the lanes. While the store is unavailable or cannot write,
        the write is retried; if the process dies meanwhile, the delivery is in doubt.
Rule 3: a parcel is sent only shortly after the claim of its lane: an older claim may be lost.
Rule 4: a provider is third-party code: an exception counts as its failure, with an uncertain effect.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from holdfast.inbox.component_states import ComponentStates
from holdfast.kernel import log
from holdfast.kernel.errors import LaneLost, StoreFull, StoreReadOnly, StoreUnavailable
from holdfast.kernel.ids import Instant
from holdfast.kernel.notifier import Event, Topic
from holdfast.kernel.retry import CircuitBreaker, RetryPolicy
from holdfast.kernel.spans import DELIVER, span
from holdfast.kernel.vendor_error import NO_ANSWER
from holdfast.memory import lane
from holdfast.memory.delivery import Delivered, DeliveryState, Landing, Op, Outcome, Parcel, Refused, Uncertain
from holdfast.memory.lane import DispatchPolicy, LaneClaim, LaneKey, Package, Settlement, Tally, Wellness
from holdfast.memory.lane_sql import hurry_lanes, settle_lanes
from holdfast.memory.provider import Indexed, Provider
from holdfast.memory.replay_sql import list_delivered_parcels
from holdfast.store.ports import Ports
from holdfast.turns.model_call import is_cancelled_from_outside

T = TypeVar("T")

NOTHING_SAID = "it has no content"
CANNOT = {
    Op.RETAIN: "the provider does not accept turns",
    Op.RETRACT: "the provider cannot retract turns",
    Op.REMEMBER: "the provider does not accept notes",
}
HURRIED_MAX = 100  # lanes that one successful delivery makes due
ERASED_BY_HAND = "erased manually, according to the operator who replayed it"
CANNOT_ERASE = "the provider cannot erase: erase the data there manually, then replay this delivery"


class ProviderDelivery:
    """One provider of one agent, with its circuit breaker. The state is in RAM only."""

    def __init__(
        self, ports: Ports, key: LaneKey, provider: Provider, *, policy: DispatchPolicy, states: ComponentStates
    ) -> None:
        self._ports = ports
        self._states = states
        self.key = key
        self.provider = provider
        self.circuit = CircuitBreaker()
        self._policy = policy
        self._tally = Tally()
        self._hurries = True  # until all waiting lanes are due; lanes may have waited since before a restart
        self._unsettled = RetryPolicy(delay_ms_base=250, delay_ms_max=5_000)
        self._gathers_until = Instant(0)

    def claimed(self, at: Instant, *, full: bool) -> None:
        """Note the claim of one call. Unless it is full, the next call is made some time later."""
        self._gathers_until = Instant(at if full else at + self.provider.capabilities.gather_ms)

    def waits_ms(self) -> int:
        """Time until the next call may be made; not positive if it may be made now."""
        now = self._ports.clock.now()
        gathers_ms = min(self._gathers_until - now, self.provider.capabilities.gather_ms)  # the clock may be set back
        return max(gathers_ms, self.circuit.reopens_at - now)

    def room(self, running: int) -> int:
        """The number of calls that may start now beside the running ones."""
        if self.waits_ms() > 0:
            return 0
        allowed = self.circuit.calls_allowed(self._ports.clock.now(), self.provider.capabilities.calls_max)
        return max(0, allowed - running)

    async def begin_index(self) -> None:
        """Before the provider's first delivery of all, mark its index as whole: nothing can be missing from it.

        A new index asks for a rebuild, because only the journal knows whether it was lost.
        """
        provider = self.provider
        if not isinstance(provider, Indexed):
            return
        delivered = await self._ports.db.read(list_delivered_parcels(self.key, limit=1))
        if not delivered and await self._is_healthy() and provider.needs_rebuild:
            await self._call("", lambda: provider.rebuild(_no_parcels()), lambda _why: 0)

    async def carry(self, claims: Sequence[LaneClaim], taken_at: Instant) -> None:
        """Make one call and settle its lanes. `taken_at` is the time of the claim request."""
        asked = [claim for claim in claims if claim.packages[0].ask]
        sent = [claim for claim in claims if not claim.packages[0].ask]
        for claim in asked:
            await self._keep([(claim, [await self._ask(claim.packages[0])])])
        if sent and self._ports.clock.now() - taken_at > self._policy.send_within_ms:
            # The claim is too old to send, as after a suspended process: its deliveries are scheduled again.
            await self._keep([(claim, [lane.untried(package) for package in claim.packages]) for claim in sent])
        elif sent:
            await self._keep(await self._send(sent))

    async def give_back(self, claims: Sequence[LaneClaim]) -> None:
        """Free the lanes without an outcome: the deliveries being sent are in doubt."""
        for claim in claims:
            await self._keep([(claim, ())])

    # --- asking

    async def _ask(self, package: Package) -> Settlement:
        parcel = package.parcel
        landing = await self._call(parcel.id, lambda: self.provider.landed(parcel), lambda _why: Landing.POSSIBLE)
        if landing is not Landing.ABSENT:  # ABSENT proves that it answers, not that it accepts parcels
            found = Delivered() if landing is Landing.LANDED else Uncertain("the provider cannot tell")
            self._learn(found, parcel.place)
        return lane.after_asking(
            package,
            landing,
            self._policy,
            quiet_ms=0 if self.provider.capabilities.repeats else self.provider.capabilities.quiet_ms,
            chance=self._ports.entropy.fraction(),
            known=await self._wellness(package),
        )

    async def _wellness(self, package: Package) -> Wellness:
        """The provider's health, requested only if the package may be parked because of it."""
        if not lane.may_park(package, self._policy):
            return lane.UNKNOWN
        place = package.parcel.place
        return Wellness(
            healthy=await self._is_healthy(),
            failing_share=self._tally.failing_share(place),
            alone=self._tally.is_alone(place),
        )

    async def _is_healthy(self) -> bool:
        try:
            async with asyncio.timeout(self._policy.call_wait_ms / 1000):
                return await self.provider.healthy() is None
        except asyncio.CancelledError:
            if is_cancelled_from_outside():
                raise
            return False
        except Exception as error:  # noqa: BLE001 - third-party code: unhealthy
            log.warning("delivery.failed", provider=self.key.provider, why=type(error).__name__)
            return False

    # --- sending

    async def _send(self, claims: Sequence[LaneClaim]) -> list[tuple[LaneClaim, Sequence[Settlement]]]:
        quiet_ms = self.provider.capabilities.quiet_ms
        judged = {
            package.n: self._idle(package) or lane.too_early(claim, package, quiet_ms)
            for claim in claims
            for package in claim.packages
        }
        idle = {n: settlement for n, settlement in judged.items() if settlement is not None}
        parcels = [package.parcel for claim in claims for package in claim.packages if package.n not in idle]
        outcomes = iter(await self._deliver(parcels) if parcels else ())
        settled: list[tuple[LaneClaim, Sequence[Settlement]]] = []
        for claim in claims:
            packages = [package for package in claim.packages if package.n not in idle]
            results = [next(outcomes) for _ in packages]
            known = await self._wellness(packages[0]) if packages else lane.UNKNOWN
            chance = self._ports.entropy.fraction()
            decided = lane.settle_all(packages, results, self._policy, chance, known)
            settled.append((claim, [*(idle[package.n] for package in claim.packages if package.n in idle), *decided]))
        return settled

    def _idle(self, package: Package) -> Settlement | None:
        """The settlement of a package that needs no call; None for one that is sent."""
        able, parcel = self.provider.capabilities, package.parcel
        can = {
            Op.RETAIN: able.turns,
            Op.RETRACT: able.retracts,
            Op.REMEMBER: able.memory,
            Op.ERASE: able.erases,
        }
        if not can[parcel.op]:
            if parcel.op is Op.ERASE and package.late:  # replayed: the operator erased it at the provider
                return Settlement(n=package.n, state=DeliveryState.DELIVERED, receipt=ERASED_BY_HAND)
            if parcel.op is Op.ERASE:
                return Settlement(n=package.n, state=DeliveryState.PARKED, reason=CANNOT_ERASE)
            return Settlement(n=package.n, state=DeliveryState.DROPPED, reason=CANNOT[parcel.op])
        if (parcel.op is Op.RETAIN and not parcel.turns) or (parcel.op is Op.REMEMBER and parcel.note is None):
            return Settlement(n=package.n, state=DeliveryState.DROPPED, reason=NOTHING_SAID)
        return None

    async def _deliver(self, parcels: Sequence[Parcel]) -> Sequence[Outcome]:
        async def sent() -> Sequence[Outcome]:
            return list(await self.provider.deliver(parcels))

        name = self.key.provider
        about = {"gen_ai_agent_name": self.key.agent, "holdfast_provider_name": name}
        with span(DELIVER, name, **about, holdfast_delivery_units=len(parcels)) as seen:
            outcomes = await self._call(parcels[0].id, sent, lambda why: [Uncertain(why) for _ in parcels])
            if len(outcomes) != len(parcels):
                outcomes = [Uncertain(f"{len(outcomes)} outcomes for {len(parcels)} parcels") for _ in parcels]
            seen.note(holdfast_delivery_delivered=sum(isinstance(one, Delivered) for one in outcomes))
        for parcel, outcome in zip(parcels, outcomes, strict=True):
            self._learn(outcome, parcel.place)
            self._tally.note(outcome, parcel.place)
        return outcomes

    async def _call(self, delivery: str, call: Callable[[], Awaitable[T]], failed: Callable[[str], T]) -> T:
        """The provider's answer; `failed` makes one of the reason why there is none."""
        try:
            async with asyncio.timeout(self._policy.call_wait_ms / 1000):
                return await call()
        except TimeoutError:
            return failed(f"no answer within {self._policy.call_wait_ms} ms")
        except asyncio.CancelledError:
            if is_cancelled_from_outside():
                raise
            return failed("the provider cancelled its own work")
        except Exception as error:  # noqa: BLE001 - third-party code: its effect is unknown
            log.error("delivery.failed", failure=error, provider=self.key.provider, delivery=delivery)
            return failed(f"the provider's code failed: {type(error).__name__}")

    def _learn(self, outcome: Outcome, place: str) -> None:
        was_open = self.circuit.is_open
        lane.note_outcome(self.circuit, outcome, self._ports.clock.now(), self._ports.entropy.fraction(), place)
        self._hurries |= was_open and not self.circuit.is_open
        self._note_state(outcome)

    def _note_state(self, outcome: Outcome) -> None:
        """A refusal proves that the provider answers, as a delivery does; a suspect failure may be the content's."""
        agent, name = self.key.agent, self.key.provider
        if isinstance(outcome, Delivered | Refused):
            if self._ports.clock.now() >= self._states.well_until.get((agent, name), 0):
                self._states.succeeded(agent, name)
            return
        retry_at = self.circuit.reopens_at if self.circuit.is_open else None
        is_own = not outcome.suspect or self.circuit.is_open
        self._states.failed(agent, name, outcome.reason, outcome.vendor, is_own=is_own, retry_at=retry_at)

    # --- settling

    async def _keep(self, settled: list[tuple[LaneClaim, Sequence[Settlement]]]) -> None:
        attempt = 0
        while True:
            try:
                due_in_ms = await self._ports.db.write(settle_lanes(settled))
            except (StoreUnavailable, StoreFull, StoreReadOnly) as error:
                attempt += 1
                log.warning("loop.failed", loop="dispatcher", code=error.code, why=str(error))
                await self._ports.tasks.sleep(self._unsettled.delay_ms(attempt, self._ports.entropy.fraction()))
            except LaneLost as lost:
                log.info("lane.lost", provider=self.key.provider, why=str(lost))
                if len(settled) > 1:  # one lost lane must not keep the others claimed
                    for one in settled:
                        await self._keep([one])
                return
            else:
                break
        if due_in_ms is not None:
            self._ports.notifier.wake_in(Topic.DELIVERY, due_in_ms, self.key)
        for claim, settlements in settled:
            self._note(claim, settlements)
        if self._hurries and any(one.state is DeliveryState.DELIVERED for _, some in settled for one in some):
            await self._hurry()

    async def _hurry(self) -> None:
        """After an outage, make the waiting lanes due; a limited number with each delivery."""
        try:
            hurried = await self._ports.db.write(hurry_lanes(self.key, limit=HURRIED_MAX))
        except (StoreUnavailable, StoreFull, StoreReadOnly) as error:  # retried with the next delivery
            log.warning("loop.failed", loop="dispatcher", code=error.code, why=str(error))
            return
        self._hurries = hurried == HURRIED_MAX
        if hurried:
            self._ports.notifier.wake(Topic.DELIVERY, self.key)

    def _note(self, claim: LaneClaim, settlements: Sequence[Settlement]) -> None:
        parcels = {package.n: package.parcel for package in claim.packages}
        for settlement in settlements:
            if settlement.untried:
                continue
            if settlement.state is DeliveryState.PARKED and str(settlement.reason).startswith(lane.SAYS_WELL):
                self._tally.parked_alone = True
            parcel = parcels[settlement.n]
            fields: dict[str, object] = {
                "agent": self.key.agent,
                "provider": self.key.provider,
                "delivery": parcel.id,
                "state": settlement.state.value,
                "attempt": parcel.attempt,
                "retry_in_ms": settlement.delay_ms or None,
            }
            answer = settlement.vendor.fields if settlement.vendor is not NO_ANSWER else {}
            log.info("delivery.settled", **fields, **answer)
            self._ports.notifier.publish(Event(name="delivery.settled", session=parcel.session, fields=fields))


async def _no_parcels() -> AsyncIterator[Parcel]:
    """The journal of a provider that was never sent anything."""
    nothing: tuple[Parcel, ...] = ()
    for parcel in nothing:
        yield parcel
