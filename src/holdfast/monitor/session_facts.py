"""The facts about a part of a session, as the store has them: consecutive turns, and what belongs to them.
`session_steps.py` puts them in order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.kernel.ids import Instant
from holdfast.monitor.attempt import SendAttempt
from holdfast.monitor.trace import NodeRun, TracedApproval, TracedReply, TracedTurn
from holdfast.sessions.compression import Operation, Summary
from holdfast.sessions.session import Session
from holdfast.turns.activity import Activity
from holdfast.turns.journal import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineTurn:
    """One turn of the whole session, for its outline."""

    n: int
    phase: str
    opened_at: Instant
    closed_at: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMessage:
    message: str
    turn: int
    state: str
    kind: str
    principal: str
    event_id: str
    at: Instant
    text: str  # empty if its words were erased


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDelivery:
    n: int
    id: str
    provider: str
    op: str
    state: str
    attempt: int
    from_turn: int
    through_turn: int
    at: Instant
    sent_at: Instant | None
    settled_at: Instant | None
    due_at: Instant | None
    receipt: str | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """A session next to this one: its parent, or a branch of it."""

    id: str
    title: str | None
    state: str
    turns: int
    fork_turn: int  # the last turn of the parent that the branch has
    opened_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPart:
    """`turns` are those of the shown part; what is listed by turn belongs to them."""

    at: Instant  # the store's time
    session: Session
    fence: int  # of its mailbox
    owner: str | None  # the node that holds its mailbox
    outline: Sequence[OutlineTurn] = ()  # the newest turns of the whole session, oldest first
    turns: Sequence[TracedTurn] = ()
    messages: Sequence[SessionMessage] = ()
    activities: Mapping[int, Sequence[Activity]]  # by turn
    approvals: Mapping[int, Sequence[TracedApproval]]
    replies: Mapping[int, Sequence[TracedReply]]
    deliveries: Sequence[SessionDelivery] = ()
    attempts: Mapping[tuple[str, int], Sequence[SendAttempt]]  # by kind and `n` of the reply or delivery
    entries: Sequence[Entry] = ()
    operations: Sequence[Operation] = ()  # compressions and other operations on the session, while the part went on
    snapshots: Sequence[Summary] = ()  # of the whole session
    runs: Sequence[NodeRun] = ()  # processes that ended while the part went on
    parent: Relative | None = None
    branches: Sequence[Relative] = ()

    @property
    def first_at(self) -> Instant:
        """When the shown part began."""
        times = [self.session.opened_at] if not self.turns else [turn.opened_at for turn in self.turns]
        return min([*times, *(message.at for message in self.messages)])
