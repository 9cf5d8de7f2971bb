"""A memory service that outlives every process, and the provider through which a process reaches it.

The service knows no ids: what arrives twice is there twice, so that a test can see it. It does what a test tells it to:
be away, choke on a word, take a parcel and never answer. Nothing here waits for time to pass; who is to be slow stands
at a `Gate`.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.kernel.errors import ProviderFailed
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.memory.delivery import Delivered, Landing, Op, Outcome, Parcel, Unreachable
from holdfast.memory.provider import Capabilities
from holdfast.memory.recall import RecallQuery, Recollection
from tests.support.fakes import Gate

ABLE = Capabilities(renderer="shelf/1", recalls=False, quiet_ms=5_000)
NOT_SENT = Unreachable("what stands before it did not arrive")


@dataclass
class Call:
    """One request that reached for the service, at which second of the loop's clock, and what it was about."""

    verb: str
    at_s: float
    ids: tuple[str, ...] = ()


@dataclass
class Service:
    kept: list[Parcel] = field(default_factory=list)  # every effect, in the order in which they took place
    calls: list[Call] = field(default_factory=list)
    lookups: list[RecallQuery] = field(default_factory=list)
    crowded: list[str] = field(default_factory=list)  # places that two calls were inside of at the same time

    away: str = ""  # why it is unreachable, while it is
    sick: str = ""  # what it answers to everything, while it is up and not well
    says_well: bool = False  # what its health says all the same
    failing_share: float = 0.0  # of all deliveries, by chance, each answered with a 500
    dice: random.Random = field(default_factory=lambda: random.Random(10))
    poison: str = ""  # a word that it fails on each time
    hold: Gate | None = None  # where a delivery waits
    held: list[Parcel] = field(default_factory=list)  # with whom somebody stood there
    keeps_first: bool = True  # whether the words are kept before somebody stands there, or after
    recall_script: list[Gate | None] = field(default_factory=list)  # where each lookup stands, in order
    stubborn: bool = False  # whether a lookup continues after its caller was cancelled
    _inside: Counter[str] = field(default_factory=Counter)

    def words(self, place: str | None = None) -> list[str]:
        """What people said to it, in the order in which it was told."""
        told = [parcel for parcel in self.kept if place in (None, parcel.place)]
        return [text for parcel in told for text in said(parcel)]

    @property
    def notes(self) -> list[str]:
        return [parcel.note.text for parcel in self.kept if parcel.note]

    def sent(self, *, since_s: float = 0.0) -> int:
        return sum(call.verb == "deliver" and call.at_s >= since_s for call in self.calls)

    @contextmanager
    def visited(self, parcels: Sequence[Parcel]) -> Iterator[None]:
        places = {parcel.place for parcel in parcels}
        self.crowded += [place for place in sorted(places) if self._inside[place]]
        self._inside.update(places)
        try:
            yield
        finally:
            self._inside.subtract(places)


def said(parcel: Parcel) -> list[str]:
    """What people said in a unit."""
    return [line.text for turn in parcel.turns for line in turn.lines if line.role == "user"]


class ServiceProvider:
    """Implements `Provider` for one process."""

    def __init__(self, service: Service, name: str = "shelf", **able: Any) -> None:
        self.capabilities = replace(ABLE, **able)
        self._service = service
        self._name = ProviderName(name)

    async def deliver(self, parcels: Sequence[Parcel]) -> list[Outcome]:
        self._called("deliver", *(parcel.id for parcel in parcels))
        outcomes: list[Outcome] = []
        with self._service.visited(parcels):
            for parcel in parcels:
                failed = bool(outcomes) and not isinstance(outcomes[-1], Delivered)
                outcomes.append(NOT_SENT if failed else await self._take(parcel))
        return outcomes

    async def _take(self, parcel: Parcel) -> Outcome:
        service = self._service
        if service.away:
            return Unreachable(service.away)
        if service.failing_share and service.dice.random() < service.failing_share:
            return Unreachable("500 Internal Server Error", suspect=True)
        if service.sick or (service.poison and any(service.poison in text for text in said(parcel))):
            return Unreachable("500 Internal Server Error", suspect=True)
        if service.keeps_first:
            service.kept.append(parcel)
        if service.hold is not None:
            service.held.append(parcel)
            await service.hold.stand()
        if not service.keeps_first:
            service.kept.append(parcel)
        return Delivered(f"receipt-{len(service.kept)}")

    async def landed(self, parcel: Parcel) -> Landing:
        self._called("landed", parcel.id)
        if self._service.away:
            return Landing.POSSIBLE
        known = any(kept.id == parcel.id for kept in self._service.kept)
        return Landing.LANDED if known else Landing.ABSENT

    async def recall(self, query: RecallQuery) -> list[Recollection]:
        """A canary that names its lookup; it is returned however late, even if the caller has given up."""
        service = self._service
        service.lookups.append(query)
        n = len(service.lookups)
        gate = service.recall_script.pop(0) if service.recall_script else None
        while gate is not None and not gate.opened.is_set():
            try:
                await gate.stand()
            except asyncio.CancelledError:
                if not service.stubborn:
                    raise
        if service.away:
            raise ProviderFailed(service.away, provider=self._name)
        return [Recollection(provider=self._name, text=f"canary-{n}-", ref=str(n))]

    async def healthy(self) -> str | None:
        return self._service.away or (not self._service.says_well and self._service.sick) or None

    async def close(self) -> None:
        """There is nothing to give back."""

    def _called(self, verb: str, *ids: str) -> None:
        self._service.calls.append(Call(verb, asyncio.get_running_loop().time(), ids))


def units(service: Service) -> list[tuple[str, list[str]]]:
    """What was told in one piece, in order: the session it was said in, and the words."""
    return [(parcel.session, said(parcel)) for parcel in service.kept if parcel.op is Op.RETAIN]
