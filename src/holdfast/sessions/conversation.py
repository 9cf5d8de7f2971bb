"""A chat as its participants saw it."""

from dataclasses import dataclass, replace

from holdfast.kernel.ids import ApprovalId, Instant, MessageId, Principal, SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatLine:
    """Something that was said in a chat, by a sender or by the agent."""

    id: str  # of the message or the reply
    message: MessageId  # the message, or the one that is replied to
    event_id: str  # the sender's own id; empty on a reply
    principal: Principal | None  # who said it; None on a reply
    text: str
    state: str
    session: SessionId | None
    turn: int | None
    at: Instant
    seq: int  # position of the message in its mailbox; a page before this one ends there
    approval: ApprovalId | None = None  # a question that waits for a human
    undone: bool = False

    def undo(self) -> "ChatLine":
        return replace(self, undone=True)
