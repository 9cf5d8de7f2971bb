"""The status of a store: what needs a person, what is stuck, what waits, and which processes serve it.

Rule 1: "needs you" is what holds a turn up until a person acts. "Stuck" is what does not go on although it could: a
        delivery that a provider refuses while it takes others, a turn whose process is gone, mail that nobody takes.
        What is parked, uncertain or failed holds nothing up; it waits for a decision. What mends itself needs nobody.
Rule 2: a need has no words of people but the names that the operator gave or the platform told.
Rule 3: states of connections (channels, tool servers, models) are known to the serving process alone; its caller adds
        them as needs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from holdfast.kernel.ids import Instant
from holdfast.monitor.durations import duration
from holdfast.monitor.queues import OPEN_DELIVERIES, Queues
from holdfast.monitor.trace import NodeRun
from holdfast.turns.agent_pause import AgentPause


class Urgency(Enum):
    """In the order in which a person should look."""

    HOLDS_UP = "needs you"
    STUCK = "stuck"
    DECIDE = "to be decided"
    MENDS = "mends itself"


class NeedKind(Enum):
    NOT_SERVING = "not serving"
    STORE = "store"
    APPROVAL = "approval"
    TURN = "turn"
    MAIL = "mail"
    PAUSE = "pause"
    DELIVERY = "delivery"
    LANE = "lane"
    REPLY = "reply"
    EXTRACTION = "extraction"
    PAIRING = "pairing"
    CHANNEL = "channel"
    TOOLS = "tools"
    MODEL = "model"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    urgency: Urgency
    kind: NeedKind
    agent: str
    what: str  # a sentence without a full stop
    since: Instant
    evidence: str = ""
    subject: str = ""  # the id to act on
    name: str = ""  # of the provider, channel or tool server
    until: Instant | None = None  # when it decides itself
    command: str = ""  # what a person would type
    count: int = 1

    @property
    def order(self) -> tuple[int, int, int]:
        """What holds a person up first, with the least time left; then the oldest."""
        return list(Urgency).index(self.urgency), self.until or 2**62, self.since


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTurn:
    agent: str
    session: str
    n: int
    phase: str
    attempt: int
    opened_at: Instant
    message: str
    chat: str
    node: str | None
    is_claimed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    id: str
    host: str
    started_at: Instant
    heartbeat_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """What the store knows. `newest_in` and `newest_turn` are by agent."""

    at: Instant
    queues: Queues
    needs: Sequence[Need] = ()
    running: Sequence[RunningTurn] = ()
    nodes: Sequence[Node] = ()
    proved_at: Instant | None = None  # the newest write of a health check or of a lease that was renewed
    paused: Sequence[AgentPause] = ()
    lost: Sequence[NodeRun] = ()  # processes that ended without a word in the last hour


def ordered(needs: Iterable[Need]) -> list[Need]:
    return sorted(needs, key=lambda need: need.order)


@dataclass(frozen=True, slots=True)
class Headline:
    """One sentence to say aloud, and a second line of what holds nothing up."""

    first: tuple[str, ...]
    second: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return " · ".join(self.first)


def headline(status: StoreStatus, more: Iterable[Need] = ()) -> Headline:
    needs = [*status.needs, *more]

    def count(urgency: Urgency, *kinds: NeedKind) -> int:
        some = [need for need in needs if need.urgency is urgency and (not kinds or need.kind in kinds)]
        return sum(need.count for need in some)

    deliveries = [queue for queue in status.queues.deliveries.values() if queue.count(*OPEN_DELIVERIES)]
    waiting = sum(queue.count(*OPEN_DELIVERIES) for queue in deliveries)
    oldest_ms = max((status.queues.age_ms(queue) for queue in deliveries), default=0)
    messages = sum(queue.count("waiting") for queue in status.queues.messages.values())
    first = (
        plural(count(Urgency.HOLDS_UP), "needs you", "need you"),
        f"{stuck} stuck" if (stuck := count(Urgency.STUCK)) else "",
        plural(messages, "message waits", "messages wait"),
        f"{plural(waiting, 'delivery waits', 'deliveries wait')}, oldest {duration(oldest_ms)}" if waiting else "",
    )
    second = (
        plural(count(Urgency.DECIDE, NeedKind.PAUSE), "agent is paused", "agents are paused"),
        plural(count(Urgency.DECIDE, NeedKind.REPLY), "reply to decide", "replies to decide"),
        plural(count(Urgency.DECIDE, NeedKind.DELIVERY), "delivery to decide", "deliveries to decide"),
        plural(count(Urgency.DECIDE, NeedKind.EXTRACTION), "extraction failed", "extractions failed"),
        plural(count(Urgency.DECIDE, NeedKind.PAIRING), "person asks to be let in", "people ask to be let in"),
        plural(count(Urgency.MENDS), "thing mends itself", "things mend themselves"),
    )
    return Headline(tuple(filter(None, first)) or ("Nothing needs you",), tuple(filter(None, second)))


def plural(count: int, one: str, many: str) -> str:
    """A count with its words; empty for none."""
    return f"{count} {one if count == 1 else many}" if count else ""
