"""The JSON shapes of memory: deliveries, replays and recall."""

from collections.abc import Callable

from holdfast.api.shapes.shapes import Delivery, Shape, delivery_view
from holdfast.api.shapes.view import each, page_of, view_of
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


deliveries_view = page_of(Deliveries, delivery_view)
memories_view: Callable[[RecallOutcome], Memories] = view_of(Memories, memories=each("memories", view_of(Memory)))
