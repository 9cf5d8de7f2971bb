"""What happened to one message, as a reader of the store finds it."""

from dataclasses import dataclass

from holdfast.inbox.message import UNFINISHED, MessageState
from holdfast.kernel.ids import AgentName, Instant, MessageId, Principal, SessionId
from holdfast.memory.delivery import DeliveryView
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
    possible_duplicate: bool = False  # the platform may show some piece of it twice
    draft: str | None = None  # what became of the draft that was shown before it (`DraftFate`)


@dataclass(frozen=True, slots=True)
class EnclosureView:
    """Something that came with a message."""

    n: int
    hash: str
    name: str
    media_type: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTrace:
    """What happened to one message: accepted, queued, turn, reply, each provider's receipt (R40)."""

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
    token: str = ""  # the id of the access token that it came with
    tokens_in: int = 0  # of its turn, as the model counted
    tokens_out: int = 0
    awaiting: OpenQuestion | None = None  # what its turn, or the one that it stands behind, waits for
    released: MessageId | None = None  # whose turn went on because this message decided what it waited for

    @property
    def is_over(self) -> bool:
        return self.state not in UNFINISHED
