"""A session: who a conversation is. Compression never changes its id; only explicit commands switch it."""

import unicodedata
from dataclasses import dataclass
from enum import Enum

from holdfast.kernel.errors import SessionNotFound
from holdfast.kernel.ids import (
    AgentName,
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
    live: bool  # in the mailbox it belongs to
    epoch: int
    committed_seq: int
    turns: int
    summaries: int
    undo_count: int
    opened_at: Instant
    active_at: Instant
    closed_at: Instant | None
    reason: str | None
    address: str | None = None  # of its mailbox, where it has one


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRun:
    """One conversation command, with the ids of what it may make (D6)."""

    message: MessageId
    command: Command
    principal: Principal
    new_session: SessionId
    operation: OperationId
    reply: ReplyId
    answer: str | None = None  # the reply's text where the worker already knows it (/help, /compress)
    policies: tuple[DeliveryPolicy, ...] = ()
    operators: frozenset[str] = frozenset()  # named ones of the agent


@dataclass(frozen=True, slots=True)
class CommandDone:
    """What a command did: the live session afterwards, and the sentence the sender gets."""

    session: SessionId | None
    text: str
    switched: bool = False
    refused: str = ""  # why the sender may not give it (`robot`, `not_yours`); nothing was changed then


def clean_title(text: str) -> str:
    """A title as it can be shown and kept anywhere: one line, no control characters, not too long."""
    printable = "".join(" " if unicodedata.category(char) in {"Cc", "Cs"} else char for char in text)
    return " ".join(printable.split())[:TITLE_CHARS_MAX]


def title_key(title: str) -> str:
    """Titles with equal keys are the same title, whatever the database makes of upper and lower case."""
    return unicodedata.normalize("NFC", title).casefold()


def no_place_after(session: str) -> SessionNotFound:
    """For a list that is to go on after a session which is not there, or not the caller's to see."""
    return SessionNotFound(f"after: there is no session {session[:80]!r} (any more); begin again without it")
