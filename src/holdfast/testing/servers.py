"""The far ends of memory providers: what arrived there, in the order in which it took effect.

They belong to the world, not to a node: a request that was sent arrives although its sender died meanwhile. Nothing
here fails or chooses; what goes wrong on the way is the affair of `providers`.

Erasing takes the words and leaves the envelopes: an id that was erased is still known, so what is sent twice does not
bring them back.
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
    """One question to a provider's memory; what it answers carries the number."""

    n: int
    lane: LaneKey
    query: RecallQuery


@dataclass(slots=True)
class Server:
    """One provider of one agent. One that is idempotent keeps the first parcel of each id."""

    idempotent: bool
    effects: list[Parcel] = field(default_factory=list)
    arrivals: Counter[str] = field(default_factory=Counter)
    erased: list[Parcel] = field(default_factory=list)  # what was taken out whole, as it was before
    down_until_s: float = 0.0
    blind_until_s: float = 0.0  # until then it cannot say what it has
    index: set[str] = field(default_factory=set)  # what can be found there; the effects are what ever happened
    lost: bool = False  # the index, which has to be filled again
    refills: list[list[str]] = field(default_factory=list)  # each, as the ids in the order in which they came

    def take(self, parcels: Sequence[Parcel]) -> None:
        for parcel in parcels:
            self.arrivals[parcel.id] += 1
            self.index.add(parcel.id)
            if not (self.idempotent and self.arrivals[parcel.id] > 1):
                self.effects.append(parcel)
                if parcel.erasure is not None:
                    self.erase(parcel.erasure.deliveries, parcel.place, str(parcel.erasure.principal))

    def erase(self, deliveries: Collection[str], place: str, speaker: str) -> None:
        """Take out the words of whole units, and at this place whatever else the speaker said."""
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
        """Fill it again, beside what arrives meanwhile."""
        self.refills.append(list(deliveries))
        self.index.update(deliveries)
        self.lost = False

    def words(self, place: str | None = None) -> list[str]:
        """Every text that is kept, of one place or of all."""
        kept = [parcel for parcel in self.effects if place in (None, parcel.place)]
        return [line.text for parcel in kept for turn in parcel.turns for line in turn.lines]

    def has(self, parcel: Parcel) -> bool:
        """It answers from its index: what was lost with it is not known to have come."""
        return parcel.id in self.index

    def found(self, query: RecallQuery, provider: Provider) -> Sequence[Recollection]:
        """What it has on a question, beside what every recollection says."""
        del query, provider
        return ()

    def heal(self) -> None:
        self.down_until_s = self.blind_until_s = 0.0

    def remembered(self, session: str) -> Counter[int]:
        """How often each turn of a session is there now, after what was taken back."""
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
