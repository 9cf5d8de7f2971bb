"""One socket mode connection, over the SDK's client without its reconnecting.

Rule 1: the SDK acknowledges only the envelopes that `send_socket_mode_response` is given.
Rule 2: frames are handed on in order; the SDK's own listeners run each frame in a task of its own.
Rule 3: a closed connection stays closed. The SDK's own reconnecting retries a used ticket for ever, silently.
Rule 4: a slow reader slows Slack down: frames wait in the socket, not in our memory.
"""

import asyncio
import json

import aiohttp
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from holdfast.channels.slack.web import SILENT_LOG, SlackFailure, SlackFailureKind, attempted

OPEN_S = 15
CLOSE_S = 2
PING_S = 5  # aiohttp closes a connection whose pong is late by half of this
FRAMES_MAX = 64


class SocketModeConnection(SocketModeClient):
    def __init__(self, app_token: str, web: AsyncWebClient) -> None:
        super().__init__(
            app_token, logger=SILENT_LOG, web_client=web, auto_reconnect_enabled=False, ping_interval=PING_S
        )
        self.reason = "the connection was lost"
        self._frames: asyncio.Queue[SocketModeRequest | None] = asyncio.Queue(FRAMES_MAX)
        self._hello = asyncio.Event()
        self._over = asyncio.Event()

    async def open(self) -> SlackFailure | None:
        """Open the connection and wait for Slack's hello. Returns the failure, if any."""
        answer = await attempted(
            self.web_client.apps_connections_open(app_token=self.app_token), secrets=[self.app_token or ""]
        )
        if isinstance(answer, SlackFailure):
            return answer
        self.wss_uri = str(answer.get("url"))
        try:
            async with asyncio.timeout(OPEN_S):
                await self.connect()  # type: ignore[no-untyped-call]
                await self._hello.wait()
        except TimeoutError:
            return SlackFailure(SlackFailureKind.UNREACHED, "the WebSocket did not open in time")
        return None if not self._over.is_set() else SlackFailure(SlackFailureKind.UNREACHED, self.reason)

    async def receive_messages(self) -> None:
        """Called by the SDK once it is connected."""
        session = self.current_session
        try:
            while session is not None and not self._over.is_set():
                message = await session.receive()
                if message.type is aiohttp.WSMsgType.TEXT:
                    await self._frame(message.data)
                elif message.type is aiohttp.WSMsgType.PING:
                    await session.pong(message.data)
                elif message.type is not aiohttp.WSMsgType.PONG:
                    break
        except (ConnectionError, aiohttp.ClientError) as error:
            self.reason = f"the connection was lost ({type(error).__name__})"
        finally:
            self.end()

    async def _frame(self, data: str) -> None:
        try:
            frame = json.loads(data)
        except ValueError:
            frame = None
        if not isinstance(frame, dict):
            self.end("Slack sent a frame that is not JSON")
        elif frame.get("type") == "hello":
            self._hello.set()
        elif frame.get("type") == "disconnect":
            self.end(f"Slack asked to reconnect ({str(frame.get('reason'))[:40]})")
        elif request := SocketModeRequest.from_dict(frame):
            await self._frames.put(request)

    def end(self, reason: str = "") -> None:
        self.reason = reason or self.reason
        self._over.set()
        self._hello.set()
        if not self._frames.full():
            self._frames.put_nowait(None)  # wakes `next`

    async def next(self) -> SocketModeRequest | None:
        """The next envelope; None once the connection has ended and all its envelopes were returned."""
        return None if self._over.is_set() and self._frames.empty() else await self._frames.get()

    async def acknowledge(self, request: SocketModeRequest) -> None:
        """Best effort: an event that Slack believes unacknowledged comes again and is a duplicate."""
        try:
            await self.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))
        except (ConnectionError, aiohttp.ClientError):
            self.end()

    async def close(self) -> None:
        self.end()
        working = [self.message_receiver, self.message_processor, self.current_session_monitor]
        pending = {task for task in working if task is not None}
        if self.message_receiver is not None:
            self.message_receiver.cancel()
        try:
            async with asyncio.timeout(CLOSE_S):
                await super().close()  # type: ignore[no-untyped-call]
        except (TimeoutError, ConnectionError, aiohttp.ClientError):
            for task in pending:
                task.cancel()
            await self.aiohttp_client_session.close()
        await asyncio.wait(pending, timeout=CLOSE_S)
