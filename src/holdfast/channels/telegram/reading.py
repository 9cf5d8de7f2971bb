"""Translates an update into a `ChatMessage`, a change of a chat's id, or a reason to skip it. Pure.

Rule 1: a message's event id is its message id. An edit's event id also holds the update's id, because a message may be
        edited twice within one second, which is Telegram's resolution. A redelivered update gets the same event id.
Rule 2: the sender is the chat that a message was sent on behalf of (a channel, an anonymous admin), if there is one;
        otherwise it is the user.
Rule 3: a thread is a forum topic. A reply in an ordinary group has a thread id too, but belongs to no topic.

Telegram does not report deletions to bots, so no update is one.
"""

from dataclasses import dataclass, replace

import msgspec

from holdfast.channels.telegram.text import MessageText, clean
from holdfast.channels.telegram.wire import BotAccount, Media, TelegramChat, TelegramMessage, Update
from holdfast.inbox.chat_message import Attachment, ChatMessage, MessageChange

CHAT_TYPES = {"private": "dm", "group": "group", "supergroup": "group", "channel": "channel"}
NAME_CHARS_MAX = 128
FILE_NAME_CHARS_MAX = 200
DEFAULTS = {  # the name and type of a file that has none, by kind; an animation is also shown as a document
    "animation": ("animation.mp4", "video/mp4"),
    "video": ("video.mp4", "video/mp4"),
    "video_note": ("video.mp4", "video/mp4"),
    "voice": ("voice.ogg", "audio/ogg"),
    "audio": ("audio.mp3", "audio/mpeg"),
    "document": ("document", "application/octet-stream"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingUpdate:
    """One update. It has a message, or a move, or a reason to skip it."""

    id: int | None
    message: ChatMessage | None = None
    file_id: str = ""  # the file of the message's attachment, which is not fetched yet
    moved: tuple[str, str] | None = None  # the old and the new id of a chat
    skipped: str = ""
    is_malformed: bool = False

    @property
    def chats(self) -> tuple[str, ...]:
        """The chats within which the order of updates must be kept."""
        return self.moved or (() if self.message is None else (self.message.chat,))


def read_update(raw: object, me: BotAccount) -> IncomingUpdate:
    try:
        update = msgspec.convert(raw, Update)
    except msgspec.ValidationError:  # its text may quote the update
        number = raw.get("update_id") if isinstance(raw, dict) else None
        id_ = number if type(number) is int else None
        return IncomingUpdate(id=id_, skipped="it cannot be read", is_malformed=True)
    new, edited = update.message or update.channel_post, update.edited_message or update.edited_channel_post
    if new is not None and (moved := _moved(new)) is not None:
        return IncomingUpdate(id=update.update_id, moved=moved)
    if new is not None:
        return _read_message(update.update_id, new, me)
    if edited is None:
        return IncomingUpdate(id=update.update_id, skipped="another kind of update")
    read, of = _read_message(update.update_id, edited, me), str(edited.message_id)
    if read.message is None:
        return read
    event_id = f"{of}.edit.{update.update_id}"
    return replace(read, message=replace(read.message, change=MessageChange.EDITED, of=of, event_id=event_id))


def _moved(message: TelegramMessage) -> tuple[str, str] | None:
    """Both the old chat and the new one announce the move."""
    if message.migrate_to_chat_id is not None:
        return str(message.chat.id), str(message.migrate_to_chat_id)
    if message.migrate_from_chat_id is not None:
        return str(message.migrate_from_chat_id), str(message.chat.id)
    return None


def _read_message(update_id: int, message: TelegramMessage, me: BotAccount) -> IncomingUpdate:
    chat_type, named = CHAT_TYPES.get(message.chat.type), _sender(message)
    if chat_type is None or named is None:
        return IncomingUpdate(id=update_id, skipped="a chat of another kind" if chat_type is None else "no sender")
    sender, sender_name = named
    content = MessageText(message, me)
    file_id, attachment = _file_of(message) or ("", None)
    text = content.text() or _described(message)
    if not text and attachment is None:
        return IncomingUpdate(id=update_id, skipped="neither text nor a file")
    read = ChatMessage(
        account=f"telegram:{me.id}",
        event_id=str(message.message_id),
        chat=str(message.chat.id),
        chat_type=chat_type,
        thread=str(message.message_thread_id) if message.is_topic_message and message.message_thread_id else None,
        sender=sender,
        sender_name=clean(sender_name)[:NAME_CHARS_MAX],
        text=text,
        addressed=content.addressed(),
        human=_is_human(message),
        attachments=() if attachment is None else (attachment,),
    )
    return IncomingUpdate(id=update_id, message=read, file_id=file_id)


def _sender(message: TelegramMessage) -> tuple[str, str] | None:
    """The sender's immutable id and displayed name."""
    chat = message.sender_chat or (message.chat if _is_channel(message.chat) and message.from_ is None else None)
    if chat is not None:
        return str(chat.id), chat.title
    user = message.from_
    return None if user is None else (str(user.id), f"{user.first_name} {user.last_name}".strip())


def _is_human(message: TelegramMessage) -> bool:
    """A channel post names no author, and bots see each other's posts: it does not count as human, for the loop guard.
    A group message on behalf of a chat (an anonymous admin) is shown as a bot's and counts as human."""
    if _is_channel(message.chat):
        return message.from_ is not None and not message.from_.is_bot
    return message.sender_chat is not None or (message.from_ is not None and not message.from_.is_bot)


def _is_channel(chat: TelegramChat) -> bool:
    return chat.type == "channel"


def _described(message: TelegramMessage) -> str:
    """A description of a message that has no text."""
    if message.sticker is not None:
        return clean(message.sticker.emoji)
    if message.location is not None:
        return f"[location: {message.location.get('latitude')}, {message.location.get('longitude')}]"
    if message.contact is not None:
        fields = (message.contact.get(name) for name in ("first_name", "last_name", "phone_number"))
        return clean(f"[contact: {' '.join(str(field) for field in fields if field)}]")
    return ""


def _file_of(message: TelegramMessage) -> tuple[str, Attachment] | None:
    """The file's id, and the attachment without its body. A message has at most one; an album is several messages."""
    if message.photo:
        return _file(max(message.photo, key=lambda size: size.file_size), "photo.jpg", "image/jpeg")
    if message.sticker is not None:
        return _file(message.sticker, *_sticker(message.sticker))
    kind = next((kind for kind in DEFAULTS if getattr(message, kind) is not None), None)
    return None if kind is None else _file(getattr(message, kind), *DEFAULTS[kind])


def _sticker(sticker: Media) -> tuple[str, str]:
    if sticker.is_animated:
        return "sticker.tgs", "application/x-tgsticker"
    return ("sticker.webm", "video/webm") if sticker.is_video else ("sticker.webp", "image/webp")


def _file(media: Media, name: str, media_type: str) -> tuple[str, Attachment]:
    return media.file_id, Attachment(
        name=clean(media.file_name)[:FILE_NAME_CHARS_MAX] or name,
        media_type=clean(media.mime_type)[:FILE_NAME_CHARS_MAX] or media_type,
        size=max(media.file_size, 0),
    )
