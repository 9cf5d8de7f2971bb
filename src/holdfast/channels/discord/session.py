"""One run of a channel: discord.py's clients, the reader of its events, and its downloads.

Rule 1: a connection that cannot be resumed at once is not repaired here: `connect` raises, and the receiver restarts
        the channel with delays of some minutes at most (discord.py's own grow to a quarter of an hour).
Rule 2: its caches (a channel's place, the authors of recent messages) can be refilled or done without. discord.py
        caches no messages and no members.
Rule 3: a file that is too large, on another host or unavailable is named without its bytes, so that no conversation
        waits for it. URLs come with messages and are not trusted: no redirect is followed.
"""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import discord
from discord.gateway import DiscordWebSocket, KeepAliveHandler
from discord.http import HTTPClient, Route

from holdfast.channels.discord import mapping
from holdfast.channels.discord.reading import DiscordEvent, DiscordReader
from holdfast.channels.discord.send_tracker import SendTracker, watched
from holdfast.channels.http import HttpConnections
from holdfast.inbox.channel import ChannelSetup, Intake
from holdfast.inbox.chat_message import ATTACHMENT_BYTES_MAX, ATTACHMENTS_MAX, Attachment, ChatMessage, MessageChange
from holdfast.sessions.command_rights import Rank

OFFICIAL = "https://discord.com/api/v10"
MESSAGES = "/channels/{channel_id}/messages"
RATELIMIT_WAIT_S = 30.0  # the longest that discord.py waits for a limit by itself; it accepts no less


class DiscordHttpClient(HTTPClient):
    """discord.py's HTTP client, adapted: another API address, and sends that are tracked.

    Rule 1: nothing global is changed, so two accounts of one process may use two addresses.
    Rule 2: a cancelled request leaves nothing locked, and an abandoned connection leaves no thread behind.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, base: str) -> None:
        super().__init__(loop, http_trace=watched(), max_ratelimit_timeout=RATELIMIT_WAIT_S)
        self._base = base
        self._gateway: str | None = None
        self._socket: aiohttp.ClientWebSocketResponse | None = None

    async def find_gateway(self) -> None:
        """Ask for the gateway's address; discord.py knows only the official one."""
        if self._base != OFFICIAL:
            _, self._gateway, _ = await self.get_bot_gateway()

    async def request(self, route: Route, **options: Any) -> Any:  # noqa: ANN401 (JSON)
        route.url = self._base + route.url.removeprefix(Route.BASE)
        try:
            return await super().request(route, **options)
        except asyncio.CancelledError:
            self._global_over.set()  # discord.py blocks all requests if one is cancelled within a global limit
            raise

    async def send_tracked(
        self, tracker: SendTracker, method: str, channel_id: int, message_id: str | None, **options: object
    ) -> None:
        """Request a channel's messages, or one of them, without redirects."""
        path = MESSAGES if message_id is None else f"{MESSAGES}/{{message_id}}"
        route = Route(method, path, channel_id=channel_id, message_id=message_id)
        await self.request(route, trace_request_ctx=tracker, allow_redirects=False, **options)

    async def ws_connect(self, url: str, *, compress: int = 0) -> aiohttp.ClientWebSocketResponse:
        official = str(DiscordWebSocket.DEFAULT_GATEWAY)
        if self._gateway is not None and url.startswith(official):
            url = f"{self._gateway.rstrip('/')}/{url.removeprefix(official)}"
        self.stop_heartbeat()
        self._socket = await super().ws_connect(url, compress=compress)
        return self._socket

    async def close(self) -> None:
        """Close every connection, and the gateway's too where discord.py does not know it: it may have been abandoned
        before it was identified, or its closing may have been cancelled before it began."""
        await self._hang_up()
        await super().close()

    async def _hang_up(self) -> None:
        """Release the gateway's connection without waiting for an answer."""
        if self._socket is None:
            return
        try:
            with suppress(TimeoutError, OSError, aiohttp.ClientError):
                async with asyncio.timeout(0):
                    await self._socket.close()
        finally:  # if another task is still closing it, the call above does nothing
            self._socket._response.close()  # noqa: SLF001 - the only access to its connection

    def stop_heartbeat(self) -> None:
        """Stop the thread of a connection that was abandoned between hello and ready; discord.py forgets it."""
        for thread in threading.enumerate():
            if isinstance(thread, KeepAliveHandler) and thread.ws.socket is self._socket:
                thread.stop()


