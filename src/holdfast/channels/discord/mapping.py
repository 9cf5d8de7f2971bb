"""Discord's messages in the words of the port. Pure but for the objects of discord.py that it reads.

A thread is a channel of its own for Discord and a part of its parent's chat for us. Every id is Discord's own: names
are only for showing. A bot's or a webhook's words are not a human's.
"""

import re
from dataclasses import dataclass

import discord

from holdfast.inbox.chat_message import Attachment, ChatMessage, MessageChange

EPOCH_MS = 1_420_070_400_000
SPOKEN = frozenset({discord.MessageType.default, discord.MessageType.reply})  # the others report joins, pins, calls
_CHANNEL = re.compile(r"(\d{1,20})\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordPlace:
    """Where a channel of Discord is, as an address names it."""

    chat: str
    thread: str | None = None
    type: str = "group"
    guild_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordIdentity:
    """This bot, in the place where a message was said."""

    account: str
    user_id: int
    role_id: int | None = None  # the role that Discord made for the bot in the guild; it can be mentioned too


def place_of(channel: object) -> DiscordPlace | None:
    """None when discord.py does not know enough about the channel."""
    match channel:
        case discord.DMChannel():
            return DiscordPlace(chat=str(channel.id), type="dm")
        case discord.GroupChannel():
            return DiscordPlace(chat=str(channel.id))
        case discord.Thread():
            return DiscordPlace(chat=str(channel.parent_id), thread=str(channel.id), guild_id=channel.guild.id)
        case discord.abc.GuildChannel():
            return DiscordPlace(chat=str(channel.id), guild_id=channel.guild.id)
        case _:
            return None


def channel_id_of(conversation: str) -> int | None:
    """The channel to fetch from, of a conversation as the intake names it: its chat, or its chat and thread."""
    found = _CHANNEL.search(conversation)
    return int(found[1]) if found else None


def snowflake_at(ms: int) -> int:
    """The smallest id that Discord gives to anything made then."""
    return max(0, ms - EPOCH_MS) << 22


def is_for_us(message: discord.Message, me: DiscordIdentity) -> bool:
    """Somebody else's words, whoever they are for."""
    return message.author.id != me.user_id and message.type in SPOKEN


def said(
    message: discord.Message,
    place: DiscordPlace,
    me: DiscordIdentity,
    attachments: tuple[Attachment, ...],
    change: MessageChange = MessageChange.NEW,
) -> ChatMessage:
    is_new = change is MessageChange.NEW
    return ChatMessage(
        account=me.account,
        event_id=str(message.id) if is_new else f"{message.id}.edit.{_edited_ms(message)}",
        chat=place.chat,
        chat_type=place.type,
        thread=place.thread,
        sender=str(message.author.id),
        sender_name=message.author.display_name,
        text=_without_call(message.content, me),
        addressed=place.type == "dm" or _is_addressed(message, me),
        human=not message.author.bot and message.webhook_id is None,
        change=change,
        of="" if is_new else str(message.id),
        attachments=attachments,
        position=message.id if is_new else None,
    )


def deleted(message_id: int, place: DiscordPlace, me: DiscordIdentity, author_id: int) -> ChatMessage:
    """Discord does not say who removed it; the words were the author's."""
    return ChatMessage(
        account=me.account,
        event_id=f"{message_id}.delete",
        chat=place.chat,
        chat_type=place.type,
        thread=place.thread,
        sender=str(author_id),
        addressed=False,
        change=MessageChange.DELETED,
        of=str(message_id),
    )


def _is_addressed(message: discord.Message, me: DiscordIdentity) -> bool:
    if any(user.id == me.user_id for user in message.mentions):
        return True
    if me.role_id is not None and me.role_id in message.raw_role_mentions:
        return True
    answered = message.reference.resolved if message.reference is not None else None
    return isinstance(answered, discord.Message) and answered.author.id == me.user_id


def _without_call(text: str, me: DiscordIdentity) -> str:
    """The text without the mention that it begins with, if that calls this bot."""
    names = [rf"<@!?{me.user_id}>", *([] if me.role_id is None else [rf"<@&{me.role_id}>"])]
    return re.sub(rf"\A\s*(?:{'|'.join(names)})[\s,:]*", "", text)


def _edited_ms(message: discord.Message) -> int:
    return int(message.edited_at.timestamp() * 1000) if message.edited_at is not None else 0
