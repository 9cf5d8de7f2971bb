"""The JSON shapes of repairs: what a request means, what would happen, and what happened."""

from collections.abc import Sequence

from msgspec import Struct

from holdfast.api.shapes.view import Shape, view_of
from holdfast.kernel.errors import InvalidInput
from holdfast.repair.plan import PlannedItem, Repaired, RepairFilter, RepairPlan

LIMIT_MAX = 10_000


class RepairWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which items, by id or by filter; with `dry_run` nothing is changed. Without ids and filters, `all` must be true.

    `name` is the provider of deliveries, or the channel of replies and messages; `reason` is a part of the reason.
    """

    ids: list[str] = []
    agent: str = ""
    name: str = ""
    state: str = ""
    reason: str = ""
    older_than_s: int = 0
    all: bool = False
    limit: int = LIMIT_MAX
    dry_run: bool = False


class RepairItem(Shape, frozen=True, kw_only=True):
    """One item: what becomes of it (`effect`), or why it is left as it is (`obstacle`)."""

    id: str
    agent: str
    name: str
    place: str
    state: str  # before
    since: int
    reason: str | None
    effect: str
    obstacle: str


class RepairReport(Shape, frozen=True, kw_only=True):
    """The plan of a dry run, or what was done."""

    act: str
    what: str
    dry_run: bool
    at: int
    count: int  # items that are, or would be, changed
    left: int  # items that are, or would be, left as they are
    unknown: list[str]  # ids that name nothing
    more: bool  # more items match than were looked at
    items: list[RepairItem]


OF_ITEM = ("id", "agent", "name", "place", "state", "since", "reason")
item_view = view_of(RepairItem, **{name: f"item.{name}" for name in OF_ITEM})


def plan_view(plan: RepairPlan) -> RepairReport:
    return _report(plan, [item_view(one) for one in plan.items], dry_run=True)


def done_view(plan: RepairPlan, done: Sequence[Repaired]) -> RepairReport:
    """What was done of a plan; an item that changed in between has its obstacle."""
    obstacles = {one.id: one.obstacle for one in done}
    items = [item_view(_after(one, obstacles.get(one.item.id, ""))) for one in plan.items]
    return _report(plan, items, dry_run=False)


def _after(one: PlannedItem, obstacle: str) -> PlannedItem:
    return PlannedItem(item=one.item, obstacle=obstacle) if obstacle and not one.obstacle else one


def _report(plan: RepairPlan, items: list[RepairItem], *, dry_run: bool) -> RepairReport:
    left = sum(bool(one.obstacle) for one in items)
    return RepairReport(
        act=plan.verb.value,
        what=plan.subject.value,
        dry_run=dry_run,
        at=plan.at,
        count=len(items) - left,
        left=left,
        unknown=list(plan.unknown),
        more=plan.is_cut,
        items=items,
    )


def check_wish(wish: RepairWish) -> None:
    """Raises `InvalidInput` for a wish that names nothing, or contradicts itself."""
    narrowed = bool(wish.agent or wish.name or wish.state or wish.reason or wish.older_than_s)
    if wish.ids and (narrowed or wish.all):
        raise InvalidInput("ids and filters exclude each other")
    if not (wish.ids or narrowed or wish.all):
        raise InvalidInput("name ids or a filter, or say that all are meant")
    if wish.older_than_s < 0 or not 1 <= wish.limit <= LIMIT_MAX:
        raise InvalidInput(f"older_than_s is 0 or more, and limit from 1 to {LIMIT_MAX}")


def filter_of(wish: RepairWish, agents: frozenset[str] = frozenset()) -> RepairFilter:
    return RepairFilter(
        ids=tuple(wish.ids),
        agent=wish.agent,
        name=wish.name,
        state=wish.state,
        reason=wish.reason,
        older_than_ms=wish.older_than_s * 1_000,
        agents=agents,
    )