HOSTS = frozenset({("https", "cdn.discordapp.com"), ("https", "media.discordapp.net")})
FETCH_S = 30.0
TRIES_MAX = 2


class DiscordFiles:
    """The downloads of one run of a channel."""

    def __init__(self, api_url: str) -> None:
        parts = urlsplit(api_url)
        self._hosts = HOSTS | {(parts.scheme, parts.netloc)}
        self._http = HttpConnections()

    async def of(self, message: discord.Message) -> tuple[Attachment, ...]:
        return tuple([await self._attachment(item, n) for n, item in enumerate(message.attachments)])

    async def close(self) -> None:
        await self._http.close()

    async def _attachment(self, item: discord.Attachment, n: int) -> Attachment:
        body = None
        if n < ATTACHMENTS_MAX and self._is_wanted(item):
            body = await self._http.fetch(
                item.url, total_s=FETCH_S, bytes_max=ATTACHMENT_BYTES_MAX, tries_max=TRIES_MAX
            )
        media_type = item.content_type or "application/octet-stream"
        size = item.size if body is None else len(body)
        return Attachment(name=item.filename, media_type=media_type, size=size, body=body)

    def _is_wanted(self, item: discord.Attachment) -> bool:
        parts = urlsplit(item.url)
        return item.size <= ATTACHMENT_BYTES_MAX and (parts.scheme, parts.netloc) in self._hosts


PLACES_MAX = 10_000
AUTHORS_MAX = 20_000
CLOSE_S = 3.0
IDENTIFY_MS_MIN, IDENTIFY_MS_SPREAD = 1_000, 4_000  # between a session that Discord invalidated and the next


