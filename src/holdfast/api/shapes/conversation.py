"""The JSON shapes of a chat as its participants saw it."""

from collections.abc import Callable, Sequence

from holdfast.api.shapes.shapes import Shape
from holdfast.api.shapes.view import or_none, view_of
from holdfast.sessions.session import ChatLine


class ConversationLine(Shape, frozen=True, kw_only=True):
    """A message of a sender or a reply of the agent. `message_id` and `sender` are null on a reply."""

    id: str
    message: str  # the message, or the one that the reply answers
    message_id: str | None
    sender: str | None
    text: str
    state: str
    session: str | None
    turn: int | None
    at: int
    approval: str | None  # an open approval: decide it with /approve or /deny
    undone: bool


class Conversation(Shape, frozen=True, kw_only=True):
    """Oldest first. `before` is the value of `before` for the page of earlier messages; null if there is none."""

    lines: list[ConversationLine]
    before: int | None


line_view: Callable[[ChatLine], ConversationLine] = view_of(
    ConversationLine, message_id=or_none("event_id"), sender="principal"
)


def conversation_view(found: Sequence[ChatLine], limit: int) -> Conversation:
    positions = {line.seq for line in found}
    before = min(positions) if positions and len(positions) >= limit else None
    return Conversation(lines=[line_view(line) for line in found], before=before)
