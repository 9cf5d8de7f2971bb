"""A channel: one bot account on one platform. It receives into durable mailboxes and sends from a durable ledger.

Rule 1: a message is acknowledged to the platform only after `Intake.receive` has returned. Whatever it raises means
        "not acknowledged": the platform sends it again, or the channel fetches it after reconnecting.
Rule 2: a channel keeps nothing that matters in RAM. What was missed is found by asking `Intake.read_up_to`.
Rule 3: `send` says what is certain. Only what provably did not leave, or was provably refused, may be sent again.
Rule 4: foreign exceptions are translated here; a channel that cannot go on raises `ChannelFailed`, and its loop starts
        it again with growing delays.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from holdfast.inbox.address import Address
from holdfast.kernel.clock import Clock
from holdfast.kernel.entropy import Entropy
from holdfast.kernel.ids import AgentName
from holdfast.kernel.tasks import Tasks
from holdfast.kernel.vendor_error import NO_ANSWER, VendorError
from holdfast.outbox.post import Post, SendOutcome
from holdfast.sessions.command_rights import Rank

GROUP = "holdfast.channels"  # the entry point group of channels that others ship
ATTACHMENT_BYTES_MAX = 20 * 1024 * 1024
ATTACHMENTS_MAX = 10


class Change(Enum):
    """What happened on the platform. Edits and deletions are events of their own, journaled without a turn."""

    NEW = "new"
    EDITED = "edited"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """Something that came with a message. One that is too large has no body, and is named all the same."""

    name: str
    media_type: str
    size: int  # in bytes
    body: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One event of a platform, in words that every platform shares. Ids are the platform's own and never change."""

    account: str  # the bot's identity on the platform, e.g. telegram:12345
    event_id: str  # unique in the conversation; an edit has another one than what it edits
    chat: str
    chat_type: str = "dm"  # dm, group, channel: Hermes' words where it has them
    thread: str | None = None
    sender: str  # the sender's immutable id on the platform
    sender_name: str = ""  # as shown; never trusted for access
    text: str = ""  # or the caption of what is attached
    addressed: bool = True  # said to this bot: in private, by mention, or as an answer to it
    human: bool = True
    change: Change = Change.NEW
    of: str = ""  # the event that an edit or deletion is about
    attachments: tuple[Attachment, ...] = ()
    position: int | None = None  # grows with every message of the conversation, where messages can be missed


def conversation_of(chat: str, thread: str | None = None) -> str:
    """What event ids are unique in, and what is read up to a position."""
    return chat if thread is None else f"{chat}/{thread}"


class Verdict(Enum):
    """What became of an event. Whichever it is, it may be acknowledged: it is durable, or deliberately not kept."""

    TAKEN = "taken"
    DUPLICATE = "duplicate"
    REFUSED = "refused"  # a full mailbox, or nothing that could ever be kept; on record, and the sender is told
    STRANGER = "stranger"  # the sender may not come in, and has been told how to ask
    IGNORED = "ignored"  # nothing that an agent could read


