"""The pages in the order of the menu, and what each counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.monitor.queues import OPEN_DELIVERIES
from holdfast.monitor.status import Need, NeedKind, StoreStatus, Urgency


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What the menu says beside a page: how much is there, and whether it waits for a person."""

    number: int = 0
    hot: bool = False


Counting = Callable[[StoreStatus, Sequence[Need]], Counts]


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuEntry:
    path: str
    title: str
    icon: str
    key: str  # after `g`
    count: Counting | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuGroup:
    title: str
    entries: tuple[MenuEntry, ...]


def waiting(kind: NeedKind) -> Counting:
    """Count the needs of a kind that wait for a person."""

    def count(_status: StoreStatus, needs: Sequence[Need]) -> Counts:
        wanted = {Urgency.HOLDS_UP, Urgency.STUCK, Urgency.DECIDE}
        return Counts(number=sum(one.count for one in needs if one.kind is kind and one.urgency in wanted), hot=True)

    return count


def undelivered(status: StoreStatus, needs: Sequence[Need]) -> Counts:
    number = sum(queue.count(*OPEN_DELIVERIES, "parked") for queue in status.queues.deliveries.values())
    stuck = any(one.kind is NeedKind.LANE for one in needs)
    return Counts(number=number, hot=stuck)


def broken(_status: StoreStatus, needs: Sequence[Need]) -> Counts:
    kinds = {NeedKind.CHANNEL, NeedKind.TOOLS, NeedKind.MODEL, NeedKind.STORE, NeedKind.NOT_SERVING}
    return Counts(number=sum(one.kind in kinds for one in needs), hot=True)


MENU = (
    MenuGroup(title="", entries=(MenuEntry(path="/console", title="Overview", icon="overview", key="o"),)),
    MenuGroup(
        title="Conversations",
        entries=(
            MenuEntry(path="/console/messages", title="Messages", icon="messages", key="m"),
            MenuEntry(path="/console/sessions", title="Sessions", icon="sessions", key="s"),
            MenuEntry(path="/console/trace", title="Trace", icon="trace", key="t"),
            MenuEntry(
                path="/console/approvals",
                title="Approvals",
                icon="approvals",
                key="a",
                count=waiting(NeedKind.APPROVAL),
            ),
            MenuEntry(path="/console/replies", title="Replies", icon="replies", key="r", count=waiting(NeedKind.REPLY)),
        ),
    ),
    MenuGroup(
        title="Memory",
        entries=(
            MenuEntry(path="/console/deliveries", title="Deliveries", icon="deliveries", key="d", count=undelivered),
            MenuEntry(path="/console/memory", title="Notes", icon="memory", key="n"),
            MenuEntry(
                path="/console/finish", title="Finish", icon="finish", key="f", count=waiting(NeedKind.EXTRACTION)
            ),
        ),
    ),
    MenuGroup(
        title="Upkeep",
        entries=(
            MenuEntry(path="/console/people", title="People", icon="people", key="p", count=waiting(NeedKind.PAIRING)),
            MenuEntry(path="/console/spend", title="Spend", icon="spend", key="c"),
            MenuEntry(path="/console/health", title="Health", icon="health", key="h", count=broken),
            MenuEntry(path="/", title="Chat", icon="chat", key="w"),
        ),
    ),
)
