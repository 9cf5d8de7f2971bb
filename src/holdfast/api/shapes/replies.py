"""The JSON shapes of replies. The text of a reply is with its message, not here."""

from collections.abc import Callable

from holdfast.api.shapes.shapes import Shape
from holdfast.api.shapes.view import page_of, view_of
from holdfast.outbox.post import ReplyState
from holdfast.outbox.reply import PostedReply

ON_ITS_WAY = frozenset({ReplyState.PENDING.value, ReplyState.ATTEMPTING.value})


class OutgoingReply(Shape, frozen=True, kw_only=True):
    """One reply to a platform."""

    id: str
    agent: str
    channel: str
    address: str
    message: str  # the message that it answers
    state: str
    attempt: int  # of the current piece
    parts_sent: int
    possible_duplicate: bool  # the platform may show a piece of it twice
    committed_at: int
    due_at: int | None  # the next attempt, while the reply is not settled
    receipt: str | None  # the platform's ids of the posted pieces, separated by spaces
    reason: str | None
    draft: str | None  # the draft that was shown before: replaced, gone, unknown (it may still be visible)


class OutgoingReplies(Shape, frozen=True, kw_only=True):
    """Newest first; `next` is the value of `after` for the next page."""

    replies: list[OutgoingReply]
    next: int | None


reply_view: Callable[[PostedReply], OutgoingReply] = view_of(
    OutgoingReply, committed_at="at", due_at=lambda one: one.due_at if one.state in ON_ITS_WAY else None
)
replies_view = page_of(OutgoingReplies, reply_view)
