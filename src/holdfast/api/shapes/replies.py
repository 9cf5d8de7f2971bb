"""The outside surface of replies as JSON shapes. Their words are with their messages, not here."""

from collections.abc import Sequence

from holdfast.api.shapes.shapes import Shape
from holdfast.outbox.post import ReplyState
from holdfast.outbox.reply import PostedReply

ON_ITS_WAY = frozenset({ReplyState.PENDING.value, ReplyState.ATTEMPTING.value})


class OutgoingReply(Shape, frozen=True, kw_only=True):
    """One reply on its way to a platform."""

    id: str
    agent: str
    channel: str
    address: str
    message: str  # the message that it answers
    state: str
    attempt: int  # at the present piece
    parts_sent: int
    possible_duplicate: bool  # the platform may show some piece of it twice
    committed_at: int
    due_at: int | None  # when it is tried next, while it is on its way
    receipt: str | None  # the platform's ids of what was posted, with spaces between
    reason: str | None
    draft: str | None  # of the draft that was shown before: replaced, gone, unknown (it may still stand there)


class OutgoingReplies(Shape, frozen=True, kw_only=True):
    """Newest first; `next` is what to ask for as `after` to read on."""

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
