"""Questions about what happened. Readers never wait for the writer and hold no snapshot for long (D28)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from holdfast.api.auth.access_token import AccessToken
from holdfast.inbox.message import UNFINISHED, MessageState
from holdfast.kernel.ids import (
    AgentName,
    ApprovalId,
    ForgetId,
    Instant,
    MailboxId,
    MessageId,
    Principal,
    SessionId,
    TokenId,
)
from holdfast.memory.delivery import Parcel
from holdfast.memory.forget import Forgetting
from holdfast.memory.lane import LaneKey
from holdfast.memory.notes import Memory, MemoryOperation
from holdfast.memory.visibility import Audience, ShownNotes
from holdfast.sessions.compression import Operation, Summary
from holdfast.sessions.compression_audit import SessionFacts
from holdfast.sessions.finalisation import Finalisation
from holdfast.sessions.session import Session
from holdfast.store.protocols.access_store import AccessReader
from holdfast.store.protocols.action_store import ActionReader
from holdfast.store.protocols.login_store import LoginReader
from holdfast.store.protocols.reply_store import ReplyReader
from holdfast.turns.approval import ApprovalView, OpenQuestion
from holdfast.turns.context import Context
from holdfast.turns.journal import Entry
from holdfast.turns.spend import SpendTotal


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


@dataclass(frozen=True, slots=True)
class EnclosureView:
    """Something that came with a message."""

    n: int
    hash: str
    name: str
    media_type: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryView:
    n: int
    id: str
    agent: str
    provider: str
    place: str
    op: str
    state: str
    attempt: int
    stream: str
    from_turn: int
    through_turn: int
    late: bool
    at: Instant
    due_at: Instant
    receipt: str | None
    reason: str | None
    means: str | None = None  # what the provider's `delivered` says, of one that is


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


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryView:
    entry: Entry
    undone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxView:
    mailbox: MailboxId
    agent: AgentName
    address: str
    session: SessionId | None
    depth: int
    owner: str | None
    fence: int
    ready_at: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """What waits, in the store's own time."""

    at: Instant
    messages_waiting: Mapping[str, int]  # by agent; those of an open turn included
    oldest_ready_at: Instant | None  # since when the mailbox that has waited longest could have been served
    deliveries: Mapping[tuple[str, str], int]  # by provider and state, those that have not ended well
    replies: Mapping[tuple[str, str], int]  # by channel and state, those that have not been delivered


