"""Translates discord.py's messages into `ChatMessage`, and its guilds into channels that may hold missed messages.

To Discord a thread is a channel of its own; here it is part of its parent's chat. Every id is Discord's own; names are
for display only. Messages of bots and webhooks do not count as human.

When Discord shows a guild, it tells the newest message of each channel, so a channel without newer messages costs no
request. Discord does not list private chats and archived threads to bots.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import discord

from holdfast.inbox.chat_message import Attachment, ChatMessage, MessageChange

EPOCH_MS = 1_420_070_400_000
TEXT_TYPES = frozenset({discord.MessageType.default, discord.MessageType.reply})  # others report joins, pins, calls
_CHANNEL = re.compile(r"(\d{1,20})\Z")
TextChannel: TypeAlias = discord.TextChannel | discord.VoiceChannel | discord.StageChannel | discord.Thread


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordPlace:
    """The chat and thread of a Discord channel, as an address names them."""

    chat: str
    thread: str | None = None
    type: str = "group"
    guild_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordIdentity:
    """The bot's own ids in the guild of a message."""

    account: str
    user_id: int
    role_id: int | None = None  # the role that Discord created for the bot in the guild; it can be mentioned, too


def place_of(channel: object) -> DiscordPlace | None:
    """None if discord.py knows too little about the channel."""
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
    """The id of the channel behind a conversation, which is named by its chat, or by its chat and thread."""
    found = _CHANNEL.search(conversation)
    return int(found[1]) if found else None


def snowflake_at(ms: int) -> int:
    """The smallest id that Discord assigns at that time."""
    return max(0, ms - EPOCH_MS) << 22


def is_readable(message: discord.Message, me: DiscordIdentity) -> bool:
    """Whether the message is text from another author."""
    return message.author.id != me.user_id and message.type in TEXT_TYPES


def translated(
    message: discord.Message,
    place: DiscordPlace,
    me: DiscordIdentity,
    attachments: tuple[Attachment, ...],
    change: MessageChange = MessageChange.NEW,
) -> ChatMessage:
    is_new = change is MessageChange.NEW
    edited_ms = int(message.edited_at.timestamp() * 1000) if message.edited_at is not None else 0
    return ChatMessage(
        account=me.account,
        event_id=str(message.id) if is_new else f"{message.id}.edit.{edited_ms}",
        chat=place.chat,
        chat_type=place.type,
        thread=place.thread,
        sender=str(message.author.id),
        sender_name=message.author.display_name,
        text=_without_mention(message.content, me),
        addressed=place.type == "dm" or _is_addressed(message, me),
        human=not message.author.bot and message.webhook_id is None,
        change=change,
        of="" if is_new else str(message.id),
        attachments=attachments,
        position=message.id if is_new else None,
    )


def deleted(message_id: int, place: DiscordPlace, me: DiscordIdentity, author_id: int) -> ChatMessage:
    """A deletion, with the author as its sender: Discord does not say who deleted the message."""
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


def _without_mention(text: str, me: DiscordIdentity) -> str:
    """The text without a mention of this bot at its beginning."""
    names = [rf"<@!?{me.user_id}>", *([] if me.role_id is None else [rf"<@&{me.role_id}>"])]
    return re.sub(rf"\A\s*(?:{'|'.join(names)})[\s,:]*", "", text)


@dataclass(frozen=True, slots=True)
class GuildChannel:
    channel_id: int
    newest: int  # its newest message, which may be deleted by now
    is_readable: Callable[[], bool]  # whether the bot has the permission


def channels_of(guild: discord.Guild, user_id: int) -> list[GuildChannel]:
    """The guild's channels that hold messages. `user_id` is the bot's."""
    me = guild.get_member(user_id)
    channels: list[TextChannel] = [*guild.text_channels, *guild.voice_channels, *guild.stage_channels, *guild.threads]
    return [
        GuildChannel(one.id, one.last_message_id, partial(_may_read, one, me))
        for one in channels
        if one.last_message_id
    ]


def _may_read(channel: TextChannel, me: discord.Member | None) -> bool:
    """Discord bans clients that often request forbidden channels. If the permission is unknown, the bot tries."""
    if me is None or (isinstance(channel, discord.Thread) and channel.parent is None):
        return True
    allowed = channel.permissions_for(me)
    return allowed.view_channel and allowed.read_message_history