class Intake(Protocol):
    """What a channel may call while it receives. Made for one agent's channel."""

    async def receive(self, message: ChatMessage) -> Verdict:
        """Durable when it returns. Raises `StoreUnavailable` and the like: do not acknowledge then."""
        ...

    async def read_up_to(self, account: str) -> Mapping[str, tuple[int, str]]:
        """Conversation to the newest position taken from it, and that event's id.

        A conversation is written <chat>, or <chat>/<thread> (`conversation_of`).
        """
        ...

    async def note_read(self, account: str, conversation: str, position: int, event_id: str) -> None:
        """What `read_up_to` says from now on, where nothing is received that would say it. Positions only grow."""
        ...

    async def moved(self, old_chat: str, new_chat: str, *, new_type: str) -> None:
        """The platform gave a chat a new id (a Telegram group became a supergroup): the same mailboxes go on."""
        ...

    def connected(self, detail: str = "") -> None:
        """The platform is there."""
        ...

    def disconnected(self, reason: str, *, vendor: VendorError = NO_ANSWER) -> None:
        """The platform went away; the channel is reconnecting by itself. `vendor` is what it answered, if it did."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelCapabilities:
    text_chars_max: int  # of one message, in the platform's own units
    text_length: Callable[[str], int] = len  # how the platform counts
    typing: bool = False
    typing_lasts_ms: int = 5_000
    chat_interval_ms: int = 0  # between two messages to one chat
    nonce_lasts_ms: int = 0  # how long the platform refuses a repeated nonce; 0 when it does not
    drafts: bool = False  # the operator wants replies to be shown while they are made; needs `Editing`
    edit_interval_ms: int = 1_500  # between two edits of a draft in a conversation of two
    group_edit_interval_ms: int = 1_500  # and in a group
    account_edit_interval_ms: int = 0  # between two edits of the whole account
    command_hint: str = ""  # what people must know to send a command, where a plain `/approve ID` does not reach us
    cumulative: bool = False  # acknowledging one event acknowledges those before it (Telegram), or none is (Discord)


class Channel(Protocol):
    @property
    def capabilities(self) -> ChannelCapabilities: ...

    async def run(self, intake: Intake) -> None:
        """Connect and receive until cancelled. Raises `ChannelFailed` when it cannot go on."""
        ...

    async def send(self, post: Post) -> SendOutcome:
        """Post one piece. Raises nothing."""
        ...

    async def typing(self, address: Address) -> None:
        """Show that an answer is being made. Best effort; raises nothing."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class Identifiable(Protocol):
    """A channel that can ask its platform who the bot is, without receiving or posting anything."""

    async def identify(self) -> str:
        """The bot's name. Raises `ChannelFailed` with why it is not known."""
        ...


@runtime_checkable
class Ranking(Protocol):
    """A channel whose platform tells who is an admin of a group."""

    async def rank(self, message: ChatMessage) -> Rank:
        """What the sender of a message is in its group: `ADMIN`, `MEMBER`, or `UNKNOWN` when the platform cannot be
        asked. Ends within seconds; raises nothing."""
        ...


@runtime_checkable
class Editing(Protocol):
    """A channel whose platform lets a message be changed after it was posted."""

    async def edit(self, address: Address, receipt: str, text: str) -> SendOutcome:
        """Put the text in the place of what stands there. May be repeated: a text that is there already is `Sent`.

        `Declined` when that message cannot be edited (any more), whatever the reason. Raises nothing.
        """
        ...

    async def retract(self, address: Address, receipt: str) -> SendOutcome:
        """Delete it. `Sent` when it is not there afterwards; `Declined` when it will stay. Raises nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSetup:
    """What a factory is given. `settings` is the channel's own table of holdfast.toml, unchecked."""

    name: str
    agent: AgentName
    settings: Mapping[str, object]
    environment: Mapping[str, str]  # where `token_env` is looked up
    folder: Path  # that of holdfast.toml: relative `token_file` paths begin there
    clock: Clock
    entropy: Entropy
    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRequest:
    """A request of a platform to our own HTTP server, with its raw bytes."""

    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case; repeated ones joined by ", "
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookAnswer:
    """What the platform is told. Anything but 2xx asks it to call again."""

    status: int
    body: bytes = b""
    media_type: str = "text/plain"


@runtime_checkable
class Hooked(Protocol):
    """A channel that the platform calls over HTTP, at /v1/hooks/<agent>/<channel>."""

    async def hook(self, request: WebhookRequest, intake: Intake) -> WebhookAnswer:
        """What to answer; the signature is checked on the raw bytes first. Raises `BadSignature`."""
        ...


@runtime_checkable
class HeadChecked(Protocol):
    """A hooked channel that can tell from the headers alone that a request is not its platform's."""

    def check_head(self, headers: Mapping[str, str]) -> None:
        """Called before anything of the body is read. Raises `BadSignature` and `UnsupportedMediaType`."""
        ...


# Raises `ConfigInvalid` for settings that cannot be right; does no I/O.
ChannelFactory: TypeAlias = Callable[[ChannelSetup], Channel]


class Hooks(Protocol):
    """The hooked channels of this process, for the HTTP server."""

    def check_head(self, agent: str, channel: str, headers: Mapping[str, str]) -> bool:
        """Whether the agent has such a channel, asked before anything of the body is read.

        Raises `BadSignature` and `UnsupportedMediaType` where the headers alone show that the platform did not call.
        """
        ...

    async def hook(self, agent: str, channel: str, request: WebhookRequest) -> WebhookAnswer | None:
        """What to answer; None when the agent has no such channel. Raises `BadSignature`."""
        ...
