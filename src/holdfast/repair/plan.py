"""The plan of a repair: which items a request means, and what it would do to each of them. This module is pure.

Rule 1: a plan is the dry run. What is carried out is the same decision, made again under lock about each planned item;
        an item that changed meanwhile is left as it is, with the reason.
Rule 2: nothing is dropped without a trace. A delivery that is given up is parked, a reply that is given up is failed or
        uncertain, and both say who decided it; they can be replayed and resent later. A message that is given up is
        interrupted, and its sender is told.
Rule 3: only what is in doubt can be settled as arrived, and it then says who said so.
Rule 4: what a process is sending at the moment is left as it is.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from holdfast.kernel.ids import Instant


class RepairVerb(Enum):
    REPLAY = "replay"
    RESEND = "resend"
    DROP = "drop"
    SETTLE = "settle"


class RepairSubject(Enum):
    DELIVERY = "delivery"
    REPLY = "reply"
    MESSAGE = "message"

    @property
    def plural(self) -> str:
        return {"delivery": "deliveries", "reply": "replies", "message": "messages"}[self.value]


# The states that a request without an id means. `drop` takes what still goes on only if its state is named.
STATES: dict[tuple[RepairVerb, RepairSubject], tuple[str, ...]] = {
    (RepairVerb.REPLAY, RepairSubject.DELIVERY): ("parked",),
    (RepairVerb.RESEND, RepairSubject.REPLY): ("uncertain", "failed"),
    (RepairVerb.DROP, RepairSubject.DELIVERY): ("parked",),
    (RepairVerb.DROP, RepairSubject.REPLY): ("uncertain", "failed"),
    (RepairVerb.DROP, RepairSubject.MESSAGE): ("waiting",),
    (RepairVerb.SETTLE, RepairSubject.DELIVERY): ("uncertain", "parked"),
    (RepairVerb.SETTLE, RepairSubject.REPLY): ("uncertain",),
}
NAMEABLE: dict[tuple[RepairVerb, RepairSubject], tuple[str, ...]] = {
    **STATES,
    (RepairVerb.DROP, RepairSubject.DELIVERY): ("parked", "scheduled", "uncertain"),
    (RepairVerb.DROP, RepairSubject.REPLY): ("uncertain", "failed", "pending"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairFilter:
    """What a request means: the items with these ids, or all that match. Unset fields match every item."""

    ids: tuple[str, ...] = ()
    agent: str = ""
    name: str = ""  # the provider of deliveries, the channel of replies and messages
    state: str = ""
    reason: str = ""  # a part of the reason
    older_than_ms: int = 0
    agents: frozenset[str] = frozenset()  # of a limited token; empty: all agents

    def sees(self, agent: str) -> bool:
        return not self.agents or agent in self.agents


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An item as the store has it."""

    subject: RepairSubject
    n: int
    id: str
    agent: str
    name: str
    place: str
    state: str
    op: str
    attempt: int
    since: Instant
    reason: str | None
    decided_by: str | None
    is_doubtful: bool  # it may have arrived
    is_busy: bool  # a process works on it now
    is_undone: bool  # some of its turns were undone since
    is_empty: bool  # its words were deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedItem:
    """What would become of one item: `effect`, or `obstacle` if it is left as it is."""

    item: Candidate
    effect: str = ""
    obstacle: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPlan:
    at: Instant
    verb: RepairVerb
    subject: RepairSubject
    items: Sequence[PlannedItem] = ()
    unknown: Sequence[str] = ()  # ids that name nothing
    is_cut: bool = False  # more items match than the plan holds

    @property
    def possible(self) -> Sequence[PlannedItem]:
        return [one for one in self.items if not one.obstacle]

    @property
    def left(self) -> Sequence[PlannedItem]:
        return [one for one in self.items if one.obstacle]

    @property
    def effects(self) -> Counter[str]:
        return Counter(one.effect for one in self.possible)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """What became of one planned item: its new state, or why it was left as it is."""

    id: str
    state: str = ""
    obstacle: str = ""


