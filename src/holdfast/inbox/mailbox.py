"""A mailbox: the queue of one conversation. One worker at a time processes it, guarded by a fence.

A message gets its session when it is processed, so `hello`, `/new`, `hi` sent while the agent is busy reach the right
sessions, in order. `MailboxView` and `MessageTrace` are what readers see of a mailbox and of the path of a message.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.inbox.agent_chain import Chain
from holdfast.inbox.message import UNFINISHED, Inbound, MessageKind, MessageState
from holdfast.kernel.ids import AgentName, Instant, MailboxId, MessageId, NodeId, Principal, SessionId
from holdfast.memory.delivery import CallerDirectory, DeliveryView
from holdfast.outbox.reply import is_possible_duplicate
from holdfast.turns.approval import OpenQuestion
from holdfast.turns.policy import Arrivals
from holdfast.turns.turn import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to write to a mailbox and its live session; a newer claim voids it."""

    mailbox: MailboxId
    fence: int
    node: NodeId
    agent: AgentName
    address: str


@dataclass(frozen=True, slots=True)
class SessionHead:
    """Where the live session of a mailbox stands, inside the transaction that read it."""

    last_seq: int
    turns: int
    epoch: int
    is_open: bool  # neither expiring nor closed
    now: Instant  # the store's clock in that transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """The contents of a claimed mailbox: the turn to resume, if any, and the first waiting messages."""

    session: SessionId | None
    turn: Turn | None
    waiting: tuple[Inbound, ...]
    depth: int
    unattended: int  # consecutive turns without a human
    head: SessionHead | None = None  # None without a live session
    is_owned: bool = True  # the claim was not released; without it, its fence may still be the newest
    is_paused: bool = False  # its agent is paused: what waits stays there, and only an open turn goes on


def plain_run(waiting: Sequence[Inbound]) -> tuple[Inbound, ...]:
    """The leading plain messages of one principal, from one directory and one chain (D10, D18).

    A message with another chain starts another turn, because its tools differ.
    """
    run: list[Inbound] = []
    for item in waiting:
        if item.kind is not MessageKind.TEXT or (run and source_of(item) != source_of(run[0])):
            break
        run.append(item)
    return tuple(run)


def source_of(item: Inbound | Turn) -> tuple[Principal, CallerDirectory, Chain]:
    """The properties that all messages of one turn share."""
    return item.principal, item.where, item.chain


def take(waiting: Sequence[Inbound], policy: Arrivals) -> tuple[Inbound, ...]:
    """The messages of the next turn: one, or the whole run if the policy collects."""
    run = plain_run(waiting)
    return run if policy is Arrivals.COLLECT else run[:1]


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxView:
    mailbox: MailboxId
    agent: AgentName
    address: str
    session: SessionId | None
    depth: int
    owner: str | None
    fence: int
    ready_at: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyView:
    id: str
    text: str
    state: str
    attempt: int
    at: Instant
    receipt: str | None = None
    reason: str | None = None
    doubts: int = 0
    draft: str | None = None  # the fate of its draft (`DraftFate`)

    @property
    def possible_duplicate(self) -> bool:
        """Whether the platform may show a piece of it twice."""
        return is_possible_duplicate(self.state, self.doubts)


@dataclass(frozen=True, slots=True)
class EnclosureView:
    """An attachment of a message, without its bytes."""

    n: int
    hash: str
    name: str
    media_type: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTrace:
    """The path of one message: accepted, queued, turn, reply, each provider's receipt (R40)."""

    message: MessageId
    agent: AgentName
    chat: str
    address: str
    event_id: str
    principal: Principal
    state: MessageState
    reason: str | None
    accepted_at: Instant
    queued_behind: int
    session: SessionId | None
    turn: int | None
    phase: str | None
    attempt: int
    reply: ReplyView | None
    deliveries: tuple[DeliveryView, ...] = ()
    enclosures: tuple[EnclosureView, ...] = ()
    hop: int = 0
    token: str = ""  # the id of the access token of the request
    tokens_in: int = 0  # of its turn, as reported by the model
    tokens_out: int = 0
    awaiting: OpenQuestion | None = None  # the open question of its turn, or of the turn ahead of it
    released: MessageId | None = None  # the message whose turn resumed because this message answered its question

    @property
    def is_over(self) -> bool:
        return self.state not in UNFINISHED
