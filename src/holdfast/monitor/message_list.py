"""Lists of messages: filters, and the rows of a page."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.kernel.ids import Instant

SCANNED_MAX = 10_000  # messages that one page looks at; the next page goes on where it ended
TEXT_CHARS_MAX = 160  # of a message in a list


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """Every field that is set must match. `text` is looked for in the words, upper and lower case alike."""

    agent: str = ""
    chat: str = ""
    sender: str = ""
    state: str = ""
    text: str = ""
    own_id: str = ""  # the sender's id of the message, or its beginning
    since: Instant | None = None
    until: Instant | None = None
    agents: frozenset[str] = frozenset()  # of one of these; empty: of any
    token: str = ""  # sent with this access token or without one; empty: with any


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedMessage:
    message: str
    agent: str
    chat: str
    sender: str
    event_id: str
    kind: str
    state: str
    reason: str | None
    accepted_at: Instant
    session: str | None
    turn: int | None
    text: str  # the beginning of its words


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePage:
    messages: Sequence[ListedMessage]
    next: str | None  # `before` of the next page; None at the end
    searched_back_to: Instant | None  # how far a page without enough matches looked
