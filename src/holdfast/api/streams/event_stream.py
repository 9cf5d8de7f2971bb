"""A response that is generated while it is sent: server-sent events with a heartbeat, for slow or vanished readers.

Rule 1: the data generated ahead of the reader is bounded; beyond the bound the source waits.
Rule 2: a reader that takes nothing for half a minute is disconnected. Nothing is lost: it can ask again.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.api.endpoint import EVENTS, PRIVATE
from holdfast.api.errors import SlowReader
from holdfast.api.shapes.error_report import error_view
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.ports import Task, Tasks

AHEAD_MAX = 64  # pieces that wait for the reader
HEARTBEAT_MS = 15_000
STALL_MS = 30_000
HEARTBEAT = b": still here\n\n"


class EventStream(Response):
    media_type = EVENTS

    def __init__(self, pieces: AsyncGenerator[bytes], tasks: Tasks, *, status_code: int = 200) -> None:
        super().__init__(status_code=status_code, headers=PRIVATE)
        del self.headers["content-length"]
        self._pieces = pieces
        self._tasks = tasks
        self._over: Callable[[], Awaitable[HoldfastError]] | None = None

    def ends_with(self, over: Callable[[], Awaitable[HoldfastError]]) -> None:
        """End the stream with an error event when `over` returns an error."""
        self._over = over

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        ahead: asyncio.Queue[bytes | Exception | None] = asyncio.Queue(AHEAD_MAX)
        making = self._tasks.start(self._make(ahead), name="stream")
        watching = self._tasks.start(_until_gone(receive, making, ahead), name="stream-gone")
        ending = self._tasks.start(_until_over(self._over, making, ahead), name="stream-over") if self._over else None
        try:
            while (piece := await _next(ahead)) is not None:
                if isinstance(piece, Exception):
                    raise piece
                await _send(send, piece, more=True)
            await _send(send, b"", more=False)  # the last piece may still be unread in the buffer
        except TimeoutError as error:
            raise SlowReader(f"the client took nothing for {STALL_MS} ms") from error
        finally:
            making.cancel()
            watching.cancel()
            if ending is not None:
                ending.cancel()

    async def _make(self, ahead: asyncio.Queue[bytes | Exception | None]) -> None:
        try:
            async with aclosing(self._pieces) as pieces:
                async for piece in pieces:
                    await ahead.put(piece)
        except HoldfastError as error:
            await ahead.put(event("error", error_view(error)))
        except Exception as error:  # noqa: BLE001 - raised again where the stream is sent
            await ahead.put(error)
        await ahead.put(None)


async def _send(send: Send, body: bytes, *, more: bool) -> None:
    async with asyncio.timeout(STALL_MS / 1000):
        await send({"type": "http.response.body", "body": body, "more_body": more})


async def _next(ahead: asyncio.Queue[bytes | Exception | None]) -> bytes | Exception | None:
    try:
        async with asyncio.timeout(HEARTBEAT_MS / 1000):
            return await ahead.get()
    except TimeoutError:
        return HEARTBEAT


async def _until_gone(receive: Receive, making: Task, ahead: asyncio.Queue[bytes | Exception | None]) -> None:
    """Stop generating when the reader has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
    _cut(making, ahead)


async def _until_over(
    over: Callable[[], Awaitable[HoldfastError]], making: Task, ahead: asyncio.Queue[bytes | Exception | None]
) -> None:
    """When the reader loses its access, replace the waiting pieces with an error event."""
    error = await over()
    _cut(making, ahead, event("error", error_view(error)))


def _cut(making: Task, ahead: asyncio.Queue[bytes | Exception | None], *last: bytes) -> None:
    making.cancel()
    while not ahead.empty():
        ahead.get_nowait()
    for piece in (*last, None):
        ahead.put_nowait(piece)


def event(name: str, value: object, *, id: str = "") -> bytes:
    """One server-sent event. OpenAI's completions have no name."""
    head = "".join(f"{field}: {given}\n" for field, given in (("id", id), ("event", name)) if given)
    return head.encode() + b"data: " + msgspec.json.encode(value) + b"\n\n"


async def events_of(frames: AsyncGenerator[msgspec.Struct]) -> AsyncGenerator[bytes]:
    """Frames as server-sent events, named after their type."""
    async with aclosing(frames):
        async for frame in frames:
            yield event(str(frame.__struct_config__.tag), frame)
