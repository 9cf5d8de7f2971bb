"""A session: the identity of a conversation. Compression never changes its id; only explicit commands switch it."""

import unicodedata
from dataclasses import dataclass
from enum import Enum

from holdfast.kernel.errors import SessionNotFound
from holdfast.kernel.ids import (
    AgentName,
    ApprovalId,
    Instant,
    MailboxId,
    MessageId,
    OperationId,
    Principal,
    ReplyId,
    SessionId,
)
from holdfast.memory.delivery import DeliveryPolicy
from holdfast.sessions.command import TITLE_CHARS_MAX, Command


class SessionState(Enum):
    OPEN = "open"
    EXPIRING = "expiring"
    CLOSED = "closed"
    DELETED = "deleted"


class Purpose(Enum):
    """Only a conversation has cursors; no other run can reach a provider (R16)."""

    CONVERSATION = "conversation"
    COMPRESSION = "compression"
    REVIEW = "review"
    EXTRACTION = "extraction"
    SCHEDULED = "scheduled"
    SUBAGENT = "subagent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    id: SessionId
    agent: AgentName
    mailbox: MailboxId | None
    principal: Principal
    purpose: Purpose
    parent: SessionId | None
    fork_seq: int
    title: str | None
    state: SessionState
    live: bool  # whether its mailbox currently uses it
    epoch: int
    committed_seq: int
    turns: int
    summaries: int
    undo_count: int
    opened_at: Instant
    active_at: Instant
    closed_at: Instant | None
    reason: str | None
    address: str | None = None  # the address of its mailbox, if it has one


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRun:
    """One conversation command, with ids for the rows that it may create (D6)."""

    message: MessageId
    command: Command
    principal: Principal
    new_session: SessionId
    operation: OperationId
    reply: ReplyId
    answer: str | None = None  # the reply's text, if the worker already knows it (/help, /compress)
    policies: tuple[DeliveryPolicy, ...] = ()
    operators: frozenset[str] = frozenset()  # the agent's named operators


@dataclass(frozen=True, slots=True)
class CommandDone:
    """The result of a command: the live session afterwards, and the reply to the sender."""

    session: SessionId | None
    text: str
    switched: bool = False
    refused: str = ""  # why the sender may not give it (`robot`, `not_yours`); if set, nothing changed


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatLine:
    """One message or reply of a chat, as its participants saw it."""

    id: str  # the id of the message or the reply
    message: MessageId  # the message, or the one that is replied to
    event_id: str  # the sender's own id; empty on a reply
    principal: Principal | None  # the sender; None on a reply
    text: str
    state: str
    session: SessionId | None
    turn: int | None
    at: Instant
    seq: int  # position of the message in its mailbox; the cursor for the page before it
    is_question: bool = False  # asks a human about a tool call, decided or not
    approval: ApprovalId | None = None  # of a question that is open
    undone: bool = False


def clean_title(text: str) -> str:
    """The title for display and storage: one line, no control characters, limited length."""
    printable = "".join(" " if unicodedata.category(char) in {"Cc", "Cs"} else char for char in text)
    return " ".join(printable.split())[:TITLE_CHARS_MAX]


def title_key(title: str) -> str:
    """The key of a title. Titles with equal keys are the same title, independent of the database's case rules."""
    return unicodedata.normalize("NFC", title).casefold()


def no_place_after(session: str) -> SessionNotFound:
    """The error for a page after a session that does not exist or that the caller may not see."""
    return SessionNotFound(f"after: there is no session {session[:80]!r} (any more); begin again without it")
