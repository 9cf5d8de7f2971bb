"""The JSON shapes of memory: deliveries, replays and recall."""

from collections.abc import Sequence

from holdfast.api.shapes.shapes import Delivery, Shape, delivery_view
from holdfast.memory.delivery import DeliveryView
from holdfast.memory.recall import RecallOutcome


class Deliveries(Shape, frozen=True, kw_only=True):
    """Newest first; `next` is the value of `after` for the next page."""

    deliveries: list[Delivery]
    next: int | None


class Replayed(Shape, frozen=True, kw_only=True):
    """The parked delivery is on its lane again."""

    delivery: str
    state: str


class Memory(Shape, frozen=True, kw_only=True):
    """One memory, with its source."""

    provider: str
    text: str
    session: str | None
    turn: int | None
    speaker: str
    at: int | None
    ref: str


class Memories(Shape, frozen=True, kw_only=True):
    """Best match first. `skipped` lists the providers that were left out."""

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
