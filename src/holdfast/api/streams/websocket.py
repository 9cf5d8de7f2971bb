"""`/v1/ws`: messages and replies over one connection.

Rule 1: the host is checked, then the origin, then the credentials: a header, a cookie, or the first frame. Never a URL.
Rule 2: `accepted` is sent only after the message is durable. A client can ask again for the state of a message by its
        id, so a connection may end at any instant without loss.
Rule 3: every connection, chat and byte has a limit. A client that does not read is disconnected (4408 slow_reader).
Rule 4: revoking a token closes its connections within seconds.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from starlette.types import Message, Receive, Scope, Send

from holdfast.api import errors
from holdfast.api.auth.access_token import Scope as TokenScope
from holdfast.api.auth.caller import Caller
from holdfast.api.auth.guard import Guard
from holdfast.api.auth.viewer import Viewer
from holdfast.api.endpoint import Settings, answer
from holdfast.api.limits.admission import OpenRequest, Requester
from holdfast.api.shapes.error_report import error_view
from holdfast.api.streams.conversation import Auth, Ready, SocketConversation, frame_in
from holdfast.api.streams.frames import Failed, Frame
from holdfast.audit.actor import acting_as
from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError, InvalidUnicode, StoreUnavailable
from holdfast.kernel.ports import Task

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
    """The buffer of frames to a client. It is bounded, so a client that never reads uses little memory."""

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


PATH = "/v1/ws"
SOCKETS_MAX = 500
AUTH_WAIT_MS = 10_000

ViewerFor = Callable[[Caller, str], Viewer]  # the viewer of a caller at an address


class Sockets:
    """The open WebSocket connections of this server."""

    def __init__(self, guard: Guard, settings: Settings, viewer_for: ViewerFor) -> None:
        self.guard = guard
        self.settings = settings
        self.viewer_for = viewer_for
        self._open = 0

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        opened, metrics = OpenRequest(self.settings.admission), self.settings.metrics
        try:
            self._check(scope)
            client, is_operator = self.guard.client_of(scope), self.guard.is_operator(scope["headers"])
            opened.count_for(Requester.of(client, None, is_operator=is_operator))
        except HoldfastError as error:
            metrics.refused(error.code)
            await _deny(error, send)
            return
        self._open += 1
        metrics.sockets.inc()
        try:
            await Connection((scope, receive, send), self, opened).run()
        finally:
            self._open -= 1
            metrics.sockets.dec()
            opened.close()

    def _check(self, scope: Scope) -> None:
        self.guard.check_host(scope["headers"])
        self.guard.check_query(scope["query_string"])
        if scope["path"] != PATH:
            raise errors.NotFound(f"there is no WebSocket at {scope['path'][:200]}; it is {PATH}")
        if self._open >= SOCKETS_MAX:
            raise errors.TooManyConnections(f"{SOCKETS_MAX} connections are open already")


async def _deny(error: HoldfastError, send: Send) -> None:
    """Answer the handshake with an HTTP error, like any other request."""
    response = answer(error_view(error), headers=errors.headers_of(error))
    start = {
        "type": "websocket.http.response.start",
        "status": errors.status_of(error),
        "headers": response.raw_headers,
    }
    await send(start)
    await send({"type": "websocket.http.response.body", "body": response.body})


class Connection:
    def __init__(self, asgi: tuple[Scope, Receive, Send], sockets: Sockets, opened: OpenRequest) -> None:
        self._scope, self._receive, self._send = asgi
        self._guard = sockets.guard
        self._settings = sockets.settings
        self._viewer_for = sockets.viewer_for
        self._opened = opened
        self._outbox = Outbox()
        self._over: asyncio.Future[Closing] = asyncio.get_running_loop().create_future()
        self._parts: list[Task] = []
        self._talk: SocketConversation | None = None

    async def run(self) -> None:
        """Run the connection until either side closes it."""
        await self._receive()  # the handshake
        await self._send({"type": "websocket.accept"})
        self._start(self._read(), "ws-read")
        self._start(self._outbox.drain(self._send), "ws-write")
        closing = Closing(OURS, "internal_error")
        try:
            closing = await self._over
        finally:
            for part in self._parts:
                part.cancel()
            if self._talk is not None:
                self._talk.close()
            if closing.code is not None:
                await self._close(closing)

    async def _close(self, closing: Closing) -> None:
        try:
            await self._send({"type": "websocket.close", "code": closing.code, "reason": closing.reason})
        except OSError:
            return  # the client disconnected at the same moment

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._parts = [part for part in self._parts if not part.done()]
        self._parts.append(self._settings.tasks.start(self._part(work), name=name))

    async def _part(self, work: Coroutine[Any, Any, None]) -> None:
        """Run one of the connection's tasks. An error in it ends the connection."""
        try:
            await work
        except Closing as closing:
            self._end(closing)
        except Exception as error:  # noqa: BLE001 - the top of every connection
            log.error("http.failed", failure=error, method="WEBSOCKET")
            self._end(Closing(OURS, "internal_error"))

    def _end(self, closing: Closing) -> None:
        if not self._over.done():
            self._over.set_result(closing)

    # --- authentication

    async def _read(self) -> None:
        caller = await self._admit()
        with acting_as(caller.as_actor(f"websocket {self._guard.client_of(self._scope)}")):
            await self._serve(caller)

    async def _serve(self, caller: Caller) -> None:
        viewer = self._viewer_for(caller, self._guard.client_of(self._scope))
        talk = self._talk = SocketConversation(caller, viewer, self._settings, self._outbox.put, self._start)
        scopes = sorted(scope.value for scope in TokenScope if caller.token.may(scope))
        self._outbox.put(Ready(scopes=scopes, agents=list(viewer.agents())))
        self._start(self._recheck(caller), "ws-recheck")
        while True:
            text = await self._next()
            await self._note_use(caller)
            await self._hear(talk, text)

    async def _note_use(self, caller: Caller) -> None:
        try:
            await self._guard.note_use(caller)
        except errors.AuthRequired as error:
            raise Closing(AUTH, error.code) from error
        except StoreUnavailable:
            return  # the frame itself reports that the store is unavailable

    async def _admit(self) -> Caller:
        client = self._guard.client_of(self._scope)
        try:
            has_origin = self._guard.check_origin(self._scope)
            caller = await self._guard.identify(self._scope) or await self._first_frame(client)
        except errors.OriginNotAllowed as error:
            raise Closing(FORBIDDEN, error.code) from error
        except errors.TooManyAttempts as error:
            raise Closing(ATTEMPTS, error.code) from error
        except errors.AuthRequired as error:
            raise Closing(AUTH, error.code) from error
        except StoreUnavailable as error:
            raise Closing(LATER, error.code) from error
        if caller.cookie and not has_origin:  # every browser sends an origin; any other client with a cookie stole it
            raise Closing(FORBIDDEN, errors.OriginNotAllowed.code)
        self._count_for(Requester.of(client, caller))
        return caller

    def _count_for(self, who: Requester) -> None:
        """Count the connection for its token, now that the caller is known. Raises `Closing`."""
        try:
            self._opened.count_for(who)
        except (errors.TooManyConnections, errors.TooManyRequests) as error:
            self._settings.metrics.refused(error.code)
            raise Closing(LATER, error.code) from error
        self._scope["protocol"].admit(self._opened.keep)

    async def _first_frame(self, client: str) -> Caller:
        try:
            async with asyncio.timeout(AUTH_WAIT_MS / 1000):
                frame = frame_in(await self._next())
        except (TimeoutError, HoldfastError) as error:
            raise errors.AuthRequired("the first frame must be {type: auth, token: ...}") from error
        if not isinstance(frame, Auth):
            raise errors.AuthRequired("the first frame must be {type: auth, token: ...}")
        return await self._guard.by_secret(frame.token, client)

    async def _recheck(self, caller: Caller) -> None:
        error = await self._guard.until_over(caller)
        raise Closing(AUTH, error.code) from error

    # --- frames

    async def _next(self) -> str:
        message: Message = await self._receive()
        if message["type"] == "websocket.disconnect":
            raise Closing(None)
        text = message.get("text")
        if not isinstance(text, str):
            raise Closing(UNSUPPORTED, "send text frames with JSON")
        return text

    async def _hear(self, talk: SocketConversation, text: str) -> None:
        """Handle one frame of the client. An invalid frame is answered with an error, and the connection continues."""
        about: str | None = None
        try:
            frame = frame_in(text)
            about = getattr(frame, "id", None)
            await talk.act(frame)
        except InvalidUnicode as error:
            raise Closing(INVALID, error.code) from error
        except HoldfastError as error:
            told = error
            if errors.status_of(error) == 500:
                log.error("http.failed", failure=error, method="WEBSOCKET")
                told = errors.InternalError("the frame failed; it is not known to have had an effect")
            self._settings.metrics.refused(told.code)
            self._outbox.put(Failed(error=error_view(told).error, id=about))
