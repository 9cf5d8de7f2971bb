"""The service: what a channel, a command or a console may ask of a running Holdfast. `Runtime` implements it."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.api.protocols.access import AccessDesk
from holdfast.api.protocols.actions import Actions
from holdfast.api.protocols.approvals import Approvals
from holdfast.api.protocols.finalisations import Finalisations
from holdfast.api.protocols.replies import Replies
from holdfast.inbox.channel_status import ServerStanding, Standing
from holdfast.inbox.message import BY_HUMAN, AcceptOutcome, Origin
from holdfast.kernel.ids import DeliveryId, Instant, MessageId, SessionId
from holdfast.kernel.notifier_port import Event, Feed
from holdfast.memory.forget import Forgetting
from holdfast.memory.recall import RecallOutcome
from holdfast.sessions.compression import Operation
from holdfast.sessions.session import Session
from holdfast.store.protocols.reader import DeliveryView, EntryView, MessageTrace, Reader
from holdfast.turns.context import Context, ModelMessage


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply. `restarted` says that the pieces before it are void."""

    text: str
    restarted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Well means that a real write succeeded just now."""

    ok: bool
    at: Instant
    proved_write_ms: int | None = None
    code: str | None = None
    why: str | None = None
    wal_bytes: int | None = None  # of the log beside the database; one that grows and grows is not moved into it


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a model would be sent now; `covers_through` is the last entry that the summary stands for."""

    messages: tuple[ModelMessage, ...]
    covers_through: int
    tokens: int  # estimated, corrected by what the model reported for this session


class Service(Protocol):
    @property
    def reader(self) -> Reader: ...

    @property
    def approvals(self) -> Approvals: ...

    @property
    def replies(self) -> Replies: ...

    @property
    def finalisations(self) -> Finalisations: ...

    @property
    def access(self) -> AccessDesk: ...

    @property
    def actions(self) -> Actions: ...

    async def health(self) -> Health: ...

    def agents(self) -> Sequence[str]:
        """Those that are configured; `main` where any name is an agent."""
        ...

    @property
    def default_agent(self) -> str:
        """Whom a message is for that names nobody: `main` where there is one, else the first that is configured."""
        ...

    def channels(self) -> Sequence[Standing]:
        """How the bot accounts of this process are doing."""
        ...

    def tool_servers(self) -> Sequence[ServerStanding]:
        """How the MCP servers of this process are doing."""
        ...

    def new_message(self) -> MessageId:
        """An id for a message about to be accepted, so that its sender can listen before it exists."""
        ...

    async def accept(
        self,
        chat: str,
        text: str,
        *,
        agent: str | None = None,
        sender: str | None = None,
        id: str | None = None,
        channel: str = "http",
        message: MessageId | None = None,
        origin: Origin = BY_HUMAN,
        request: str = "",
    ) -> AcceptOutcome:
        """Durable when it returns `Accepted`; raises for input that can never be accepted."""
        ...

    async def unanswered(
        self, chat: str, request: str, *, agent: str | None = None, channel: str = "http"
    ) -> MessageId | None:
        """The newest message that is not over and was made by the same request, in the chat or, without one, in any."""
        ...

    def listen(self, *, message: str | None = None, mailbox: str | None = None) -> Feed:
        """What happens from now on to one message, in one mailbox, or at all."""
        ...

    def follow(self, message: MessageId, feed: Feed) -> AsyncIterator[Delta]:
        """The reply to a message as it is made; the pieces add up to the durable one."""
        ...

    def tap(self, hear: Callable[[Event], None]) -> None:
        """Have every event of this process told at once. `hear` must be quick and must not raise."""
        ...

    def stream(
        self, chat: str, text: str, *, agent: str | None = None, sender: str | None = None, id: str | None = None
    ) -> AsyncIterator[Delta]: ...

    async def reply_to(self, message: MessageId) -> str: ...

    async def trace(self, message: MessageId) -> MessageTrace: ...

    async def sessions(
        self,
        *,
        agent: str | None = None,
        chat: str | None = None,
        channel: str = "http",
        after: str = "",
        limit: int = 100,
    ) -> Sequence[Session]: ...

    async def history(self, session: SessionId, *, after: int = 0, limit: int = 200) -> Sequence[EntryView]: ...

    async def context(self, session: SessionId) -> Context: ...

    async def prompt(self, session: SessionId) -> Prompt: ...

    async def begin_compression(self, session: SessionId) -> Operation:
        """Raises `OperationBusy` while one runs."""
        ...

    async def recall(
        self, text: str, *, agent: str | None = None, chat: str = "", sender: str | None = None, channel: str = "http"
    ) -> RecallOutcome: ...

    async def deliveries(
        self, *, provider: str | None = None, state: str | None = None, after: int = 0, limit: int = 100
    ) -> Sequence[DeliveryView]: ...

    async def replay(self, delivery: DeliveryId) -> str:
        """Raises `DeliveryNotFound`, and `InvalidInput` for one that is not parked."""
        ...

    async def forget(
        self, *, session: str | None = None, person: str | None = None, agent: str | None = None, id: str | None = None
    ) -> Forgetting:
        """Raises `SessionNotFound`, `InvalidInput`, and `IdempotencyConflict` for an `id` used for something else."""
        ...

    async def forget_status(self, id: str) -> Forgetting:
        """Raises `ForgetNotFound`."""
        ...

    def events(self) -> Feed: ...
