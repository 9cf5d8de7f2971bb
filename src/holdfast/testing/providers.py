"""Memory providers for histories: one call in five goes wrong, in every way in which a service over a network can.

`swift` is idempotent by the id of a parcel and supports retraction. `slow` does neither: it appends every request, so
that a repeated request is detected; it supports prefetching. Both keep exactly the promises of the port: `Delivered`
means that the parcel is there, `ABSENT` that it is not there now, and an interrupted request may still arrive within
`quiet_ms`, not later. A recollection contains the key of its lookup.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextvars import Context

from holdfast.kernel.errors import ProviderFailed
from holdfast.kernel.retry import RetryPolicy
from holdfast.memory.delivery import Delivered, Landing, Outcome, Parcel, Refused, Uncertain, Unreachable
from holdfast.memory.lane import DispatchPolicy, LaneKey
from holdfast.memory.provider import Capabilities
from holdfast.memory.recall import RecallQuery, Recollection
from holdfast.testing.faults import ProviderFailure, ProviderFault
from holdfast.testing.servers import Lookup, Server

FOREVER_S = 10_000.0
LAG_S_MAX = 0.08  # one way
QUOTED_CHARS = 24  # of each text in a recollection
QUOTED_MAX = 8
DISPATCH_POLICY = DispatchPolicy(
    retry=RetryPolicy(delay_ms_base=200, delay_ms_max=1_500),
    uncertain_wait_ms=3_000,
    suspects_max=2,
    poison_wait_ms=2_000,
    call_wait_ms=1_200,
    send_within_ms=1_000,
)
ABLE: Mapping[str, Capabilities] = {
    "swift": Capabilities(
        renderer="swift", memory=False, retracts=True, lanes_per_call=2, units_per_lane=3, calls_max=3, quiet_ms=400
    ),
    "slow": Capabilities(renderer="slow", memory=False, prefetches=True, units_per_lane=2, calls_max=2, quiet_ms=1_000),
}
IDEMPOTENT = frozenset({"swift"})
LOST_ON_THE_WAY = frozenset({ProviderFailure.BEFORE_EFFECT, ProviderFailure.LIMITED, ProviderFailure.SUSPECT})


class FakeProvider:
    """Implements `Provider` for one node, over a `Server` that all nodes share."""

    def __init__(
        self,
        lane: LaneKey,
        server: Server,
        lookups: list[Lookup],
        *,
        seed: int | str,
        capabilities: Capabilities,
        fault: Callable[[], ProviderFault | None],
        quotes: bool = False,
    ) -> None:
        self.capabilities = capabilities
        self._lane = lane
        self._server = server
        self._lookups = lookups
        self._seed = seed
        self._fault = fault
        self._quotes = quotes  # whether a recollection contains delivered words
        self._outside = Context()

    # --- delivering

    async def deliver(self, parcels: Sequence[Parcel]) -> Sequence[Outcome]:
        fault, rng = self._fault(), self._chance("deliver", parcels[0].id, parcels[0].attempt)
        self._begin(fault)
        if self._is_down():
            await asyncio.sleep(rng.random() * LAG_S_MAX)
            return [Unreachable("it is down") for _ in parcels]
        if fault is None or fault.failure in {ProviderFailure.TWICE, ProviderFailure.SLOW}:
            return await self._arrive(parcels, fault, rng)
        return await self._fail(parcels, fault, rng)

    async def _arrive(
        self, parcels: Sequence[Parcel], fault: ProviderFault | None, rng: random.Random
    ) -> list[Outcome]:
        """All parcels arrive; sometimes with a slow answer, sometimes twice if the provider is idempotent."""
        self._send(parcels, rng.random() * LAG_S_MAX)
        if fault and fault.failure is ProviderFailure.TWICE and self._server.idempotent:
            self._send(parcels, self._late_s(rng))
        slow_s = fault.delay_ms / 1000 if fault and fault.failure is ProviderFailure.SLOW else 0.0
        await asyncio.sleep(LAG_S_MAX + rng.random() * LAG_S_MAX + slow_s)
        return [Delivered(f"r-{parcel.id}") for parcel in parcels]

    async def _fail(self, parcels: Sequence[Parcel], fault: ProviderFault, rng: random.Random) -> list[Outcome]:
        """One parcel meets the fault. Those before it arrived, those after it were not sent."""
        at = rng.randrange(len(parcels))
        on_time = parcels[:at]
        if fault.failure in {ProviderFailure.AFTER_EFFECT, ProviderFailure.RAISES, ProviderFailure.SHORT}:
            on_time = parcels[: at + 1]
        self._send(on_time, rng.random() * LAG_S_MAX)
        if fault.failure in {ProviderFailure.LATE, ProviderFailure.STALLS, ProviderFailure.LIES}:
            # Sent at any time before the call is interrupted, or never.
            cut_off_s = (
                DISPATCH_POLICY.call_wait_ms / 1000 * rng.random() if fault.failure is ProviderFailure.STALLS else 0.0
            )
            if rng.random() < 0.8:
                self._send(parcels[at : at + 1], max(LAG_S_MAX, cut_off_s + self._late_s(rng)))
        await asyncio.sleep(LAG_S_MAX + rng.random() * LAG_S_MAX)
        if fault.failure is ProviderFailure.RAISES:
            raise RuntimeError("a fault in the provider's code")
        if fault.failure is ProviderFailure.STALLS:
            await asyncio.sleep(FOREVER_S)
        before: list[Outcome] = [Delivered(f"r-{parcel.id}") for parcel in parcels[:at]]
        if fault.failure is ProviderFailure.SHORT:
            return before
        return [*before, _outcome(fault), *(Unreachable("not sent") for _ in parcels[at + 1 :])]

    def _send(self, parcels: Sequence[Parcel], delay_s: float) -> None:
        """Schedule the arrival of a request that was sent and cannot be cancelled."""
        if parcels:
            loop = asyncio.get_running_loop()
            loop.call_later(delay_s, self._server.take, tuple(parcels), context=self._outside)

    def _late_s(self, rng: random.Random) -> float:
        return rng.random() * self.capabilities.quiet_ms / 1000

    # --- asking

    async def landed(self, parcel: Parcel) -> Landing:
        fault, rng = self._fault(), self._chance("landed", parcel.id, parcel.attempt)
        self._begin(fault)
        await self._meet(fault, rng)
        if fault is not None and fault.failure is not ProviderFailure.SLOW:
            return Landing.POSSIBLE
        if self._is_down() or self._now() < self._server.blind_until_s:
            return Landing.POSSIBLE
        return Landing.LANDED if self._server.has(parcel) else Landing.ABSENT

    async def recall(self, query: RecallQuery) -> Sequence[Recollection]:
        n = len(self._lookups) + 1
        self._lookups.append(Lookup(n, self._lane, query))
        fault, rng = self._fault(), self._chance("recall", n)
        self._begin(fault)
        await self._meet(fault, rng)
        if self._is_down() or (fault is not None and fault.failure in LOST_ON_THE_WAY):
            raise ProviderFailed("it is away")
        if fault is not None and fault.failure is ProviderFailure.SHORT:
            return []
        words = [text[:QUOTED_CHARS] for text in self._server.words()[-QUOTED_MAX:]] if self._quotes else ["remembered"]
        text = " ".join([token(n, query), *words])
        said = Recollection(provider=self._lane.provider, text=text, ref=str(n))
        return [said, *self._server.found(query, self._lane.provider)]

    async def _meet(self, fault: ProviderFault | None, rng: random.Random) -> None:
        failure = fault.failure if fault else None
        if failure is ProviderFailure.STALLS:
            await asyncio.sleep(FOREVER_S)
        late_s = fault.delay_ms / 1000 if fault and failure in {ProviderFailure.SLOW, ProviderFailure.LATE} else 0.0
        await asyncio.sleep(rng.random() * LAG_S_MAX + late_s)
        if failure is ProviderFailure.RAISES:
            raise RuntimeError("a fault in the provider's code")

    async def healthy(self) -> str | None:
        return "it is down" if self._is_down() else None

    async def close(self) -> None:
        """The fake holds no resources."""

    # --- its condition

    def _begin(self, fault: ProviderFault | None) -> None:
        if fault is not None and fault.failure is ProviderFailure.DOWN:
            self._server.down_until_s = self._now() + fault.delay_ms / 1000
        if fault is not None and fault.failure is ProviderFailure.LIES:
            self._server.blind_until_s = self._now() + fault.delay_ms / 1000

    def _is_down(self) -> bool:
        return self._now() < self._server.down_until_s

    def _chance(self, *what: object) -> random.Random:
        return random.Random(f"{self._seed}/{self._lane}/{what}")

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


class IndexedProvider(FakeProvider):
    """Implements `Indexed` too: recall uses an index that the server may lose."""

    @property
    def needs_rebuild(self) -> bool:
        return self._server.lost

    async def rebuild(self, parcels: AsyncIterator[Parcel]) -> int:
        """Rebuild the whole index or nothing: an interrupted call leaves the index unchanged."""
        found = [parcel.id async for parcel in parcels]
        await asyncio.sleep(self._chance("rebuild", len(found)).random() * LAG_S_MAX)
        self._server.fill_index(found)
        return len(found)


def _outcome(fault: ProviderFault) -> Outcome:
    match fault.failure:
        case ProviderFailure.LIMITED:
            return Unreachable("too many requests", retry_after_ms=fault.delay_ms)
        case ProviderFailure.SUSPECT:
            return Unreachable("an internal error", suspect=True)
        case ProviderFailure.BEFORE_EFFECT:
            return Unreachable("connection refused")
        case ProviderFailure.REFUSED:
            return Refused("words that it does not take")
        case _:
            return Uncertain("the connection was lost")


def token(n: int, query: RecallQuery) -> str:
    """The part that every recollection of a lookup contains: its number and its key."""
    key = query.key
    return f"<{n}|{key.session}|{key.epoch}|{key.head_seq}|{key.principal}>"
