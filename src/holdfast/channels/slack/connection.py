"""One socket mode connection: Slack's envelopes in order, and their acknowledgements.

Rule 1: a closed connection stays closed. Its address is valid once, so another connection needs another address.
Rule 2: a slow reader slows Slack down: frames wait in the socket, not in our memory.
Rule 3: the log of websockets is switched off: its lines hold people's messages and the address, which is a ticket.
"""

import asyncio
import json
import logging

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from holdfast.channels.slack.message import Json, string
from holdfast.channels.slack.web import SlackFailure, SlackFailureKind, SlackWebApi

OPEN_S = 15
CLOSE_S = 2
PING_S = 5
PONG_S = 20  # a reader that is this slow does not read the pong either
FRAMES_MAX = 64
FRAME_BYTES_MAX = 16 * 1024 * 1024
SILENT_LOG = logging.getLogger("holdfast.channels.slack.socket")
SILENT_LOG.setLevel(logging.CRITICAL + 1)


class SocketModeConnection:
    def __init__(self, web: SlackWebApi, app_token: str) -> None:
        self._web = web
        self._app_token = app_token
        self._socket: ClientConnection | None = None
        self.reason = ""  # why the connection ended

    async def open(self) -> SlackFailure | None:
        """Open the connection and wait for Slack's hello. Returns the failure, if any."""
        answer = await self._web.open_socket(self._app_token)
        if isinstance(answer, SlackFailure):
            return answer
        try:
            async with asyncio.timeout(OPEN_S):
                self._socket = await connect(
                    string(answer, "url"),
                    proxy=self._web.proxy,
                    open_timeout=None,
                    ping_interval=PING_S,
                    ping_timeout=PONG_S,
                    close_timeout=CLOSE_S,
                    max_size=FRAME_BYTES_MAX,
                    max_queue=FRAMES_MAX,
                    logger=SILENT_LOG,
                )
                while (frame := await self._frame()) is not None and frame.get("type") != "hello":
                    pass
        except TimeoutError:
            return SlackFailure(SlackFailureKind.UNREACHED, "the WebSocket did not open in time")
        except (OSError, WebSocketException) as error:
            return SlackFailure(SlackFailureKind.UNREACHED, f"the WebSocket did not open ({type(error).__name__})")
        return SlackFailure(SlackFailureKind.UNREACHED, self.reason) if frame is None else None

    async def next(self) -> Json | None:
        """The next envelope; None once the connection has ended and all its envelopes were returned."""
        while (frame := await self._frame()) is not None:
            if string(frame, "envelope_id"):
                return frame
        return None

    async def acknowledge(self, envelope: Json) -> None:
        """Best effort: an event that Slack believes unacknowledged comes again and is a duplicate."""
        if self._socket is not None:
            try:
                await self._socket.send(json.dumps({"envelope_id": envelope["envelope_id"]}))
            except (ConnectionClosed, OSError):
                self.end()

    def end(self, reason: str = "") -> None:
        """Break the connection off, for the given reason."""
        self.reason = reason or self.reason
        if self._socket is not None:
            self._socket.transport.abort()

    async def close(self) -> None:
        if self._socket is not None:
            await self._socket.close()

    async def _frame(self) -> Json | None:
        """The next frame; None at the end of the connection, or if Slack asks to reconnect."""
        if self._socket is None:
            return None
        try:
            frame = json.loads(await self._socket.recv())
        except (ConnectionClosed, OSError) as error:
            self.reason = self.reason or f"the connection was lost ({type(error).__name__})"
            return None
        except ValueError:
            frame = None
        if not isinstance(frame, dict):
            self.reason = "Slack sent a frame that is not JSON"
            return None
        if frame.get("type") == "disconnect":
            self.reason = f"Slack asked to reconnect ({str(frame.get('reason'))[:40]})"
            return None
        return frame
