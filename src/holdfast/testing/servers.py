"""The far ends of memory providers: what arrived there, in the order in which it took effect.

They belong to the world, not to a node: a request that was sent arrives although its sender died meanwhile. Nothing
here fails or chooses; what goes wrong on the way is the affair of `providers`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.core.delivery import Op, Parcel
from holdfast.core.lane import LaneKey
from holdfast.core.recall import RecallQuery


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
    down_until_s: float = 0.0
    blind_until_s: float = 0.0  # until then it cannot say what it has

    def take(self, parcels: Sequence[Parcel]) -> None:
        for parcel in parcels:
            self.arrivals[parcel.id] += 1
            if not (self.idempotent and self.arrivals[parcel.id] > 1):
                self.effects.append(parcel)

    def has(self, parcel: Parcel) -> bool:
        return self.arrivals[parcel.id] > 0

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