def planned(verb: RepairVerb, item: Candidate) -> PlannedItem:
    effect, obstacle = {
        (RepairVerb.REPLAY, RepairSubject.DELIVERY): _replay,
        (RepairVerb.RESEND, RepairSubject.REPLY): _resend,
        (RepairVerb.DROP, RepairSubject.DELIVERY): _drop_delivery,
        (RepairVerb.DROP, RepairSubject.REPLY): _drop_reply,
        (RepairVerb.DROP, RepairSubject.MESSAGE): _drop_message,
        (RepairVerb.SETTLE, RepairSubject.DELIVERY): _settle_delivery,
        (RepairVerb.SETTLE, RepairSubject.REPLY): _settle_reply,
    }[verb, item.subject](item)
    return PlannedItem(item=item, effect=effect, obstacle=obstacle)


def subject_of(id: str) -> RepairSubject:
    """The kind of item that an id names."""
    if id.startswith(("rep_", "ask_")):
        return RepairSubject.REPLY
    return RepairSubject.MESSAGE if id.startswith("msg_") else RepairSubject.DELIVERY


def _replay(item: Candidate) -> tuple[str, str]:
    if item.state in {"scheduled", "sending", "uncertain"}:
        return "", "it is on its way already"
    if item.state != "parked":
        return "", f"it is {item.state}"
    if item.is_doubtful:
        return f"{item.name} is asked whether it has it, and sent it if not", ""
    return f"sent to {item.name} again", ""


def _resend(item: Candidate) -> tuple[str, str]:
    if item.state in {"pending", "attempting"}:
        return "", "it is on its way already"
    if item.state not in {"uncertain", "failed"}:
        return "", f"it is {item.state}"
    if item.is_empty:
        return "", "its words were deleted"
    if item.is_doubtful:
        return f"sent over {item.name} again; the chat may show it twice", ""
    return f"sent over {item.name} again", ""


def _drop_delivery(item: Candidate) -> tuple[str, str]:
    if item.op == "erase":
        return "", "an erasure is not given up: erase it at the provider and settle it as arrived"
    if item.state == "sending" or item.is_busy:
        return "", f"it is being sent to {item.name} now"
    if item.state == "parked" and item.decided_by is not None:
        return "", f"{item.decided_by} gave it up already"
    if item.state == "parked":
        return "given up; it stays parked and is no longer to be decided", ""
    if item.state in {"scheduled", "uncertain"}:
        return "given up; its lane goes on with the next delivery", ""
    return "", f"it is {item.state}"


def _drop_reply(item: Candidate) -> tuple[str, str]:
    if item.state == "attempting":
        return "", f"it is being sent over {item.name} now"
    if item.state in {"uncertain", "failed"} and item.decided_by is not None:
        return "", f"{item.decided_by} gave it up already"
    if item.state in {"uncertain", "failed"}:
        return "given up; it is not sent again", ""
    if item.state == "pending":
        return "given up before it is sent; the next reply of its chat goes on", ""
    return "", f"it is {item.state}"


def _drop_message(item: Candidate) -> tuple[str, str]:
    if item.state == "in_turn":
        return "", "its turn runs: say /stop in the chat"
    if item.state != "waiting":
        return "", f"it is {item.state}"
    return "given up before its turn; the sender is told", ""


def _settle_delivery(item: Candidate) -> tuple[str, str]:
    if item.state == "sending" or item.is_busy:
        return "", f"{item.name} is being asked or sent it now"
    if item.state not in {"uncertain", "parked"}:
        return "", f"it is {item.state}"
    if item.is_undone:
        return "", "turns of it were undone since"
    if not item.is_doubtful and item.op != "erase":
        return "", f"{item.name} did not take it, so it cannot have arrived"
    return f"settled as arrived at {item.name}", ""


def _settle_reply(item: Candidate) -> tuple[str, str]:
    if item.state == "attempting":
        return "", f"it is being sent over {item.name} now"
    if item.state != "uncertain":
        return "", f"it is {item.state}" if item.state != "failed" else f"{item.name} did not take it"
    return f"settled as arrived over {item.name}", ""