class DiscordSession(discord.Client):
    http: DiscordHttpClient

    def __init__(self, setup: ChannelSetup, api_url: str, intake: Intake) -> None:
        self._setup = setup
        self._api_url = api_url
        self._intake = intake
        self._files = DiscordFiles(api_url)
        self._places: dict[int, mapping.DiscordPlace] = {}
        self._authors: dict[int, int] = {}  # by message id; a deletion does not name the author
        self._shown: set[int] = set()  # guilds whose channels were checked since the last connection
        self._reader: DiscordReader | None = None
        super().__init__(
            intents=discord.Intents(guilds=True, guild_messages=True, dm_messages=True, message_content=True),
            max_messages=None,
            chunk_guilds_at_startup=False,
            member_cache_flags=discord.MemberCacheFlags.none(),
        )

    def _get_state(self, **options: Any) -> Any:  # noqa: ANN401 (discord.py's own hook, as its sharded client uses it)
        self.http = DiscordHttpClient(self.loop, self._api_url)
        return super()._get_state(**options)

    async def setup_hook(self) -> None:
        await self.http.find_gateway()

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:  # noqa: ARG002
        if not initial:
            await self._setup.tasks.sleep(IDENTIFY_MS_MIN + IDENTIFY_MS_SPREAD * self._setup.entropy.fraction())

    def begin(self) -> None:
        """Create the reader, once login has told the account's id."""
        self._user_id = self.user.id if self.user is not None else 0
        self._account = f"discord:{self._user_id}"
        self._reader = DiscordReader(
            self._setup, self._account, self._intake, self._translate, self._history, has_checked_all=self._is_shown
        )

    async def end(self) -> None:
        """Close within a bounded time, even if Discord does not answer."""
        try:
            if self._reader is not None:
                await self._reader.close()
        finally:
            await self._shut()
            await self._files.close()

    async def _shut(self) -> None:
        try:
            with suppress(TimeoutError, OSError, aiohttp.ClientError):
                async with asyncio.timeout(CLOSE_S):
                    await self.close()
            await self.http.close()
        finally:
            self.http.stop_heartbeat()

    async def rank_of(self, channel_id: int, user_id: int) -> Rank:
        """A user's rank in the guild of a channel. Raises what discord.py raises."""
        guild = getattr(self.get_channel(channel_id), "guild", None)
        if guild is None:
            guild = getattr(await self.fetch_channel(channel_id), "guild", None)
        if not isinstance(guild, discord.Guild):
            return Rank.MEMBER  # a group without a guild has no admins
        may = (await guild.fetch_member(user_id)).guild_permissions
        return Rank.ADMIN if may.administrator or may.manage_guild else Rank.MEMBER

    # --- events of the connection: discord.py calls each in order, and none of them waits

    async def on_connect(self) -> None:
        name = self.user.name if self.user is not None else ""
        self._intake.connected(f"@{name}" if name else self._account)
        if self._reader is not None:
            self._reader.connected()
        self._shown.clear()
        for guild in self.guilds:  # a resumed connection does not announce them again
            if not guild.unavailable:
                self._show(guild)

    async def on_resumed(self) -> None:
        await self.on_connect()

    async def on_disconnect(self) -> None:
        self._intake.disconnected("Discord closed the connection")
        if self._reader is not None:
            self._reader.disconnected()

    async def on_guild_available(self, guild: discord.Guild) -> None:
        self._show(guild)

    async def on_guild_unavailable(self, guild: discord.Guild) -> None:
        self._shown.discard(guild.id)

    async def on_guild_join(self, guild: discord.Guild) -> None:
        """Earlier messages of a guild that just invited the bot are not read."""
        self._shown.add(guild.id)

    async def on_message(self, message: discord.Message) -> None:
        self._offer(MessageChange.NEW, message.channel.id, message.id, message)

    async def on_raw_message_edit(self, event: discord.RawMessageUpdateEvent) -> None:
        message = event.message
        if message.edited_at is not None:  # otherwise Discord added a preview, or the message was pinned
            self._offer(MessageChange.EDITED, message.channel.id, message.id, message)

    async def on_raw_message_delete(self, event: discord.RawMessageDeleteEvent) -> None:
        self._offer(MessageChange.DELETED, event.channel_id, event.message_id)

    async def on_raw_bulk_message_delete(self, event: discord.RawBulkMessageDeleteEvent) -> None:
        for message_id in sorted(event.message_ids):
            self._offer(MessageChange.DELETED, event.channel_id, message_id)

    def _show(self, guild: discord.Guild) -> None:
        """Check the guild once after each absence: discord.py may know it before it reports the connection."""
        if self._reader is not None and guild.id not in self._shown:
            self._shown.add(guild.id)
            self._reader.check(mapping.channels_of(guild, self._user_id))

    def _is_shown(self) -> bool:
        """Whether all guilds have been checked for missed messages."""
        return all(guild.id in self._shown and not guild.unavailable for guild in self.guilds)

    def _offer(
        self, change: MessageChange, channel_id: int, message_id: int, message: discord.Message | None = None
    ) -> None:
        if self._reader is not None:
            event = DiscordEvent(change=change, channel_id=channel_id, message_id=message_id, message=message)
            self._reader.offer(event)

    # --- services for the reader

    async def _history(self, channel_id: int, after: int) -> AsyncIterator[discord.Message]:
        channel = self.get_partial_messageable(channel_id)
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
            return mapping.deleted(event.message_id, place, me, author_id)
        if not mapping.is_readable(message, me):
            return None
        attachments = await self._files.of(message) if event.change is MessageChange.NEW else ()
        return mapping.translated(message, place, me, attachments, event.change)

    def _author(self, message_id: int, message: discord.Message | None) -> int | None:
        """None for a deleted message of the bot itself, or of one that this run of the channel has not seen."""
        if message is None:
            return self._authors.get(message_id)
        if message.author.id != self._user_id:
            self._authors[message_id] = message.author.id
        if len(self._authors) > AUTHORS_MAX:
            del self._authors[next(iter(self._authors))]
        return message.author.id

    async def _place(self, channel_id: int, seen: object) -> mapping.DiscordPlace:
        place = self._places.get(channel_id) or mapping.place_of(seen) or mapping.place_of(self.get_channel(channel_id))
        if place is None:
            place = mapping.place_of(await self.fetch_channel(channel_id)) or mapping.DiscordPlace(chat=str(channel_id))
        if len(self._places) >= PLACES_MAX:
            self._places.clear()
        self._places[channel_id] = place
        return place

    def _me(self, place: mapping.DiscordPlace) -> mapping.DiscordIdentity:
        guild = self.get_guild(place.guild_id) if place.guild_id is not None else None
        role = guild.self_role if guild is not None else None
        return mapping.DiscordIdentity(
            account=self._account, user_id=self._user_id, role_id=None if role is None else role.id
        )
