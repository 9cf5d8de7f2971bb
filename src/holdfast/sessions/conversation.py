"""A chat as its participants saw it."""

from dataclasses import dataclass

from holdfast.kernel.ids import ApprovalId, Instant, MessageId, Principal, SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatLine:
    """One message or reply in a chat."""

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
    approval: ApprovalId | None = None  # an open question to a human
    undone: bool = False

    @property
    def is_reply(self) -> bool:
        return self.principal is None
