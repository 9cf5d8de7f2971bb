"""The promise: one lane that was lost does not keep the others of its call taken, and no lane stays taken because the
store or the provider was in trouble."""

import asyncio
from typing import Any, cast

import pytest

from holdfast.inbox.channel_status import ComponentKind
from holdfast.inbox.component_states import ComponentStates
from holdfast.kernel.errors import LaneLost, StoreFull, StoreReadOnly, StoreUnavailable
from holdfast.kernel.ids import AgentName, DeliveryId, Instant, NodeId, Principal, Provider, SessionId
from holdfast.kernel.machine import AsyncTasks, SystemEntropy
from holdfast.memory.delivery import (
    Delivered,
    DeliveryState,
    Landing,
    NamingInputs,
    Op,
    Parcel,
    SaidTurn,
    SpokenLine,
    Uncertain,
    Unreachable,
)
from holdfast.memory.delivery_call import HURRIED_MAX, ProviderDelivery
from holdfast.memory.lane import DispatchPolicy, LaneClaim, LaneKey, Package
from holdfast.memory.provider import Capabilities
from holdfast.testing import ManualClock
from tests.support.ports import VerbMethods, make_ports

KEY = LaneKey(AgentName("fern"), Provider("mem"))


class Willing:
    capabilities = Capabilities(renderer="w/1", lanes_per_call=9)

    async def deliver(self, parcels):
        return [Delivered(parcel.id) for parcel in parcels]


class Ledger:
    """A store in which some lanes have been taken over; all of a call is settled, or nothing of it."""

    def __init__(self, *lost):
        self.lost = set(lost)
        self.settled = []
        self.hurried = []  # how many lanes each call asked for
        self.waiting = []  # how many it finds

    async def settle_lanes(self, settled):
        if self.lost & {claim.place for claim, _ in settled}:
            raise LaneLost("a younger claim holds it")
        self.settled += [claim.place for claim, _ in settled]

    async def hurry_lanes(self, key, *, limit):
        self.hurried.append(limit)
        return self.waiting.pop(0) if self.waiting else 0


class Patient(AsyncTasks):
    """Waits without waiting."""

    async def sleep(self, delay_ms):
        await asyncio.sleep(0)


def claim(place, **known):
    inputs = NamingInputs(agent=KEY.agent, session=SessionId(place), principal=Principal("ada"))
    line = SpokenLine(role="user", speaker="ada", text="hello", at=Instant(1), seq=1)
    parcel = Parcel(
        id=DeliveryId(place),
        op=Op.RETAIN,
        provider=KEY.provider,
        place=place,
        naming=inputs,
        turns=(SaidTurn(n=1, lines=(line,)),),
    )
    return LaneClaim(
        key=KEY,
        place=place,
        fence=1,
        node=NodeId("n"),
        packages=(Package(n=1, parcel=parcel, **{"ask": False, **known}),),
    )


def carrier_of(provider, store, clock):
    ports = make_ports(VerbMethods(store), clock=clock, entropy=SystemEntropy(), tasks=Patient())
    return ProviderDelivery(
        ports, KEY, cast("Any", provider), policy=DispatchPolicy(), states=ComponentStates(clock, ComponentKind.MEMORY)
    )


async def test_a_lost_lane_does_not_keep_the_others_of_its_call_taken():
    ledger, clock = Ledger("b"), ManualClock(1_000)
    carrier = carrier_of(Willing(), ledger, clock)
    await carrier.carry([claim(place) for place in ("a", "b", "c")], taken_at=clock.now())
    assert ledger.settled == ["a", "c"]


async def test_a_clock_that_was_set_back_delays_the_next_call_no_longer_than_gathering_does():
    class Gathering(Willing):
        capabilities = Capabilities(renderer="w/1", gather_ms=50)

    clock = ManualClock(1_000)
    carrier = carrier_of(Gathering(), Ledger(), clock)
    carrier.claimed(Instant(clock.now() + 3_600_000), full=False)
    assert (carrier.waits_ms(), carrier.room(0)) == (50, 0)
    carrier.claimed(clock.now(), full=True)
    assert carrier.room(0) > 0


class Troubled(Ledger):
    """A store that cannot write for a while."""

    def __init__(self, *troubles):
        super().__init__()
        self.troubles = list(troubles)
        self.states = []

    async def settle_lanes(self, settled):
        if self.troubles:
            raise self.troubles.pop(0)
        await super().settle_lanes(settled)
        self.states += [settlement.state for _, settlements in settled for settlement in settlements]


