"""The buffer of frames to a WebSocket client. It is bounded, so a client that never reads uses little memory."""

import asyncio
from collections import deque

import msgspec
from starlette.types import Send

from holdfast.api.streams.frames import Frame

FRAMES_MAX = 1_000
BYTES_MAX = 1024 * 1024
STALL_MS = 30_000

NORMAL, UNSUPPORTED, INVALID, POLICY, OURS, LATER = 1000, 1003, 1007, 1008, 1011, 1013
AUTH, FORBIDDEN, SLOW, ATTEMPTS = 4401, 4403, 4408, 4429


class Closing(Exception):
    """The close of a connection. Without a code, the client has already disconnected."""

    def __init__(self, code: int | None, reason: str = "") -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Outbox:
    def __init__(self, *, frames_max: int = FRAMES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._frames: deque[bytes] = deque()
        self._bytes = 0
        self._frames_max = frames_max
        self._bytes_max = bytes_max
        self._news = asyncio.Event()

    def put(self, frame: Frame) -> None:
        """Raises `Closing` if the client has not read earlier frames."""
        if len(self._frames) >= self._frames_max or self._bytes >= self._bytes_max:
            raise Closing(SLOW, "slow_reader")
        body = msgspec.json.encode(frame)
        self._frames.append(body)
        self._bytes += len(body)
        self._news.set()

    async def drain(self, send: Send) -> None:
        """Send frames as they are put, until the connection ends."""
        while True:
            await self._news.wait()
            while self._frames:
                body = self._frames.popleft()
                self._bytes -= len(body)
                await self._send(send, body)
            self._news.clear()

    async def _send(self, send: Send, body: bytes) -> None:
        try:
            async with asyncio.timeout(STALL_MS / 1000):
                await send({"type": "websocket.send", "text": body.decode()})
        except TimeoutError as error:
            raise Closing(SLOW, "slow_reader") from error
        except OSError as error:
            raise Closing(None) from error
