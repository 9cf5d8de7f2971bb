"""The JSON shapes of replies. The text of a reply is with its message, not here."""

from collections.abc import Sequence

from holdfast.api.shapes.shapes import Shape
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


def reply_view(one: PostedReply) -> OutgoingReply:
    return OutgoingReply(
        id=one.id,
        agent=one.agent,
        channel=one.channel,
        address=one.address,
        message=one.message,
        state=one.state,
        attempt=one.attempt,
        parts_sent=one.parts_sent,
        possible_duplicate=one.possible_duplicate,
        committed_at=one.at,
        due_at=one.due_at if one.state in ON_ITS_WAY else None,
        receipt=one.receipt,
        reason=one.reason,
        draft=one.draft,
    )


def replies_view(found: Sequence[PostedReply], limit: int) -> OutgoingReplies:
    return OutgoingReplies(
        replies=[reply_view(one) for one in found], next=found[-1].n if found and len(found) == limit else None
    )
