"""A chat as the people in it saw it, as JSON shapes."""

from collections.abc import Sequence

from holdfast.api.shapes.shapes import Shape
from holdfast.sessions.conversation import ChatLine


class ConversationLine(Shape, frozen=True, kw_only=True):
    """What a sender or the agent said. `message_id` and `sender` are null on a reply."""

    id: str
    message: str  # the message, or the one that is replied to
    message_id: str | None
    sender: str | None
    text: str
    state: str
    session: str | None
    turn: int | None
    at: int
    approval: str | None  # a question that waits: /approve or /deny it
    undone: bool


class Conversation(Shape, frozen=True, kw_only=True):
    """Oldest first. `before` continues with what was said earlier; null when there is nothing earlier."""

    lines: list[ConversationLine]
    before: int | None


def conversation_view(found: Sequence[ChatLine], limit: int) -> Conversation:
    positions = {line.seq for line in found}
    lines = [
        ConversationLine(
            id=line.id,
            message=line.message,
            message_id=line.event_id or None,
            sender=line.principal,
            text=line.text,
            state=line.state,
            session=line.session,
            turn=line.turn,
            at=line.at,
            approval=line.approval,
            undone=line.undone,
        )
        for line in found
    ]
    return Conversation(lines=lines, before=min(positions) if positions and len(positions) >= limit else None)
