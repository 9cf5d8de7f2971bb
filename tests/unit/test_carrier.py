"""The promise: one lane that was lost does not keep the others of its call taken."""

from typing import Any, cast

from holdfast.core.delivery import Delivered, Line, Op, Parcel, SaidTurn
from holdfast.core.errors import LaneLost
from holdfast.core.ids import AgentName, DeliveryId, Instant, NodeId, Principal, Provider, SessionId
from holdfast.core.lane import CourierPolicy, LaneClaim, LaneKey, Package
from holdfast.core.naming import NamingInputs
from holdfast.loops.bell import Bell
from holdfast.loops.carrier import Carrier
from holdfast.machine import AsyncTasks, SystemEntropy
from holdfast.ports.provider import Capabilities
from holdfast.testing import ManualClock

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

    async def settle_lanes(self, settled):
        if self.lost & {claim.place for claim, _ in settled}:
            raise LaneLost("a younger claim holds it")
        self.settled += [claim.place for claim, _ in settled]


def claim(place):
    inputs = NamingInputs(agent=KEY.agent, session=SessionId(place), principal=Principal("ada"))
    line = Line(role="user", speaker="ada", text="hello", at=Instant(1), seq=1)
    parcel = Parcel(
        id=DeliveryId(place),
        op=Op.RETAIN,
        provider=KEY.provider,
        place=place,
        naming=inputs,
        turns=(SaidTurn(n=1, lines=(line,)),),
    )
    return LaneClaim(
        key=KEY, place=place, fence=1, node=NodeId("n"), packages=(Package(n=1, parcel=parcel, ask=False),)
    )


async def test_a_lost_lane_does_not_keep_the_others_of_its_call_taken():
    ledger, clock = Ledger("b"), ManualClock(1_000)
    carrier = Carrier(
        KEY,
        cast("Any", Willing()),
        store=cast("Any", ledger),
        notifier=Bell(),
        clock=clock,
        entropy=SystemEntropy(),
        tasks=AsyncTasks(),
        policy=CourierPolicy(),
    )
    await carrier.carry([claim(place) for place in ("a", "b", "c")], taken_at=clock.now())
    assert ledger.settled == ["a", "c"]
