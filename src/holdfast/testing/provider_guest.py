"""A user of the memory provider under test: makes parcels, delivers them, and recalls them."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from holdfast.kernel.ids import AgentName, DeliveryId, Instant, Principal, SessionId
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.memory.delivery import (
    Delivered,
    Erasure,
    Landing,
    MemoryNote,
    Naming,
    NamingInputs,
    Op,
    Outcome,
    Parcel,
    PerSession,
    SaidTurn,
    SpokenLine,
)
from holdfast.memory.provider import Capabilities, Provider
from holdfast.memory.recall import RecallKey, RecallQuery, Recollection

Settled: TypeAlias = Callable[[], Awaitable[None]]
START = 1_700_000_000_000
ADA, BEN = Principal("ada"), Principal("ben")
HOME, BENS, GROUP = "check:dm:ada", "check:dm:ben", "check:group:club"
ROBOT = Principal("agent:moss")  # another agent, which asks on behalf of ada and of ben
FOR_ADA, FOR_BEN = (f"agent:dm:agent%3Amoss%3A{who.replace(':', '%3A')}" for who in (HOME, BENS))
ABOARD = "check:dm:ada-aboard"  # a chat of its own: a provider may keep the sessions of one chat as one


async def at_once() -> None:
    """For providers whose memories can be recalled as soon as they are delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestPlace:
    """The chat and the person of a message or query."""

    session: str = "ses_ada"
    principal: Principal = ADA
    chat: str = HOME
    agent: str = "fern"

    @property
    def inputs(self) -> NamingInputs:
        address = f"agent:{self.agent}:{self.chat}"
        agent, session = AgentName(self.agent), SessionId(self.session)
        return NamingInputs(agent=agent, session=session, principal=self.principal, address=address)


@dataclass(slots=True)
class Guest:
    provider: Provider
    naming: Naming = field(default_factory=PerSession)
    settled: Settled = at_once
    verbatim: bool = True  # recall returns the delivered text word for word
    agent: str = "fern"
    _made: int = 0

    @property
    def able(self) -> Capabilities:
        return self.provider.capabilities

    def at(self, session: str = "ses_ada", principal: Principal = ADA, chat: str = HOME) -> GuestPlace:
        return GuestPlace(session=session, principal=principal, chat=chat, agent=self.agent)

    def _id(self) -> DeliveryId:
        self._made += 1
        return DeliveryId(f"dlv_check_{self._made:04d}")

    # --- parcels -----------------------------------------------------------------------------------

    def said(self, *texts: str, place: GuestPlace | None = None, turn: int = 1) -> Parcel:
        """One unit: each text is a turn of its own."""
        where = place or self.at()
        turns = tuple(self._turn(turn + n, text, where) for n, text in enumerate(texts))
        return self._parcel(Op.RETAIN, where, turns=turns)

    def undone(self, unit: Parcel, *gone: int) -> Parcel:
        left = tuple(turn for turn in unit.turns if turn.n not in gone)
        return Parcel(
            id=self._id(),
            op=Op.RETRACT,
            provider=unit.provider,
            place=unit.place,
            naming=unit.naming,
            turns=left,
            of=unit.id,
            gone=gone,
        )

    def noted(self, op: str, text: str, old: str = "") -> Parcel:
        self._made += 1
        note = MemoryNote(
            seq=self._made, target="memory", op=op, text=text, old_text=old, at=Instant(START + self._made)
        )
        where = self.at()
        place = self.naming.memory_place(where.inputs.agent, "")
        return self._parcel(Op.REMEMBER, where, note=note, place=place)

    def forgotten(self, *units: Parcel, session: str | None = None, principal: Principal | None = None) -> Parcel:
        where = GuestPlace(session=session or "ses_ada", principal=principal or ADA, agent=self.agent)
        erasure = Erasure(
            agent=where.inputs.agent,
            session=SessionId(session) if session else None,
            principal=principal,
            places=tuple(dict.fromkeys(unit.place for unit in units)),
            deliveries=tuple(unit.id for unit in units),
        )
        return self._parcel(Op.ERASE, where, erasure=erasure)

    def _parcel(
        self,
        op: Op,
        where: GuestPlace,
        *,
        turns: tuple[SaidTurn, ...] = (),
        note: MemoryNote | None = None,
        erasure: Erasure | None = None,
        place: str = "",
    ) -> Parcel:
        return Parcel(
            id=self._id(),
            op=op,
            provider=ProviderName("check"),
            place=place or self.naming.place(where.inputs),
            naming=where.inputs,
            turns=turns,
            note=note,
            erasure=erasure,
        )

    def _turn(self, n: int, text: str, where: GuestPlace) -> SaidTurn:
        at = Instant(START + n * 60_000)
        return SaidTurn(
            n=n,
            lines=(
                SpokenLine(role="user", speaker=where.principal, text=text, at=at, seq=2 * n - 1, message=f"m{n}"),
                SpokenLine(role="assistant", speaker=where.agent, text="I see.", at=at, seq=2 * n),
            ),
        )

    # --- delivering and recalling -------------------------------------------------------------------------

    async def carry(self, *parcels: Parcel) -> list[Outcome]:
        """Deliver as the dispatcher does: in order, within the provider's limit per call. Returns one outcome each."""
        outcomes: list[Outcome] = []
        for call in self._calls(parcels):
            found = list(await self.provider.deliver(call))
            assert len(found) == len(call), f"{len(call)} parcels got {len(found)} outcomes"
            outcomes += found
        return outcomes

    def _calls(self, parcels: Sequence[Parcel]) -> list[list[Parcel]]:
        calls: list[list[Parcel]] = []
        for parcel in parcels:
            places = [one.place for one in calls[-1]] if calls else []
            fits = len({*places, parcel.place}) <= self.able.lanes_per_call
            if calls and fits and places.count(parcel.place) < self.able.units_per_lane:
                calls[-1].append(parcel)
            else:
                calls.append([parcel])
        return calls

    async def keep(self, *parcels: Parcel) -> None:
        """Deliver parcels; all must be acknowledged."""
        for parcel, outcome in zip(parcels, await self.carry(*parcels), strict=True):
            assert isinstance(outcome, Delivered), f"{parcel.op.value} {parcel.id}: {outcome}"

    async def has_landed(self, parcel: Parcel) -> bool:
        return await self.provider.landed(parcel) is Landing.LANDED

    async def recall(
        self, text: str, place: GuestPlace | None = None, *, group: bool = False, limit: int = 20
    ) -> Sequence[Recollection]:
        where = place or self.at(session="ses_asking")
        await self.settled()
        key = RecallKey(session=where.inputs.session, epoch=0, head_seq=0, principal=where.principal)
        query = RecallQuery(key=key, naming=where.inputs, text=text, group=group, limit=limit)
        return await self.provider.recall(query)

    async def times(self, word: str, place: GuestPlace | None = None, *, group: bool = False) -> int:
        """How many recollections contain the word; none if the provider cannot recall."""
        if not self.able.recalls:
            return 0
        return sum(word in memory.text for memory in await self.recall(word, place, group=group))

    async def found_once(self, word: str, place: GuestPlace | None = None) -> None:
        """Assert that a word is recalled once, if recall is verbatim."""
        if self.able.recalls and self.verbatim:
            times = await self.times(word, place)
            assert times == 1, f"{word} is recalled {times} times"
