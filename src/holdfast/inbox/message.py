"""Inbound messages: the values that a channel passes in, and the outcomes of accepting them.

Rule 1: a message is validated before the store is called, so a refused message leaves only its refusal.
Rule 2: identity is (account, conversation, event id); the account is the bot's own, because nine bots in one
        channel receive the same platform id. The same identity with another body is a conflict.
"""

import hashlib
import unicodedata
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from holdfast.inbox.address import Address
from holdfast.inbox.agent_chain import NOBODY, Chain
from holdfast.kernel import errors
from holdfast.kernel.ids import Instant, MailboxId, MessageId, Principal, ReplyId, SessionId
from holdfast.memory.delivery import NOWHERE, CallerDirectory
from holdfast.sessions.command import Command, meant_by, parse_command
from holdfast.sessions.command_rights import Rank
from holdfast.turns.journal import UserSaid


class MessageState(Enum):
    WAITING = "waiting"
    IN_TURN = "in_turn"
    ANSWERED = "answered"
    COMMAND = "command"
    OBSERVED = "observed"
    HELD = "held"
    REFUSED = "refused"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


UNFINISHED = frozenset({MessageState.WAITING, MessageState.IN_TURN})
INVISIBLE = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs"})  # Unicode's controls, format characters and separators


class MessageKind(Enum):
    """How the worker treats a message; decided on arrival."""

    TEXT = "text"
    COMMAND = "command"
    SIGNAL = "signal"  # reaches the open turn at once, ahead of the queue
    OBSERVED = "observed"  # an unaddressed group message: journaled without a turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a mailbox. A message over a limit is refused with an error before it is acknowledged."""

    message_bytes_max: int = 256 * 1024
    mailbox_depth_max: int = 1_000
    window_ms: int = 60_000
    window_messages_max: int = 600
    attachments_bytes_max: int = 1024 * 1024 * 1024  # per agent in total; attachments beyond it are stored by name only


@dataclass(frozen=True, slots=True, kw_only=True)
class Enclosure:
    """An attachment of a message, stored under the hash of its bytes."""

    hash: str  # SHA-256 in hexadecimal
    name: str
    media_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Origin:
    """The author of a message, for the loop guard (D12)."""

    human: bool = True
    hop: int = 0  # the number of agents that passed it on
    token: str = ""  # the id of the access token of the request
    rank: Rank = Rank.MEMBER  # OPERATOR for the operator's token and for tokens with the scope admin


BY_HUMAN = Origin()


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One message, from its translation by a channel to its storage. The gateway checks it and sets the last fields."""

    address: Address
    event_id: str
    principal: Principal  # the sender
    text: str
    account: str = ""  # the bot's own identity on the channel; the agent's name if the channel has none
    conversation: str = ""  # the chat, unless the channel has a finer one
    addressed: bool = True
    human: bool = True
    hop: int = 0
    refuse_durably: bool = False  # the platform's acknowledgement is cumulative or absent (D2)
    sender_name: str = ""  # the display name on the platform; never trusted
    position: int | None = None  # its order in the conversation, on platforms where messages can be missed (D2)
    enclosures: tuple[Enclosure, ...] = ()
    unfit: str = ""  # why it can never be accepted; recorded as refused, without its text (D2)
    where: CallerDirectory = NOWHERE
    trusted: bool = False  # sent by the program that owns the store: exempt from the rate limit and not counted by it
    token: str = ""  # the id of the access token of the request
    chain: Chain = NOBODY  # the agents it passed through
    request: str = ""  # identifies repeated requests without an id; cleared once answered
    rank: Rank = Rank.MEMBER  # of the sender; differs for commands only
    message: MessageId = MessageId("")  # its id; the gateway makes one if the caller made none
    kind: MessageKind = MessageKind.TEXT
    reply: ReplyId = ReplyId("")  # the id of the immediate reply to a signal
    new_mailbox: MailboxId = MailboxId("")  # the id of the mailbox that the first message of a place creates
    operators: frozenset[str] = frozenset()  # the agent's named operators, for a signal

    @property
    def body_hash(self) -> bytes:
        return hashlib.sha256(self.principal.encode() + b"\0" + self.text.encode()).digest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbound:
    """One accepted message, as the worker reads it from the mailbox."""

    message: MessageId
    seq: int
    event_id: str
    principal: Principal
    channel: str
    kind: MessageKind
    human: bool
    hop: int
    text: str
    state: MessageState
    at: Instant
    name: str = ""  # the sender's display name
    where: CallerDirectory = NOWHERE
    chain: Chain = NOBODY

    def said(self) -> UserSaid:
        """The journal entry of this message."""
        return UserSaid(
            text=self.text,
            principal=self.principal,
            message=self.message,
            event_id=self.event_id,
            name=self.name,
        )

    @property
    def command(self) -> Command | None:
        return parse_command(self.text) if self.kind is MessageKind.COMMAND else None


# --- outcomes of accept ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Accepted:
    message: MessageId
    mailbox: MailboxId
    queued_behind: int


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The event was accepted before; this call changed nothing."""

    message: MessageId
    state: MessageState


