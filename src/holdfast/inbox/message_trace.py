"""The trace of one message, as read from the store."""

from dataclasses import dataclass

from holdfast.inbox.message import UNFINISHED, MessageState
from holdfast.kernel.ids import AgentName, Instant, MessageId, Principal, SessionId
from holdfast.memory.delivery import DeliveryView
from holdfast.outbox.reply import is_possible_duplicate
from holdfast.turns.approval import OpenQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyView:
    id: str
    text: str
    state: str
    attempt: int
    at: Instant
    receipt: str | None = None
    reason: str | None = None
    doubts: int = 0
    draft: str | None = None  # the fate of its draft (`DraftFate`)

    @property
    def possible_duplicate(self) -> bool:
        """Whether the platform may show a piece of it twice."""
        return is_possible_duplicate(self.state, self.doubts)


@dataclass(frozen=True, slots=True)
class EnclosureView:
    """An attachment of a message, without its bytes."""

    n: int
    hash: str
    name: str
    media_type: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTrace:
    """The path of one message: accepted, queued, turn, reply, each provider's receipt (R40)."""

    message: MessageId
    agent: AgentName
    chat: str
    address: str
    event_id: str
    principal: Principal
    state: MessageState
    reason: str | None
    accepted_at: Instant
    queued_behind: int
    session: SessionId | None
    turn: int | None
    phase: str | None
    attempt: int
    reply: ReplyView | None
    deliveries: tuple[DeliveryView, ...] = ()
    enclosures: tuple[EnclosureView, ...] = ()
    hop: int = 0
    token: str = ""  # the id of the access token of the request
    tokens_in: int = 0  # of its turn, as reported by the model
    tokens_out: int = 0
    awaiting: OpenQuestion | None = None  # the open question of its turn, or of the turn ahead of it
    released: MessageId | None = None  # the message whose turn resumed because this message answered its question

    @property
    def is_over(self) -> bool:
        return self.state not in UNFINISHED
