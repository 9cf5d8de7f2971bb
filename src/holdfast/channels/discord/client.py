"""discord.py, adapted: another API address, bounded closing, and sends that are tracked.

Rule 1: nothing global is changed, so two accounts of one process may use two addresses.
Rule 2: a cancelled request leaves nothing locked, and an abandoned connection leaves no thread behind.
Rule 3: a connection that cannot be resumed at once is not repaired here: `connect` raises, and the receiver restarts
        the channel with delays of some minutes at most (discord.py's own grow to a quarter of an hour).
"""

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any

import aiohttp
import discord
from discord.gateway import DiscordWebSocket, KeepAliveHandler
from discord.http import HTTPClient, Route

from holdfast.channels.discord.send_tracker import SendTracker, watched
from holdfast.kernel.entropy import Entropy
from holdfast.kernel.tasks import Tasks
from holdfast.sessions.command_rights import Rank

if TYPE_CHECKING:
    from holdfast.channels.discord.session import DiscordSession

OFFICIAL = "https://discord.com/api/v10"
MESSAGES = "/channels/{channel_id}/messages"
RATELIMIT_WAIT_S = 30.0  # the longest that discord.py waits for a limit by itself; it accepts no less
CLOSE_S = 3.0
IDENTIFY_MS_MIN, IDENTIFY_MS_SPREAD = 1_000, 4_000  # between a session that Discord invalidated and the next


class DiscordHttpClient(HTTPClient):
    """discord.py's HTTP client for one API address."""

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
            with contextlib.suppress(TimeoutError, OSError, aiohttp.ClientError):
                async with asyncio.timeout(0):
                    await self._socket.close()
        finally:  # if another task is still closing it, the call above does nothing
            self._socket._response.close()  # noqa: SLF001 - the only access to its connection

    def stop_heartbeat(self) -> None:
        """Stop the thread of a connection that was abandoned between hello and ready; discord.py forgets it."""
        for thread in threading.enumerate():
            if isinstance(thread, KeepAliveHandler) and thread.ws.socket is self._socket:
                thread.stop()


class DiscordBot(discord.Client):
    """One account. It caches no messages and no members."""

    http: DiscordHttpClient

    def __init__(self, base: str, session: "DiscordSession", tasks: Tasks, entropy: Entropy) -> None:
        self._base, self._session, self._tasks, self._entropy = base, session, tasks, entropy
        intents = discord.Intents(guilds=True, guild_messages=True, dm_messages=True, message_content=True)
        super().__init__(
            intents=intents,
            max_messages=None,
            chunk_guilds_at_startup=False,
            member_cache_flags=discord.MemberCacheFlags.none(),
        )

    def _get_state(self, **options: Any) -> Any:  # noqa: ANN401 (discord.py's own hook, as its sharded client uses it)
        self.http = DiscordHttpClient(self.loop, self._base)
        return super()._get_state(**options)

    async def setup_hook(self) -> None:
        await self.http.find_gateway()

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:  # noqa: ARG002
        if not initial:
            await self._tasks.sleep(IDENTIFY_MS_MIN + IDENTIFY_MS_SPREAD * self._entropy.fraction())

    async def on_connect(self) -> None:
        self._session.connected()

    async def on_resumed(self) -> None:
        self._session.connected()

    async def on_disconnect(self) -> None:
        self._session.disconnected()

    async def on_guild_available(self, guild: discord.Guild) -> None:
        self._session.shown(guild)

    async def on_guild_unavailable(self, guild: discord.Guild) -> None:
        self._session.hidden(guild)

    async def on_guild_join(self, guild: discord.Guild) -> None:
        self._session.joined(guild)

    async def on_message(self, message: discord.Message) -> None:
        self._session.posted(message)

    async def on_raw_message_edit(self, event: discord.RawMessageUpdateEvent) -> None:
        self._session.edited(event.message)

    async def on_raw_message_delete(self, event: discord.RawMessageDeleteEvent) -> None:
        self._session.deleted(event.channel_id, event.message_id)

    async def on_raw_bulk_message_delete(self, event: discord.RawBulkMessageDeleteEvent) -> None:
        for message_id in sorted(event.message_ids):
            self._session.deleted(event.channel_id, message_id)

    async def rank_of(self, channel_id: int, user_id: int) -> Rank:
        """A user's rank in the guild of a channel. Raises what discord.py raises."""
        guild = getattr(self.get_channel(channel_id), "guild", None)
        if guild is None:
            guild = getattr(await self.fetch_channel(channel_id), "guild", None)
        if not isinstance(guild, discord.Guild):
            return Rank.MEMBER  # a group without a guild has no admins
        may = (await guild.fetch_member(user_id)).guild_permissions
        return Rank.ADMIN if may.administrator or may.manage_guild else Rank.MEMBER

    async def shut(self) -> None:
        """Close within a bounded time, even if Discord does not answer."""
        try:
            async with asyncio.timeout(CLOSE_S):
                await self.close()
        except (TimeoutError, OSError, aiohttp.ClientError):
            await self.http.close()
        finally:
            self.http.stop_heartbeat()