async def test_what_was_delivered_is_kept_however_the_store_could_not_write_meanwhile():
    """A lane of a live node that is not released stays claimed until the process ends."""
    ledger, clock = Troubled(StoreFull("no room"), StoreReadOnly("a standby"), StoreUnavailable("gone")), ManualClock()
    await carrier_of(Willing(), ledger, clock).carry([claim("a")], taken_at=clock.now())
    assert (ledger.settled, ledger.states) == (["a"], [DeliveryState.DELIVERED])


class Leaking(Willing):
    """A provider whose own timers end as somebody's cancellation."""

    async def landed(self, parcel):
        raise asyncio.CancelledError

    async def healthy(self):
        raise asyncio.CancelledError


async def test_a_provider_that_cancels_its_own_work_when_it_is_asked_keeps_no_lane():
    ledger, clock = Troubled(), ManualClock()
    await carrier_of(Leaking(), ledger, clock).carry([claim("a", ask=True)], taken_at=clock.now())
    assert (ledger.settled, ledger.states) == (["a"], [DeliveryState.UNCERTAIN])


async def test_a_provider_that_cancels_its_own_work_when_asked_how_it_is_keeps_no_lane():
    class Unsure(Leaking):
        async def deliver(self, parcels):
            return [Uncertain("who knows") for _ in parcels]

        async def landed(self, parcel):
            return Landing.POSSIBLE

    ledger, clock = Troubled(), ManualClock()
    old = 10 * DispatchPolicy().uncertain_wait_ms
    asked = claim("a", ask=True, uncertain_for_ms=old, failing_for_ms=old)
    await carrier_of(Unsure(), ledger, clock).carry([asked], taken_at=clock.now())
    assert ledger.settled == ["a"]


async def test_a_call_that_is_cut_off_while_it_asks_ends_at_once():
    class Slow(Willing):
        def __init__(self):
            self.asked = asyncio.Event()

        async def landed(self, parcel):
            self.asked.set()
            await asyncio.Event().wait()

    provider, ledger, clock = Slow(), Troubled(), ManualClock()
    carrying = asyncio.create_task(
        carrier_of(provider, ledger, clock).carry([claim("a", ask=True)], taken_at=clock.now())
    )
    await provider.asked.wait()
    carrying.cancel()
    await asyncio.wait([carrying])
    assert carrying.cancelled()
    assert not ledger.settled


# --- when a provider is back -----------------------------------------------------------------------


FAULTS = [Unreachable("refused"), Unreachable("500", suspect=True), Uncertain("502", away=True)]


class Moody(Willing):
    def __init__(self, outcome):
        self.outcome = outcome

    async def deliver(self, parcels):
        return [self.outcome for _ in parcels]


async def carried(carrier, clock, *places):
    for place in places:
        await carrier.carry([claim(place)], taken_at=clock.now())


@pytest.mark.parametrize(
    "fault", [Unreachable("refused"), Unreachable("500", suspect=True), Uncertain("502", away=True)]
)
async def test_the_first_delivery_after_an_outage_makes_the_waiting_lanes_due(fault):
    ledger, clock, provider = Ledger(), ManualClock(), Moody(Delivered())
    carrier = carrier_of(provider, ledger, clock)
    await carried(carrier, clock, "a", "b")
    assert len(ledger.hurried) == 1, "the first one of a process, as lanes may wait since before"
    provider.outcome = fault
    await carried(carrier, clock, "a", "b", "c")
    assert carrier.circuit.is_open
    provider.outcome = Delivered()
    ledger.waiting = [HURRIED_MAX, HURRIED_MAX, 7]
    await carried(carrier, clock, "a", "b", "c", "d", "e")
    assert len(ledger.hurried) == 1 + 3, "some with each delivery, until none is left"


async def test_one_bad_lane_hurries_no_other():
    ledger, clock, provider = Ledger(), ManualClock(), Moody(Delivered())
    carrier = carrier_of(provider, ledger, clock)
    await carried(carrier, clock, "a")
    for _ in range(9):
        provider.outcome = Unreachable("500", suspect=True)
        await carried(carrier, clock, "bad")
        provider.outcome = Delivered()
        await carried(carrier, clock, "a")
    assert len(ledger.hurried) == 1


async def test_a_store_that_cannot_hurry_now_is_asked_with_the_next_delivery():
    class Slow(Ledger):
        async def hurry_lanes(self, key, *, limit):
            await super().hurry_lanes(key, limit=limit)
            raise StoreUnavailable("gone")

    ledger, clock = Slow(), ManualClock()
    carrier = carrier_of(Willing(), ledger, clock)
    await carried(carrier, clock, "a", "b")
    assert (ledger.settled, len(ledger.hurried)) == (["a", "b"], 2)
