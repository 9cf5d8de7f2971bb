"""The provider: each operation has a module of its own, and every failure becomes an outcome.

The SDK's client is the only state between calls. naming.py makes the names and messages.py the texts.
"""

from collections.abc import Awaitable, Mapping, Sequence
from itertools import groupby

from holdfast.kernel.errors import ProviderFailed
from holdfast.memory.delivery import Delivered, Landing, Op, Outcome, Parcel, Refused, Uncertain
from holdfast.memory.lane import may_pass
from holdfast.memory.provider import Capabilities, ProviderSetup
from holdfast.memory.recall import RecallQuery, Recollection
from holdfast.providers.honcho.client import HonchoClient
from holdfast.providers.honcho.erase import erase, erased
from holdfast.providers.honcho.factory import HonchoSettings
from holdfast.providers.honcho.faults import HonchoCallFailed
from holdfast.providers.honcho.messages import RENDERER
from holdfast.providers.honcho.migrate import FileMigration
from holdfast.providers.honcho.recall import recall
from holdfast.providers.honcho.remember import remember, remembered
from holdfast.providers.honcho.retain import WAITS, retain, retained

DELIVERED_MEANS = (
    "Honcho stored it and lists it. What it derives from it comes later, and is lost for these words if the server is "
    "killed right after its answer"
)


class HonchoProvider:
    """Implements `Provider`."""

    capabilities = Capabilities(
        renderer=RENDERER,
        delivered_means=DELIVERED_MEANS,
        retracts=False,  # Honcho can change only a message's metadata, and keeps what it concluded from the message
        units_per_lane=20,
        calls_max=16,
        notes_pass=True,  # a conclusion is identified by its text, and the order of conclusions is never shown
        quiet_ms=30_000,  # a request waits up to 5 s for its session's lock; the rest is for slow machines
    )

    def __init__(self, setup: ProviderSetup, settings: HonchoSettings, key: str | None) -> None:
        self.names = settings.names()
        self._setup = setup
        self._client = HonchoClient(settings, key)

    async def deliver(self, parcels: Sequence[Parcel]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        stopped: set[str] = set()
        for (place, op), run in groupby(parcels, key=lambda parcel: (parcel.place, parcel.op)):
            sent = list(run)
            outcomes += [WAITS] * len(sent) if place in stopped else await self._deliver(place, op, sent)
            if any(not isinstance(outcome, Delivered) for outcome in outcomes[-len(sent) :]):
                stopped.add(place)
        return outcomes

    async def _deliver(self, place: str, op: Op, parcels: Sequence[Parcel]) -> list[Outcome]:
        """Parcels of one place and one operation, in order."""
        if op is Op.RETAIN:
            return await retain(self._client, self.names, place, parcels)
        outcomes: list[Outcome] = []
        waiting: list[Parcel] = []
        for parcel in parcels:
            if waiting and not may_pass(parcel, waiting):
                outcomes.append(WAITS)
                waiting.append(parcel)
                continue
            outcomes.append(await self._deliver_one(parcel))
            if isinstance(outcomes[-1], Uncertain):
                waiting.append(parcel)
            elif not isinstance(outcomes[-1], Delivered):
                break
        return outcomes + [WAITS] * (len(parcels) - len(outcomes))

    async def _deliver_one(self, parcel: Parcel) -> Outcome:
        if parcel.op is Op.REMEMBER:
            return await remember(self._client, self.names, parcel)
        if parcel.op is Op.ERASE and parcel.erasure is not None:
            return await erase(self._client, self.names, parcel.erasure)
        return Refused(f"Honcho cannot {parcel.op.value} single messages")

    async def landed(self, parcel: Parcel) -> Landing:
        if parcel.op is Op.RETAIN:
            return await retained(self._client, self.names, parcel)
        if parcel.op is Op.REMEMBER:
            return await remembered(self._client, self.names, parcel)
        if parcel.op is Op.ERASE and parcel.erasure is not None:
            return await erased(self._client, self.names, parcel.erasure)
        return Landing.ABSENT

    async def recall(self, query: RecallQuery) -> list[Recollection]:
        try:
            return await recall(self._client, self.names, self._setup.name, query)
        except HonchoCallFailed as failure:
            raise ProviderFailed(f"{self._setup.name}: {failure.outcome.reason}", provider=self._setup.name) from None

    async def migrate(self, files: Mapping[str, str], *, subject: str = "") -> dict[str, Outcome]:
        """Bring memory files over that are older than the Honcho setup, each at most once (R19)."""
        migration = FileMigration(self._client, self.names, self._setup, self.capabilities.quiet_ms, subject)
        return await migration.run(files)

    async def healthy(self) -> str | None:
        return await _complaint(self._client.check_database())

    async def inspect(self) -> str | None:
        return await _complaint(self._client.check_access())

    async def close(self) -> None:
        await self._client.close()


async def _complaint(check: Awaitable[None]) -> str | None:
    try:
        await check
    except HonchoCallFailed as failure:
        return failure.outcome.reason
    return None
