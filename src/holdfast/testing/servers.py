"""The simulated servers behind memory providers: the parcels that arrived, in the order of their effects.

Servers belong to the world, not to a node: a request that was sent arrives even if its node died meanwhile. Nothing
here fails or is random; `providers.py` simulates the faults on the way.

Erasing removes the words and keeps the ids, so a repeated request does not restore erased words.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from holdfast.kernel.ids import Provider
from holdfast.memory.delivery import Op, Parcel
from holdfast.memory.lane import LaneKey
from holdfast.memory.recall import RecallQuery, Recollection


@dataclass(frozen=True, slots=True)
class Lookup:
    """One query to a provider's memory; its recollections contain the number."""

    n: int
    lane: LaneKey
    query: RecallQuery


@dataclass(slots=True)
class Server:
    """One provider of one agent. An idempotent one keeps the first parcel of each id."""

    idempotent: bool
    effects: list[Parcel] = field(default_factory=list)
    arrivals: Counter[str] = field(default_factory=Counter)
    erased: list[Parcel] = field(default_factory=list)  # whole units that were erased, with their words
    down_until_s: float = 0.0
    blind_until_s: float = 0.0  # until then it cannot report what has landed
    index: set[str] = field(default_factory=set)  # the ids that can be found; `effects` is the complete history
    lost: bool = False  # whether the index has to be rebuilt
    refills: list[list[str]] = field(default_factory=list)  # each as the ids in their order

    def take(self, parcels: Sequence[Parcel]) -> None:
        for parcel in parcels:
            self.arrivals[parcel.id] += 1
            self.index.add(parcel.id)
            if not (self.idempotent and self.arrivals[parcel.id] > 1):
                self.effects.append(parcel)
                if parcel.erasure is not None:
                    self.erase(parcel.erasure.deliveries, parcel.place, str(parcel.erasure.principal))

    def erase(self, deliveries: Collection[str], place: str, speaker: str) -> None:
        """Erase the words of whole units, and all other words of the speaker at this place."""
        for n, parcel in enumerate(self.effects):
            whole = parcel.id in deliveries or parcel.of in deliveries
            if whole and parcel.turns:
                self.erased.append(parcel)
            if whole or parcel.place == place:
                self.effects[n] = _without(parcel, None if whole else speaker)

    def lose_index(self) -> None:
        self.index.clear()
        self.lost = True

    def fill_index(self, deliveries: Sequence[str]) -> None:
        """Rebuild the index, beside the parcels that arrive meanwhile."""
        self.refills.append(list(deliveries))
        self.index.update(deliveries)
        self.lost = False

    def words(self, place: str | None = None) -> list[str]:
        """Every text that is kept, of one place or of all."""
        kept = [parcel for parcel in self.effects if place in (None, parcel.place)]
        return [line.text for parcel in kept for turn in parcel.turns for line in turn.lines]

    def has(self, parcel: Parcel) -> bool:
        """Whether the index contains the id: parcels of a lost index are unknown."""
        return parcel.id in self.index

    def found(self, query: RecallQuery, provider: Provider) -> Sequence[Recollection]:
        """The recollections for a query, beside the part that every recollection contains."""
        del query, provider
        return ()

    def heal(self) -> None:
        self.down_until_s = self.blind_until_s = 0.0

    def remembered(self, session: str) -> Counter[int]:
        """How often each turn of a session is present, without retracted ones."""
        turns: Counter[int] = Counter()
        for parcel in self.effects:
            if parcel.session == session and parcel.op is Op.RETAIN:
                turns.update(turn.n for turn in parcel.turns)
            elif parcel.session == session and parcel.op is Op.RETRACT:
                for n in parcel.gone:
                    turns.pop(n, None)
        return turns


def _without(parcel: Parcel, speaker: str | None) -> Parcel:
    """The parcel without any words, or without those of one speaker."""
    if speaker is None:
        return replace(parcel, turns=())
    turns = [
        replace(turn, lines=tuple(line for line in turn.lines if line.speaker != speaker)) for turn in parcel.turns
    ]
    return replace(parcel, turns=tuple(turns))
