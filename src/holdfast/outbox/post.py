"""What leaves: one reply, piece by piece, and what can become of a piece.

Rule 1: a reply is `attempting` before its first byte leaves, so a crash can never look like "not sent yet" (D26).
Rule 2: a piece whose fate is unknown is resent once and the reply is then shown as uncertain, or held; it never blocks
        the replies behind it.
Rule 3: a reply that is fetched by whoever wants it (HTTP, the library, a terminal) is delivered when it is durable.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from holdfast.inbox.address import Address
from holdfast.inbox.agent_chain import NOBODY, Chain
from holdfast.kernel.ids import MessageId, ReplyId
from holdfast.kernel.vendor_error import NO_ANSWER, VendorError

PULLED = frozenset({"http", "openai", "terminal"})  # channels whose readers come and fetch


class ReplyState(Enum):
    PENDING = "pending"
    ATTEMPTING = "attempting"
    DELIVERED = "delivered"
    UNCERTAIN = "uncertain"
    FAILED = "failed"


class OnDoubt(Enum):
    """What becomes of a reply whose fate is unknown."""

    RESEND = "resend"  # once, shown as a possible duplicate
    HOLD = "hold"  # not again unless somebody says so


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """One piece of one reply, as a channel sends it."""

    reply: ReplyId
    part: int  # from 0
    parts: int
    address: Address  # the chat (and thread) to send to; `address.user` only says whose session it is
    text: str
    message: MessageId
    in_reply_to: str = ""  # the platform's id of the message that is answered; empty when there is none to quote
    hop: int = 0
    chain: Chain = NOBODY  # of the turn that it was written in
    is_answer: bool = False  # to what was said at its address; a message to another agent is none
    attempt: int = 1
    doubtful: bool = False  # an earlier attempt at this very piece may have arrived
    doubtful_for_ms: int = 0  # since that attempt began

    @property
    def nonce(self) -> str:
        """The same for every attempt at this piece, for platforms that refuse what they have already."""
        return f"{self.reply}.{self.part}"


@dataclass(frozen=True, slots=True)
class Sent:
    receipt: str  # the platform's id of what was posted
    proved: bool = False  # the channel looked: whatever was in doubt before, it stands there once


@dataclass(frozen=True, slots=True)
class NotSent:
    """Certainly not posted; worth trying again."""

    reason: str
    retry_after_ms: int = 0  # what the platform asked for
    whole_account: bool = False  # the limit is the account's: every chat waits
    vendor: VendorError = field(default=NO_ANSWER, compare=False, kw_only=True)  # what it answered, for the operator


@dataclass(frozen=True, slots=True)
class Declined:
    """Certainly not posted, and never will be: the chat is gone, the bot was blocked, the text is not acceptable."""

    reason: str
    vendor: VendorError = field(default=NO_ANSWER, compare=False, kw_only=True)  # what it answered, for the operator


@dataclass(frozen=True, slots=True)
class Doubtful:
    """It may have been posted or not: the answer was lost."""

    reason: str
    vendor: VendorError = field(default=NO_ANSWER, compare=False, kw_only=True)  # what it answered, for the operator


SendOutcome: TypeAlias = Sent | NotSent | Declined | Doubtful
