"""One run of a channel: its connection, its reader and its downloads.

Its caches (a channel's place, the authors of recent messages) can be refilled or done without.
"""

from collections.abc import AsyncIterator

import discord

from holdfast.channels.account_watermark import AccountWatermark
from holdfast.channels.discord.client import DiscordBot
from holdfast.channels.discord.files import DiscordFiles
from holdfast.channels.discord.guild_channels import channels_of
from holdfast.channels.discord.mapping import DiscordIdentity, DiscordPlace, deleted, is_readable, place_of, translated
from holdfast.channels.discord.reading import DiscordEvent, DiscordReader
from holdfast.inbox.channel import ChannelSetup, Intake
from holdfast.inbox.chat_message import ChatMessage, MessageChange

PLACES_MAX = 10_000
AUTHORS_MAX = 20_000


class DiscordSession:
    def __init__(self, setup: ChannelSetup, api_url: str, intake: Intake) -> None:
        self.bot = DiscordBot(api_url, self, setup.tasks, setup.entropy)
        self._setup = setup
        self._intake = intake
        self._files = DiscordFiles(api_url)
        self._places: dict[int, DiscordPlace] = {}
        self._authors: dict[int, int] = {}  # by message id; a deletion does not name the author
        self._shown: set[int] = set()  # guilds whose channels were checked since the last connection
        self._reader: DiscordReader | None = None

    def begin(self) -> None:
        """Create the reader, once login has told the account's id."""
        self._user_id = self.bot.user.id if self.bot.user is not None else 0
        self._account = f"discord:{self._user_id}"
        watermark = AccountWatermark(self._account, self._intake, clock=self._setup.clock, tasks=self._setup.tasks)
        self._reader = DiscordReader(
            self._account,
            self._intake,
            self._translate,
            self._history,
            self._is_shown,
            watermark=watermark,
            tasks=self._setup.tasks,
            entropy=self._setup.entropy,
        )

    async def close(self) -> None:
        try:
            if self._reader is not None:
                await self._reader.close()
        finally:
            await self.bot.shut()
            await self._files.close()

    # --- events of the connection, in order; each call returns at once

    def connected(self) -> None:
        name = self.bot.user.name if self.bot.user is not None else ""
        self._intake.connected(f"@{name}" if name else self._account)
        if self._reader is not None:
            self._reader.connected()
        self._shown.clear()
        for guild in self.bot.guilds:  # a resumed connection does not announce them again
            if not guild.unavailable:
                self.shown(guild)

    def disconnected(self) -> None:
        self._intake.disconnected("Discord closed the connection")
        if self._reader is not None:
            self._reader.disconnected()

    def shown(self, guild: discord.Guild) -> None:
        """Check the guild once after each absence: discord.py may know it before it reports the connection."""
        if self._reader is not None and guild.id not in self._shown:
            self._shown.add(guild.id)
            self._reader.check(channels_of(guild, self._user_id))

    def hidden(self, guild: discord.Guild) -> None:
        self._shown.discard(guild.id)

    def joined(self, guild: discord.Guild) -> None:
        """Earlier messages of a guild that just invited the bot are not read."""
        self._shown.add(guild.id)

    def _is_shown(self) -> bool:
        """Whether all guilds have been checked for missed messages."""
        return all(guild.id in self._shown and not guild.unavailable for guild in self.bot.guilds)

    def posted(self, message: discord.Message) -> None:
        self._offer(MessageChange.NEW, message.channel.id, message.id, message)

    def edited(self, message: discord.Message) -> None:
        if message.edited_at is not None:  # otherwise Discord added a preview, or the message was pinned
            self._offer(MessageChange.EDITED, message.channel.id, message.id, message)

    def deleted(self, channel_id: int, message_id: int) -> None:
        self._offer(MessageChange.DELETED, channel_id, message_id, None)

    def _offer(self, change: MessageChange, channel_id: int, message_id: int, message: discord.Message | None) -> None:
        if self._reader is not None:
            event = DiscordEvent(change=change, channel_id=channel_id, message_id=message_id, message=message)
            self._reader.offer(event)

    # --- services for the reader

    async def _history(self, channel_id: int, after: int) -> AsyncIterator[discord.Message]:
        channel = self.bot.get_partial_messageable(channel_id)
        async for message in channel.history(after=discord.Object(after), oldest_first=True, limit=None):
            yield message

    async def _translate(self, event: DiscordEvent) -> ChatMessage | None:
        """None for an event that is not kept. Raises what discord.py raises."""
        message = event.message
        author_id = self._author(event.message_id, message)
        if author_id is None:
            return None
        place = await self._place(event.channel_id, None if message is None else message.channel)
        me = self._me(place)
        if message is None:
            return deleted(event.message_id, place, me, author_id)
        if not is_readable(message, me):
            return None
        attachments = await self._files.of(message) if event.change is MessageChange.NEW else ()
        return translated(message, place, me, attachments, event.change)

    def _author(self, message_id: int, message: discord.Message | None) -> int | None:
        """None for a deleted message of the bot itself, or of one that this run of the channel has not seen."""
        if message is None:
            return self._authors.get(message_id)
        if message.author.id != self._user_id:
            self._authors[message_id] = message.author.id
        if len(self._authors) > AUTHORS_MAX:
            del self._authors[next(iter(self._authors))]
        return message.author.id

    async def _place(self, channel_id: int, seen: object) -> DiscordPlace:
        place = self._places.get(channel_id) or place_of(seen) or place_of(self.bot.get_channel(channel_id))
        if place is None:
            place = place_of(await self.bot.fetch_channel(channel_id)) or DiscordPlace(chat=str(channel_id))
        if len(self._places) >= PLACES_MAX:
            self._places.clear()
        self._places[channel_id] = place
        return place

    def _me(self, place: DiscordPlace) -> DiscordIdentity:
        guild = self.bot.get_guild(place.guild_id) if place.guild_id is not None else None
        role = guild.self_role if guild is not None else None
        return DiscordIdentity(account=self._account, user_id=self._user_id, role_id=None if role is None else role.id)
