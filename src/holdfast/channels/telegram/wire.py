"""The objects of the Bot API, with the fields that Holdfast reads, and the error of a call. Other fields are ignored.

See https://core.telegram.org/bots/api#available-types.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec

from holdfast.kernel.vendor_error import NO_ANSWER, VendorError


class ResponseParameters(msgspec.Struct, frozen=True):
    retry_after: float = 0
    migrate_to_chat_id: int = 0


class ApiAnswer(msgspec.Struct, frozen=True):
    """The envelope of every answer."""

    ok: bool
    result: Any = None
    error_code: int | None = None
    description: str | None = None
    parameters: ResponseParameters = ResponseParameters()

    @property
    def is_refusal(self) -> bool:
        """Whether Telegram itself refused the call."""
        return not self.ok and self.error_code is not None and self.description is not None


class BotAccount(msgspec.Struct, frozen=True):
    id: int
    username: str = ""


class File(msgspec.Struct, frozen=True):
    file_path: str = ""
    file_size: int = 0


class User(msgspec.Struct, frozen=True):
    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str = ""


class TelegramChat(msgspec.Struct, frozen=True):
    id: int
    type: str = ""
    title: str = ""


class Entity(msgspec.Struct, frozen=True):
    """A range of a text; `offset` and `length` count UTF-16 code units."""

    type: str
    offset: int
    length: int
    user: User | None = None


class Media(msgspec.Struct, frozen=True):
    """A file of any kind; each kind has some of these fields."""

    file_id: str
    file_size: int = 0
    file_name: str = ""
    mime_type: str = ""
    emoji: str = ""
    is_animated: bool = False
    is_video: bool = False


class RepliedMessage(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    message_id: int
    from_: User | None = None


class TelegramMessage(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    message_id: int
    chat: TelegramChat
    from_: User | None = None
    sender_chat: TelegramChat | None = None
    message_thread_id: int | None = None
    is_topic_message: bool = False
    reply_to_message: RepliedMessage | None = None
    text: str = ""
    caption: str = ""
    entities: list[Entity] = []
    caption_entities: list[Entity] = []
    photo: list[Media] = []
    animation: Media | None = None
    document: Media | None = None
    voice: Media | None = None
    audio: Media | None = None
    video: Media | None = None
    video_note: Media | None = None
    sticker: Media | None = None
    location: dict[str, Any] | None = None
    contact: dict[str, Any] | None = None
    migrate_to_chat_id: int | None = None
    migrate_from_chat_id: int | None = None


class Update(msgspec.Struct, frozen=True):
    update_id: int
    message: TelegramMessage | None = None
    edited_message: TelegramMessage | None = None
    channel_post: TelegramMessage | None = None
    edited_channel_post: TelegramMessage | None = None


class BotApiErrorKind(Enum):
    UNREACHABLE = "unreachable"  # no connection was made, so nothing was sent
    LOST = "lost"  # the request was sent and no complete answer came: it may have been executed
    BROKEN = "broken"  # the answer is no verdict (5xx, not JSON): the request may have been executed
    BUSY = "busy"  # refused for now, with a time to wait
    STRANGER = "stranger"  # refused: Telegram does not know this bot
    CONFLICT = "conflict"  # refused: another process polls, or a webhook is set
    MOVED = "moved"  # refused: the chat has a new id
    REFUSED = "refused"  # refused for good
    ODD = "odd"  # refused with an undocumented code


@dataclass(eq=False)
class BotApiError(Exception):
    """A call that failed.

    A reason holds class names and statuses only: the URL of a call contains the token, and an answer may contain
    people's messages. `vendor` holds Telegram's answer without either.
    """

    kind: BotApiErrorKind
    reason: str
    retry_after_ms: int = field(default=0, kw_only=True)
    moved_to: int = field(default=0, kw_only=True)
    description: str = field(default="", kw_only=True)  # Telegram's own text; compared, never shown
    vendor: VendorError = field(default=NO_ANSWER, kw_only=True)
