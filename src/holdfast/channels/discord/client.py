"""discord.py's HTTP client, adapted: another API address, and sends that are tracked.

Rule 1: nothing global is changed, so two accounts of one process may use two addresses.
Rule 2: a cancelled request leaves nothing locked, and an abandoned connection leaves no thread behind.
"""

import asyncio
import contextlib
import threading
from typing import Any

import aiohttp
from discord.gateway import DiscordWebSocket, KeepAliveHandler
from discord.http import HTTPClient, Route

from holdfast.channels.discord.send_tracker import SendTracker, watched

OFFICIAL = "https://discord.com/api/v10"
MESSAGES = "/channels/{channel_id}/messages"
RATELIMIT_WAIT_S = 30.0  # the longest that discord.py waits for a limit by itself; it accepts no less


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
