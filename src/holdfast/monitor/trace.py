"""The facts about one message, as the store has them (R40). `timeline.py` tells them in order."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.inbox.mailbox import MessageTrace
from holdfast.kernel.ids import Instant
from holdfast.memory.delivery import DeliveryView
from holdfast.monitor.attempt import SendAttempt
from holdfast.sessions.compression import Operation
from holdfast.turns.activity import Activity
from holdfast.turns.agent_pause import AgentPause


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRun:
    """One run of one process. `ending` is `stopped` or `lost`; None while it runs."""

    id: str
    host: str
    started_at: Instant
    seen_at: Instant
    ended_at: Instant | None = None
    ending: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedTurn:
    n: int
    phase: str
    attempt: int
    principal: str
    opened_at: Instant
    closed_at: Instant | None
    reason: str | None
    node: str | None  # the newest that worked on it
    tokens_in: int | None
    tokens_out: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnAhead:
    """Another turn of the mailbox that was open while the message waited."""

    session: str
    n: int
    opened_at: Instant
    closed_at: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedApproval:
    id: str
    tool: str
    asked_at: Instant
    due_at: Instant
    decided_at: Instant | None
    decision: str | None
    decided_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedReply:
    """A reply to the sender or, with the channel `agent`, a message of the turn to another agent."""

    n: int
    id: str
    channel: str
    address: str
    state: str
    attempt: int
    part: int  # pieces that were sent
    doubts: int
    at: Instant
    due_at: Instant | None
    sent_at: Instant | None
    settled_at: Instant | None
    receipt: str | None
    reason: str | None
    decided_by: str | None = None  # the person who gave it up, or who said that it arrived


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedSend:
    """A delivery with the times of its newest attempt."""

    view: DeliveryView
    sent_at: Instant | None
    settled_at: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnUndone:
    at: Instant
    by: str  # the message that requested it


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFacts:
    at: Instant  # the store's time
    message: MessageTrace
    kind: str
    is_forgotten: bool  # its words were erased
    repeats: int  # how often it was sent again under its id
    repeated_at: Instant | None
    is_claimed: bool  # a node holds its mailbox
    nodes_alive: int  # registered processes
    turn: TracedTurn | None = None
    ahead: Sequence[TurnAhead] = ()
    compressions: Sequence[Operation] = ()  # of its session, while it was waiting or in its turn
    activities: Sequence[Activity] = ()
    approvals: Sequence[TracedApproval] = ()
    replies: Sequence[TracedReply] = ()
    deliveries: Sequence[TracedSend] = ()
    note_deliveries: Sequence[TracedSend] = ()  # of the notes that its turn changed
    reply_attempts: Sequence[tuple[str, SendAttempt]] = ()  # by the id of the reply
    delivery_attempts: Sequence[tuple[str, SendAttempt]] = ()  # by the id of the delivery
    runs: Sequence[NodeRun] = ()  # of the nodes that took part
    undone: TurnUndone | None = None
    pause: AgentPause | None = None  # of its agent