@dataclass(frozen=True, slots=True)
class Conflict:
    """The event id was accepted before with another body (`idempotency_conflict`)."""

    message: MessageId


@dataclass(frozen=True, slots=True)
class MailboxFull:
    depth: int
    recorded: bool = False  # a durable `refused` row was written


@dataclass(frozen=True, slots=True)
class TooMany:
    """The window's message limit is reached (`rate_limited`)."""

    retry_after_ms: int
    recorded: bool = False


@dataclass(frozen=True, slots=True)
class Unfit:
    """The message can never be accepted (`message_too_large`, `invalid_unicode`, ...) and is recorded as refused."""

    reason: str


AcceptOutcome: TypeAlias = Accepted | Duplicate | Conflict | MailboxFull | TooMany | Unfit


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The state of a mailbox, for `/status` and for readers."""

    session: SessionId | None
    depth: int
    turn: int | None
    in_turn: int = 0  # messages in the open turn
    attempt: int = 0
    phase: str = "idle"
    stopping: bool = False


def check_text(text: str, limits: Limits) -> str:
    """Return the text unchanged if it can be stored; otherwise raise the error that says why not."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise errors.InvalidUnicode(f"the text has a lone surrogate at character {error.start}") from error
    if size > limits.message_bytes_max:
        raise errors.MessageTooLarge(
            f"the message has {size} bytes; the limit is {limits.message_bytes_max}",
            bytes=size,
            limit=limits.message_bytes_max,
        )
    if all(unicodedata.category(char) in INVISIBLE for char in text):
        raise errors.EmptyMessage("the message has no visible character")
    return text


def kind_of(text: str, *, addressed: bool = True, human: bool = True) -> MessageKind:
    """Classify a text. Unaddressed group messages are observed, whatever their text; commands start with a slash.

    A person's mistyped command changes nothing, so it is answered at once, like a signal. Programs do not mistype.
    """
    if not addressed:
        return MessageKind.OBSERVED
    command = parse_command(text)
    if command is not None:
        return MessageKind.SIGNAL if command.is_signal else MessageKind.COMMAND
    return MessageKind.SIGNAL if human and meant_by(text) is not None else MessageKind.TEXT


def accepted_message(outcome: AcceptOutcome) -> MessageId:
    """The message id of a successful outcome. Raises the refusal otherwise."""
    match outcome:
        case Accepted(message=message) | Duplicate(message=message):
            return message
        case _:
            raise refusal(outcome)


def refusal(outcome: Conflict | MailboxFull | TooMany | Unfit) -> errors.HoldfastError:
    """The error of a refusal."""
    match outcome:
        case Conflict(message=message):
            return errors.IdempotencyConflict(
                f"this id belongs to message {message} with another text", message=message
            )
        case MailboxFull(depth=depth):
            return errors.MailboxIsFull(f"{depth} messages are waiting already", depth=depth)
        case TooMany(retry_after_ms=retry_after_ms):
            return errors.RateLimited(
                f"too many messages; try again in {retry_after_ms} ms", retry_after_ms=retry_after_ms
            )
        case Unfit(reason=reason):
            return errors.InvalidInput(f"the message can never be taken: {reason}", reason=reason)
