"""An update as what it means: something heard, a chat that moved, or nothing for an agent. Values in, values out.

Rule 1: an event's id is the message's; that of an edit also has the update's, since a message may be edited twice in
        the second that Telegram dates edits by. Both are the same whenever the update is delivered again.
Rule 2: a sender is who Telegram says it is: a chat that speaks for itself (a channel, an anonymous admin) before the
        placeholder user it is shown under.
Rule 3: a thread is a topic. A reply in an ordinary group has a thread's id as well, and is none.

Telegram tells bots of no deletion, so there are no such events.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

import msgspec

from holdfast.channels.telegram.media import Parcel, enclosed
from holdfast.channels.telegram.text import Words, clean
from holdfast.channels.telegram.wire import BotAccount, Envelope, TelegramChat, TelegramMessage, Update
from holdfast.inbox.chat_message import ChatMessage, MessageChange

CHAT_TYPES = {"private": "dm", "group": "group", "supergroup": "group", "channel": "channel"}
NAME_CHARS_MAX = 128


@dataclass(frozen=True, slots=True)
class Heard:
    message: ChatMessage
    parcel: Parcel | None = None  # what came with it, not fetched yet

    @property
    def chats(self) -> tuple[str, ...]:
        return (self.message.chat,)


@dataclass(frozen=True, slots=True)
class Moved:
    old: str
    new: str

    @property
    def chats(self) -> tuple[str, ...]:
        return (self.old, self.new)


@dataclass(frozen=True, slots=True)
class Nothing:
    why: str
    chats: tuple[str, ...] = ()
    is_odd: bool = False  # not even an update


Event: TypeAlias = Heard | Moved | Nothing


@dataclass(frozen=True, slots=True)
class Arrival:
    """An update, read."""

    id: int | None
    event: Event

    @property
    def has_file(self) -> bool:
        return isinstance(self.event, Heard) and self.event.parcel is not None


def read_raw(raw: object, me: BotAccount) -> Arrival:
    """Whatever Telegram sent, as an update."""
    try:
        update = msgspec.convert(raw, Update)
    except msgspec.ValidationError:  # its text may quote the update
        return Arrival(update_id(raw), Nothing("it cannot be read", is_odd=True))
    return Arrival(update.update_id, read_update(update, me))


def update_id(raw: object) -> int | None:
    """The id of an update whose content may be anything; None when it has none."""
    try:
        return msgspec.convert(raw, Envelope).update_id
    except msgspec.ValidationError:
        return None


def read_update(update: Update, me: BotAccount) -> Event:
    new, edited = update.message or update.channel_post, update.edited_message or update.edited_channel_post
    if new is not None:
        return _moved(new) or _heard(new, me)
    if edited is None:
        return Nothing("another kind of update")
    heard = _heard(edited, me)
    if isinstance(heard, Nothing):
        return heard
    of = str(edited.message_id)
    changed = replace(heard.message, change=MessageChange.EDITED, of=of, event_id=f"{of}.edit.{update.update_id}")
    return Heard(changed, heard.parcel)


def _moved(message: TelegramMessage) -> Moved | None:
    """Both chats tell it, the old one and the new."""
    if message.migrate_to_chat_id is not None:
        return Moved(str(message.chat.id), str(message.migrate_to_chat_id))
    if message.migrate_from_chat_id is not None:
        return Moved(str(message.migrate_from_chat_id), str(message.chat.id))
    return None


def _heard(message: TelegramMessage, me: BotAccount) -> Heard | Nothing:
    kind = CHAT_TYPES.get(message.chat.type)
    sender = _sender(message)
    if kind is None or sender is None:
        return Nothing("a chat of another kind" if kind is None else "nobody said it")
    words, parcel = Words(message, me), enclosed(message)
    text = words.text() or _described(message)
    if not text and parcel is None:
        return Nothing("no words and nothing enclosed")
    heard = ChatMessage(
        account=f"telegram:{me.id}",
        event_id=str(message.message_id),
        chat=str(message.chat.id),
        chat_type=kind,
        thread=str(message.message_thread_id) if message.is_topic_message and message.message_thread_id else None,
        sender=sender[0],
        sender_name=clean(sender[1])[:NAME_CHARS_MAX],
        text=text,
        addressed=words.addressed(),
        human=_is_human(message),
    )
    return Heard(heard, parcel)


def _sender(message: TelegramMessage) -> tuple[str, str] | None:
    """The immutable id, and the name that is shown."""
    chat = message.sender_chat or (message.chat if _is_post(message.chat) and message.from_ is None else None)
    if chat is not None:
        return str(chat.id), chat.title
    user = message.from_
    return None if user is None else (str(user.id), f"{user.first_name} {user.last_name}".strip())


def _is_human(message: TelegramMessage) -> bool:
    """A post of a channel does not say who wrote it, and bots hear each other there: it counts as nobody's, for the
    loop guard. Who speaks as a chat in a group (an anonymous admin) is shown as a bot, and is none."""
    if _is_post(message.chat):
        return message.from_ is not None and not message.from_.is_bot
    return message.sender_chat is not None or (message.from_ is not None and not message.from_.is_bot)


def _is_post(chat: TelegramChat) -> bool:
    return chat.type == "channel"


def _described(message: TelegramMessage) -> str:
    """What has neither words nor a file, in words."""
    if message.sticker is not None:
        return clean(message.sticker.emoji)
    if message.location is not None:
        return f"[location: {message.location.get('latitude')}, {message.location.get('longitude')}]"
    if message.contact is not None:
        fields = (message.contact.get(name) for name in ("first_name", "last_name", "phone_number"))
        return clean(f"[contact: {' '.join(str(field) for field in fields if field)}]")
    return ""