class Reader(ReplyReader, AccessReader, ActionReader, LoginReader, Protocol):
    async def message(self, message: MessageId) -> MessageTrace:
        """Raises `MessageNotFound`."""
        ...

    async def mailbox(self, address: str) -> MailboxView | None: ...

    async def conversation(self, address: str, *, before: int, limit: int) -> Sequence[ChatLine]:
        """What was said in an HTTP chat, oldest first: the newest messages before a position, with their replies."""
        ...

    async def session(self, session: SessionId) -> Session:
        """Raises `SessionNotFound`."""
        ...

    async def sessions(
        self, *, agent: str | None = None, address: str | None = None, after: str = "", limit: int = 100
    ) -> Sequence[Session]:
        """Newest first; `after` is the last one of the page before. Raises `InvalidInput` when that is not there."""
        ...

    async def entries(self, session: SessionId, *, after: int = 0, limit: int = 200) -> Sequence[EntryView]:
        """A page of the journal as this session sees it: inherited entries first, undone ones marked."""
        ...

    async def context(self, session: SessionId) -> Context: ...

    async def summaries(self, session: SessionId) -> Sequence[Summary]: ...

    async def snapshot(self, session: SessionId, n: int) -> tuple[Summary, Sequence[EntryView]]:
        """A summary by its public name, and the entries it covers."""
        ...

    async def operations(
        self, *, session: SessionId | None = None, after: str = "", limit: int = 1000
    ) -> Sequence[Operation]: ...

    async def facts(self, *, after: str = "", limit: int = 100) -> Sequence[SessionFacts]:
        """For the audit, session by session."""
        ...

    async def memory(self, agent: AgentName, subject: str = "") -> Memory:
        """The notes that hold now; an empty memory for a subject nobody has noted anything about."""
        ...

    async def notes_shown(self, audience: Audience) -> ShownNotes:
        """The notes that an audience may be shown; the linked accounts of its principal are looked up."""
        ...

    async def memory_history(
        self, agent: AgentName, subject: str = "", *, after: int = 0, limit: int = 200
    ) -> Sequence[MemoryOperation]:
        """Every operation after one, oldest first."""
        ...

    async def memory_subjects(self, agent: AgentName, *, after: str | None = None, limit: int = 1_000) -> Sequence[str]:
        """The scopes in which the agent keeps notes; '' are the shared ones."""
        ...

    async def deliveries(
        self, *, provider: str | None = None, state: str | None = None, after: int = 0, limit: int = 100
    ) -> Sequence[DeliveryView]:
        """Newest first; `after` is the `n` of the last one of the page before."""
        ...

    async def approval(self, approval: ApprovalId) -> ApprovalView:
        """Raises `ApprovalNotFound`."""
        ...

    async def waits_at(self, address: str, approval: ApprovalId) -> bool:
        """Whether the approval is open and its turn belongs to the mailbox of this very address."""
        ...

    async def approvals(
        self, *, decided: bool = False, agent: str | None = None, limit: int = 100
    ) -> Sequence[ApprovalView]:
        """Tool calls that wait for a human, oldest first; with `decided`, all of them, newest first."""
        ...

    async def forgetting(self, id: ForgetId) -> Forgetting:
        """Where a request to forget stands, with each receipt. Raises `ForgetNotFound`."""
        ...

    async def token(self, hash: bytes) -> AccessToken | None:
        """The token of a hash, revoked or not."""
        ...

    async def token_of(self, id: TokenId) -> AccessToken:
        """Raises `TokenNotFound`."""
        ...

    async def tokens(self, *, after: str = "", limit: int = 1_000) -> Sequence[AccessToken]:
        """Oldest first, with those that were revoked."""
        ...

    async def gauges(self) -> Gauges:
        """How much there is to do now, for those who watch. Read from indexes, never from whole tables."""
        ...

    async def finalisations(
        self,
        *,
        session: SessionId | None = None,
        agent: str | None = None,
        state: str | None = None,
        limit: int = 100,
    ) -> Sequence[Finalisation]:
        """Ends of epochs, newest first, with what was extracted and what did not fit."""
        ...

    async def newest_forgetting(self) -> ForgetId | None:
        """The request that came last, over or not: when it changes, copies in RAM may hold what is to be forgotten."""
        ...

    async def open_forgettings(self) -> Sequence[ForgetId]:
        """Requests to forget that are not over, oldest first; those that only wait for a provider are among them."""
        ...

    async def delivered_parcels(
        self, key: LaneKey, *, after: int = 0, limit: int = 200
    ) -> Sequence[tuple[int, Parcel]]:
        """A page of everything that a provider was delivered, in order, rendered again; each with its number."""
        ...

    async def unanswered(self, address: str, request: str) -> MessageId | None:
        """The newest message that is not over and was made by the same request, from there or, without an address, from
        anywhere."""
        ...

    async def read_up_to(self, account: str) -> Mapping[str, tuple[int, str]]:
        """Conversation to the newest position read there, and its event."""
        ...

    async def took_in(self, account: str, conversation: str, event_id: str) -> bool:
        """Whether the event was taken into a mailbox once; one that was refused was not."""
        ...

    async def enclosures(self, message: MessageId) -> Sequence[EnclosureView]:
        """What came with a message."""
        ...

    async def enclosure_of(self, hash: str, *, agent: str | None = None) -> EnclosureView | None:
        """What the newest message (of that agent) that brought these bytes says of them; None when none did."""
        ...

    async def attachments_bytes(self, agent: AgentName) -> int:
        """How much an agent's attachments take, each counted once."""
        ...

    async def attachment(self, hash: str) -> bytes | None:
        """The bytes of that hash; None when nobody sent them, or they were forgotten."""
        ...

    async def spend_by_model(self, *, days: int = 1, agent: AgentName | None = None) -> Sequence[SpendTotal]:
        """What models cost today (UTC), or in so many days up to today: by agent, model and task, in that order."""
        ...

    async def next_ready(self) -> Instant | None:
        """When the next unclaimed mailbox becomes ready."""
        ...
