"""The outside surface of memory as JSON shapes: deliveries, replays, recollections. The rest is in surface.py."""

from collections.abc import Sequence

from holdfast.api.shapes.shapes import Delivery, Shape, delivery_view
from holdfast.memory.delivery import DeliveryView
from holdfast.memory.recall import RecallOutcome


class Deliveries(Shape, frozen=True, kw_only=True):
    """Newest first; `next` is what to ask for as `after` to read on."""

    deliveries: list[Delivery]
    next: int | None


class Replayed(Shape, frozen=True, kw_only=True):
    """A parked delivery is on its lane again."""

    delivery: str
    state: str


class Memory(Shape, frozen=True, kw_only=True):
    """One remembered thing, with where it is from."""

    provider: str
    text: str
    session: str | None
    turn: int | None
    speaker: str
    at: int | None
    ref: str


class Memories(Shape, frozen=True, kw_only=True):
    """Best first. `skipped` says which providers had to be left out."""

    memories: list[Memory]
    skipped: list[str]


def deliveries_view(found: Sequence[DeliveryView], limit: int) -> Deliveries:
    return Deliveries(
        deliveries=[delivery_view(one) for one in found],
        next=found[-1].n if found and len(found) == limit else None,
    )


def memories_view(found: RecallOutcome) -> Memories:
    return Memories(
        memories=[
            Memory(
                provider=one.provider,
                text=one.text,
                session=one.session,
                turn=one.turn,
                speaker=one.speaker,
                at=one.at,
                ref=one.ref,
            )
            for one in found.memories
        ],
        skipped=list(found.skipped),
    )
