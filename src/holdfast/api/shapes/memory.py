"""The JSON shapes of memory: deliveries, replays, recall and forgetting."""

from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct, field

from holdfast.api.shapes.shapes import Delivery, delivery_view
from holdfast.api.shapes.view import Shape, each, page_of, view_of
from holdfast.memory.delivery import OPEN, DeliveryState
from holdfast.memory.forget import KEPT, KEPT_OF_PERSON, KEPT_OF_SESSION, ErasurePart, ForgetKind, Forgetting
from holdfast.memory.recall import RecallOutcome

PENDING = "forget_pending"
STOPPED = frozenset({DeliveryState.PARKED, DeliveryState.DROPPED, DeliveryState.RETRACTED})


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


class ForgetWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Forgets a session, or a person (at all agents unless one is named). Repeating an `id` is safe."""

    session: str | None = None
    person: str | None = None
    agent: str | None = None
    id: str | None = None


class ForgetPart(Shape, frozen=True, kw_only=True):
    """One place that held the data, and its receipt. A parked part waits for an operator to resolve its reason."""

    what: Literal["journal", "files", "recalled", "provider"]
    state: Literal["done", "pending", "parked"]
    at: int | None = None
    provider: str | None = None
    place: str | None = None
    delivery: str | None = None
    attempt: int = 0
    next_try_at: int | None = None
    receipt: str | None = None
    reason: str | None = None


class ForgetKept(Shape, frozen=True, kw_only=True):
    """One kind of data that is not erased, the reason, and its count if known."""

    what: str
    why: str
    count: int | None = None


class ForgetReport(Shape, frozen=True, kw_only=True):
    """Progress of a request to forget. `status` is `done` when every part is; until then `code` is `forget_pending`."""

    forget: str
    status: Literal["pending", "done"]
    code: str | None
    requested_at: int
    agent: str | None = None
    session: str | None = None
    person: str | None = None
    blanked: dict[str, int] = field(default_factory=dict)
    kept: list[ForgetKept] = field(default_factory=list)
    parts: list[ForgetPart] = field(default_factory=list)


forget_view: Callable[[Forgetting], ForgetReport] = view_of(
    ForgetReport,
    forget="id",
    status=lambda found: "done" if found.done else "pending",
    code=lambda found: None if found.done else PENDING,
    session=lambda found: found.subject if found.kind is ForgetKind.SESSION else None,
    person=lambda found: found.subject if found.kind is ForgetKind.PERSON else None,
    blanked=lambda found: dict(found.blanked),
    kept=lambda found: list(_kept(found)),
    parts=lambda found: list(_parts(found)),
)
_provider: Callable[[ErasurePart], ForgetPart] = view_of(
    ForgetPart,
    what=lambda _part: "provider",
    state=lambda part: "done" if part.done else "parked" if part.state in STOPPED else "pending",
    at=lambda _part: None,
    next_try_at=lambda part: part.due_at if part.state in OPEN else None,
)


def _kept(found: Forgetting) -> Iterator[ForgetKept]:
    more = KEPT_OF_PERSON if found.kind is ForgetKind.PERSON else KEPT_OF_SESSION
    for what, why in (KEPT | more).items():
        yield ForgetKept(what=what, why=why, count=found.kept.get(what))


def _parts(found: Forgetting) -> Iterator[ForgetPart]:
    yield ForgetPart(what="journal", state="done", at=found.requested_at, receipt="blanked in one transaction")
    if found.scrubbed_at is None:
        yield ForgetPart(what="files", state="pending", reason="the store's files are about to be written anew")
    else:
        yield ForgetPart(what="files", state="done", at=found.scrubbed_at, receipt=found.scrub_receipt)
    yield from (_provider(part) for part in found.parts)
    if found.parts and found.swept_at is None:
        reason = "copies that recall makes are blanked once every provider has erased its own"
        yield ForgetPart(what="recalled", state="pending", reason=reason)
    elif found.parts:
        yield ForgetPart(what="recalled", state="done", at=found.swept_at)
