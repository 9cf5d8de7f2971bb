"""A platform's message in the terms that all platforms share. Each channel translates its own events into it."""

from dataclasses import dataclass
from enum import Enum

ATTACHMENT_BYTES_MAX = 20 * 1024 * 1024
ATTACHMENTS_MAX = 10


class MessageChange(Enum):
    """The kind of event. An edit or a deletion is an event of its own and is journaled without a turn."""

    NEW = "new"
    EDITED = "edited"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file that came with a message. A file that was too large or could not be fetched has no body."""

    name: str
    media_type: str
    size: int  # in bytes
    body: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One event of a platform. Ids are the platform's own and never change."""

    account: str  # the bot's identity on the platform, e.g. telegram:12345
    event_id: str  # unique in the conversation; an edit's id differs from that of the edited message
    chat: str
    chat_type: str = "dm"  # dm, group, channel: Hermes' words where it has them
    thread: str | None = None
    sender: str  # the sender's immutable id on the platform
    sender_name: str = ""  # as displayed; never used for access decisions
    text: str = ""  # or the caption of an attachment
    addressed: bool = True  # meant for this bot: a private chat, a mention, or a reply to the bot
    human: bool = True
    change: MessageChange = MessageChange.NEW
    of: str = ""  # the event id of the edited or deleted message
    attachments: tuple[Attachment, ...] = ()
    position: int | None = None  # increases within the conversation; set where messages can be missed

    @property
    def conversation(self) -> str:
        return conversation_of(self.chat, self.thread)


def conversation_of(chat: str, thread: str | None = None) -> str:
    """The scope in which event ids are unique and read positions are kept: <chat> or <chat>/<thread>."""
    return chat if thread is None else f"{chat}/{thread}"
