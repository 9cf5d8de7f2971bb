"""A channel is one bot account on one platform. It receives into durable mailboxes and sends from a durable outbox.

Rule 1: a channel acknowledges an event to its platform only after `Intake.receive` has returned. If it raises, the
        event is not acknowledged: the platform redelivers it, or the channel fetches it after reconnecting.
Rule 2: a channel keeps no durable state. After a restart, `Intake.read_up_to` tells it where to resume.
Rule 3: `send` reports only what is certain. A post may be repeated only if it provably did not leave this machine or
        was provably refused.
Rule 4: a channel translates its library's exceptions. A channel that cannot continue raises `ChannelFailed`, and the
        receiver restarts it with growing delays.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from holdfast.inbox.address import Address
from holdfast.inbox.chat_message import ChatMessage
from holdfast.kernel.ids import AgentName
from holdfast.kernel.ports import Clock, Entropy, Tasks
from holdfast.kernel.vendor_error import NO_ANSWER, VendorError
from holdfast.outbox.post import Post, SendOutcome
from holdfast.sessions.command_rights import Rank

GROUP = "holdfast.channels"  # the entry point group of third-party channels


class IntakeOutcome(Enum):
    """The result of `Intake.receive`. Every one may be acknowledged: the event is durable or was dropped on purpose."""

    TAKEN = "taken"
    DUPLICATE = "duplicate"
    REFUSED = "refused"  # the mailbox is full or the message is unacceptable; recorded, and the sender is told
    STRANGER = "stranger"  # the sender has no access, and was told how to request it
    IGNORED = "ignored"  # the event holds nothing that an agent could read


class Intake(Protocol):
    """The receiving side of Holdfast, as one agent's channel sees it."""

    async def receive(self, message: ChatMessage) -> IntakeOutcome:
        """Store the event durably. If this raises (`StoreUnavailable`, for example), do not acknowledge the event."""

    async def read_up_to(self, account: str) -> Mapping[str, tuple[int, str]]:
        """The newest position read in each conversation, and the id of the event at that position.

        The key is <chat>, or <chat>/<thread> (`conversation_of`).
        """

    async def note_read(self, account: str, conversation: str, position: int, event_id: str) -> None:
        """Advance a conversation's position without receiving a message. A position never decreases."""

    async def moved(self, old_chat: str, new_chat: str, *, new_type: str) -> None:
        """Keep a chat's mailboxes after the platform gave the chat a new id, as Telegram does with supergroups."""

    def connected(self, detail: str = "") -> None:
        """Report that the platform is connected."""

    def disconnected(self, reason: str, *, vendor: VendorError = NO_ANSWER) -> None:
        """Report a lost connection that the channel is re-establishing. `vendor` is the platform's answer, if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelCapabilities:
    text_chars_max: int  # of one message, in the platform's own units
    text_length: Callable[[str], int] = len  # how the platform counts
    typing: bool = False
    typing_lasts_ms: int = 5_000
    chat_interval_ms: int = 0  # between two messages to one chat
    nonce_lasts_ms: int = 0  # how long the platform refuses a repeated nonce; 0 when it does not
    drafts: bool = False  # the operator wants replies shown while they are generated; needs `Editing`
    edit_interval_ms: int = 1_500  # between two edits of a draft in a private chat
    group_edit_interval_ms: int = 1_500  # and in a group
    account_edit_interval_ms: int = 0  # between two edits by the whole account
    command_hint: str = ""  # how to send a command where a plain `/approve ID` does not reach the bot
    cumulative: bool = False  # acknowledging one event acknowledges all before it (Telegram), or none is (Discord)


class Channel(Protocol):
    @property
    def capabilities(self) -> ChannelCapabilities: ...

    async def run(self, intake: Intake) -> None:
        """Connect and receive until cancelled. Raises `ChannelFailed` when it cannot continue."""

    async def send(self, post: Post) -> SendOutcome:
        """Post one part of a reply. Raises nothing."""

    async def typing(self, address: Address) -> None:
        """Show a typing indicator. Best effort; raises nothing."""

    async def close(self) -> None: ...


@runtime_checkable
class Identifiable(Protocol):
    """A channel that can ask its platform for the bot's name without receiving or posting anything."""

    async def identify(self) -> str:
        """The bot's name. Raises `ChannelFailed` with the reason if the platform does not tell it."""


@runtime_checkable
class Ranking(Protocol):
    """A channel whose platform knows the admins of a group."""

    async def rank(self, message: ChatMessage) -> Rank:
        """The sender's rank in the message's group: `ADMIN`, `MEMBER`, or `UNKNOWN` when the platform does not answer.
        Returns within seconds; raises nothing."""


@runtime_checkable
class Editing(Protocol):
    """A channel whose platform can change a posted message."""

    async def edit(self, address: Address, receipt: str, text: str) -> SendOutcome:
        """Replace the message's text. Idempotent: a text that is already there is `Sent`.

        Returns `Declined` when the message can no longer be edited. Raises nothing.
        """

    async def retract(self, address: Address, receipt: str) -> SendOutcome:
        """Delete the message. `Sent` means it is gone, `Declined` that it will stay. Raises nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSetup:
    """The arguments of a channel factory. `settings` is the channel's table of holdfast.toml, unchecked."""

    name: str
    agent: AgentName
    settings: Mapping[str, object]
    environment: Mapping[str, str]  # resolves `token_env`
    folder: Path  # of holdfast.toml; a relative `token_file` is resolved against it
    clock: Clock
    entropy: Entropy
    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRequest:
    """A platform's request to our HTTP server, with its raw bytes."""

    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case; repeated ones joined by ", "
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookAnswer:
    """The response to a webhook request. Any status but 2xx asks the platform to redeliver."""

    status: int
    body: bytes = b""
    media_type: str = "text/plain"


@runtime_checkable
class WebhookChannel(Protocol):
    """A channel that its platform calls over HTTP, at /v1/hooks/<agent>/<channel>."""

    async def hook(self, request: WebhookRequest, intake: Intake) -> WebhookAnswer:
        """Answer a request, after checking the signature on its raw bytes. Raises `BadSignature`."""


@runtime_checkable
class HeadCheckedWebhook(Protocol):
    """A webhook channel that can reject a forged request by its headers alone."""

    def check_head(self, headers: Mapping[str, str]) -> None:
        """Check the headers before the body is read. Raises `BadSignature` and `UnsupportedMediaType`."""


# Raises `ConfigInvalid` for invalid settings; does no I/O except reading files of secrets.
ChannelFactory: TypeAlias = Callable[[ChannelSetup], Channel]


class Webhooks(Protocol):
    """The webhook channels of this process, as the HTTP server sees them."""

    def check_head(self, agent: str, channel: str, headers: Mapping[str, str]) -> bool:
        """Whether the agent has such a channel; called before the body is read.

        Raises `BadSignature` and `UnsupportedMediaType` if the headers prove that the platform is not the caller.
        """

    async def hook(self, agent: str, channel: str, request: WebhookRequest) -> WebhookAnswer | None:
        """The channel's answer; None when the agent has no such channel. Raises `BadSignature`."""
