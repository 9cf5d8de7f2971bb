"""Posts: one piece of a reply as a channel sends it, and the possible outcomes.

Rule 1: a reply is `attempting` before its first byte is sent, so a crash can never look like "not sent yet" (D26).
Rule 2: a piece whose outcome is unknown is resent once and the reply is then shown as uncertain, or it is held; it
        never blocks later replies.
Rule 3: a reply that its reader fetches (HTTP, the library, a terminal) is delivered when it is durable.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from holdfast.inbox.address import Address
from holdfast.inbox.agent_chain import NOBODY, Chain
from holdfast.kernel.ids import MessageId, ReplyId
from holdfast.kernel.vendor_error import NO_ANSWER, VendorError

PULLED = frozenset({"http", "openai", "terminal"})  # channels whose readers fetch their replies


class ReplyState(Enum):
    PENDING = "pending"
    ATTEMPTING = "attempting"
    DELIVERED = "delivered"
    UNCERTAIN = "uncertain"
    FAILED = "failed"


class OnDoubt(Enum):
    """The policy for a reply whose outcome is unknown."""

    RESEND = "resend"  # once, shown as a possible duplicate
    HOLD = "hold"  # resend only on an operator's request


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """One piece of one reply, as a channel sends it."""

    reply: ReplyId
    part: int  # from 0
    parts: int
    address: Address  # the chat (and thread) to send to; `address.user` only says whose session it is
    text: str
    message: MessageId
    in_reply_to: str = ""  # the platform's id of the answered message; empty if there is none to quote
    hop: int = 0
    chain: Chain = NOBODY  # of the turn that wrote it
    is_answer: bool = False  # it answers a message from its address; a message to another agent does not
    attempt: int = 1
    doubtful: bool = False  # an earlier attempt at this piece may have been posted
    doubtful_for_ms: int = 0  # since that attempt began

    @property
    def nonce(self) -> str:
        """The idempotency key of this piece, the same for every attempt, for platforms that reject duplicates."""
        return f"{self.reply}.{self.part}"


@dataclass(frozen=True, slots=True)
class Sent:
    receipt: str  # the platform's message id
    proved: bool = False  # the channel verified that the piece was posted exactly once, despite earlier doubts


@dataclass(frozen=True, slots=True)
class NotSent:
    """The piece was not posted; a retry may succeed."""

    reason: str
    retry_after_ms: int = 0  # the wait that the platform asked for
    whole_account: bool = False  # the rate limit applies to the account: all chats wait
    vendor: VendorError = field(default=NO_ANSWER, compare=False, kw_only=True)  # its error, for the operator


@dataclass(frozen=True, slots=True)
class Declined:
    """The piece was not posted and never will be: the chat is gone, the bot is blocked, the text is not accepted."""

    reason: str
    vendor: VendorError = field(default=NO_ANSWER, compare=False, kw_only=True)  # its error, for the operator


@dataclass(frozen=True, slots=True)
class Doubtful:
    """The piece may have been posted or not: the platform's answer was lost."""

    reason: str
    vendor: VendorError = field(default=NO_ANSWER, compare=False, kw_only=True)  # its error, for the operator


SendOutcome: TypeAlias = Sent | NotSent | Declined | Doubtful
