"""The provider: each operation goes to the module that knows it, and every failure becomes an outcome.

It keeps nothing between calls but the SDK's client. Names come from providers/honcho/naming.py, words from words.py.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby

from holdfast.kernel.errors import ProviderFailed
from holdfast.memory.delivery import Delivered, Landing, Op, Outcome, Parcel, Refused, Uncertain
from holdfast.memory.note_order import may_pass
from holdfast.memory.provider import Capabilities, ProviderSetup
from holdfast.memory.recall import RecallQuery, Recollection
from holdfast.providers.honcho.client import Calls
from holdfast.providers.honcho.erase import erase, erased
from holdfast.providers.honcho.faults import CallFailed
from holdfast.providers.honcho.ledger import FileLedger
from holdfast.providers.honcho.migrate import Mover, migrate_memory_files
from holdfast.providers.honcho.recall import recall
from holdfast.providers.honcho.remember import remember, remembered
from holdfast.providers.honcho.rendering import RENDERER, render
from holdfast.providers.honcho.retain import WAITS, retain, retained
from holdfast.providers.honcho.settings import HonchoSettings

DELIVERED_MEANS = (
    "Honcho stored it and lists it. What it derives from it comes later, and is lost for these words if the server is "
    "killed right after its answer"
)
CAPABILITIES = Capabilities(
    renderer=RENDERER,
    delivered_means=DELIVERED_MEANS,
    retracts=False,  # Honcho can change a message's metadata only, and what was concluded from it stays
    units_per_lane=20,
    calls_max=16,
    notes_pass=True,  # a conclusion is known by its text, and the order of conclusions shows nowhere
    quiet_ms=30_000,  # a request waits up to 5 s for its session's lock; the rest is for slow machines
)


class HonchoProvider:
    """Implements `Provider`."""

    def __init__(self, setup: ProviderSetup, settings: HonchoSettings, key: str | None) -> None:
        self.names = settings.names()
        self._setup = setup
        self._calls = Calls(
            url=settings.url,
            workspace=settings.workspace,
            key=key,
            key_env=settings.api_key_env,
            timeout_s=settings.timeout_s,
        )

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    async def deliver(self, parcels: Sequence[Parcel]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        stopped: set[str] = set()
        for (place, op), run in groupby(parcels, key=lambda parcel: (parcel.place, parcel.op)):
            carried = list(run)
            outcomes += [WAITS] * len(carried) if place in stopped else await self._carry(place, op, carried)
            if any(not isinstance(outcome, Delivered) for outcome in outcomes[-len(carried) :]):
                stopped.add(place)
        return outcomes

    async def _carry(self, place: str, op: Op, parcels: Sequence[Parcel]) -> list[Outcome]:
        """Parcels of one place and one kind, in order."""
        if op is Op.RETAIN:
            return await retain(self._calls, place, [render(parcel, self.names) for parcel in parcels])
        outcomes: list[Outcome] = []
        waiting: list[Parcel] = []
        for parcel in parcels:
            if waiting and not may_pass(parcel, waiting):
                outcomes.append(WAITS)
                waiting.append(parcel)
                continue
            outcomes.append(await self._one(parcel))
            if isinstance(outcomes[-1], Uncertain):
                waiting.append(parcel)
            elif not isinstance(outcomes[-1], Delivered):
                break
        return outcomes + [WAITS] * (len(parcels) - len(outcomes))

    async def _one(self, parcel: Parcel) -> Outcome:
        if parcel.op is Op.REMEMBER:
            return await remember(self._calls, self.names, parcel)
        if parcel.op is Op.ERASE and parcel.erasure is not None:
            return await erase(self._calls, self.names, parcel.erasure)
        return Refused(f"Honcho cannot {parcel.op.value} single messages")

    async def landed(self, parcel: Parcel) -> Landing:
        if parcel.op is Op.RETAIN:
            return await retained(self._calls, parcel.place, render(parcel, self.names))
        if parcel.op is Op.REMEMBER:
            return await remembered(self._calls, self.names, parcel)
        if parcel.op is Op.ERASE and parcel.erasure is not None:
            return await erased(self._calls, self.names, parcel.erasure)
        return Landing.ABSENT

    async def recall(self, query: RecallQuery) -> list[Recollection]:
        try:
            return await recall(self._calls, self.names, self._setup.name, query)
        except CallFailed as failure:
            raise ProviderFailed(f"{self._setup.name}: {failure.outcome.reason}", provider=self._setup.name) from None

    async def migrate(self, files: Mapping[str, str], *, subject: str = "") -> dict[str, Outcome]:
        """Bring memory files over that were there before Honcho was, each at most once (R19)."""
        mover = Mover(
            calls=self._calls,
            names=self.names,
            ledger=FileLedger(self._setup.folder),
            tasks=self._setup.tasks,
            quiet_ms=CAPABILITIES.quiet_ms,
            agent=self._setup.agent,
            subject=subject,
        )
        return await migrate_memory_files(mover, files, now=self._setup.clock.now())

    async def healthy(self) -> str | None:
        try:
            await self._calls.prove()
        except CallFailed as failure:
            return failure.outcome.reason
        return None

    async def inspect(self) -> str | None:
        try:
            await self._calls.look()
        except CallFailed as failure:
            return failure.outcome.reason
        return None

    async def close(self) -> None:
        await self._calls.close()
