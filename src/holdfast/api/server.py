"""The server: a listening socket and uvicorn on the running event loop, without uvicorn's signal handlers and logs.

Rule 1: the server listens on loopback unless the operator allows a public address.
Rule 2: a connection must send the whole head of a request within ten seconds and 64 KiB. A connection that is told to
        close must close within five seconds, even if its client does not read.
Rule 3: a request is checked by its head. Trailers of a chunked body are dropped.
Rule 4: a client that is answered before its body has arrived has five seconds to send the rest; then the connection is
        closed.
Rule 5: no body bytes are read from the socket before a handler asks for them, except those that came with the head.
        A WebSocket that is not authenticated may send one small frame.
"""

import errno
import ipaddress
import os
import socket
from asyncio import BaseTransport, Transport
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from holdfast.api.app import HttpApp
from holdfast.api.errors import InvalidHttp, PortInUse, PublicBindRefused
from holdfast.api.limits.connections import Connections, OpenConnection
from holdfast.api.shapes.error_report import error_view
from holdfast.kernel.ports import Clock

BACKLOG = 2_048  # connections that the operating system queues until they are accepted
ACCEPTED_AT_ONCE = 64  # connections that one iteration of the event loop accepts
READ_BYTES = 16 * 1024  # that one read of a connection returns at most
REST_BYTES_MAX = 4 * 1024 * 1024  # of a body that arrives after its answer
FIRST_FRAME_BYTES_MAX = 8 * 1024
KEEP_ALIVE_S = 30
GRACE_S = 5
HEAD_WAIT_MS = 10_000
HEAD_BYTES_MAX = 64 * 1024
LINE_BYTES = 4  # the separators of one header line
CLOSE_WAIT_MS = 5_000
SWEEP_EVERY_S = 1


def bind(host: str, port: int, *, public: bool = False) -> socket.socket:
    """A listening socket. Raises `PublicBindRefused` for a non-loopback address unless `public`, and `PortInUse`."""
    address = address_of(host)
    if not (public or address.is_loopback):
        raise PublicBindRefused(f"{host} can be reached from other machines", host=host)
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    # asyncio disables Nagle's algorithm only if the protocol is named; with Nagle's algorithm an answer waits 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # on other systems the option lets two programs share a port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((str(address), port))
        listening.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        what = "is in use" if getattr(error, "errno", None) == errno.EADDRINUSE else f"cannot be used ({error})"
        raise PortInUse(f"{host}:{port} {what}", host=host, port=port) from error
    listening.setblocking(False)
    return listening


def address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Raises `PublicBindRefused` for a host name, because a name can resolve to another machine later."""
    try:
        return ipaddress.ip_address("127.0.0.1" if host.lower() == "localhost" else host.strip("[]"))
    except ValueError as error:
        raise PublicBindRefused(f"{host!r} is not a loopback address", host=host) from error


def url_of(listening: socket.socket) -> str:
    host, port, *_ = listening.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Counted(OpenConnection):
    config: uvicorn.Config

    @property
    def held(self) -> Connections:
        connections: Connections = self.config.app.connections  # type: ignore[union-attr]
        return connections


class HttpProtocol(Counted, HttpToolsProtocol):
    """An HTTP connection that tracks the time and size of its head, of the rest of its body, and of its close."""

    in_head = True  # until the first head is complete, and again from the start of the next head
    in_body = False  # from the end of a head to the end of its request
    is_head_new = False  # a head ended with the bytes that are being parsed
    head_since: int | None = None
    rest_since: int | None = None
    closing_since: int | None = None
    plain_bytes = 0  # received since the last complete head or body part; the parser buffers them
    shown_bytes = 0  # of the current head
    rest_bytes = 0  # of a body, received after its answer

    @property
    def is_answered_early(self) -> bool:
        return self.in_body and self.cycle is not None and self.cycle.response_complete

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        if hasattr(transport, "max_size"):
            transport.max_size = READ_BYTES
        super().connection_made(transport)
        self.held.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.held.closed(self)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        self.held.closed(self)
        super().handle_websocket_upgrade()

    def data_received(self, data: bytes) -> None:
        self.plain_bytes += len(data)
        super().data_received(data)
        if self.is_head_new:
            self.is_head_new = False
            if self.in_body:  # the rest waits until the handler asks for it or has answered without it
                self.flow.pause_reading()
        if self.plain_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def send_400_response(self, msg: str) -> None:
        """Answer in the shape of every other error."""
        error = InvalidHttp(msg)
        self.config.app.refused(error)  # type: ignore[union-attr]
        body = msgspec.json.encode(error_view(error))
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(head.encode() + b"connection: close\r\n\r\n" + body)
        self.transport.close()

    def on_message_begin(self) -> None:
        self.in_head, self.shown_bytes = True, 0
        if not self.is_working:
            self.held.awaits_head(self)
        super().on_message_begin()

    @property
    def is_working(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def on_url(self, url: bytes) -> None:
        self._show(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.in_head:
            self._show(len(name) + len(value) + LINE_BYTES)
            super().on_header(name, value)

    def _show(self, size: int) -> None:
        """Count head bytes. The parser answers the `ValueError` with status 400."""
        self.shown_bytes += size
        if self.shown_bytes > HEAD_BYTES_MAX:
            raise ValueError("the head of the request is too large")

    def on_headers_complete(self) -> None:
        self.in_head, self.in_body, self.plain_bytes, self.head_since = False, True, 0, None
        self.is_head_new = True
        self.held.works(self)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self.plain_bytes = 0
        if self.cycle is not None and self.cycle.response_complete:
            self.rest_bytes += len(body)
            if self.rest_bytes > REST_BYTES_MAX:
                self.transport.abort()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self.in_body, self.plain_bytes, self.rest_since, self.rest_bytes = False, 0, None, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if not self.pipeline:
            self.cycle.body = bytearray()  # drops body bytes that the handler did not read
            self.held.rests(self)
        super().on_response_complete()


class SocketProtocol(Counted, WebSocketsSansIOProtocol):
    """A WebSocket that sends its close after buffered data, without waiting for a client that never reads.

    It reads nothing before the application asks for a frame, and only small frames before the client is authenticated.
    """

    closing_since: int | None = None
    meter: Callable[[int], bool] | None = None  # takes the size of unfinished frames; False: too many bytes
    _is_begun = False

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        self.conn.max_message_size = FIRST_FRAME_BYTES_MAX
        self.held.opened(self)
        self.held.works(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.held.closed(self)
        super().connection_lost(exc)

    def admit(self, meter: Callable[[int], bool]) -> None:
        """Allow frames of full size and meter them; the application calls this once the client is authenticated."""
        self.conn.max_message_size = self.config.ws_max_size
        self.meter = meter

    def handle_connect(self, event: Any) -> None:  # noqa: ANN401
        super().handle_connect(event)
        if hasattr(self, "scope"):
            self.scope["protocol"] = self  # type: ignore[typeddict-unknown-key]
            self.transport.pause_reading()

    async def receive(self) -> Any:  # noqa: ANN401
        if self._is_begun and not self.read_paused:
            self.transport.resume_reading()
        self._is_begun = True
        return await super().receive()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.meter is not None and not self.close_sent:
            pending = len(self.conn.reader.buffer) + sum(map(len, self.frames))
            if not self.meter(pending):
                self.conn.fail(1013, "too_many_bytes")
                self.handle_parser_exception()

    async def send(self, message: Any) -> None:  # noqa: ANN401
        if message["type"] == "websocket.close":
            self.writable.set()
            self.transport.resume_reading()  # to receive the client's own close
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True  # keeps uvicorn from logging a refused handshake as an error

    def send_receive_event_to_app(self) -> None:
        """Close the connection with code 1007, unlogged, if a text frame is not UTF-8."""
        if self.curr_msg_data_type == "text" and not _is_utf8(self.frames):
            self.frames = []
            self.conn.fail(1007, "invalid_unicode")
            self.handle_parser_exception()
            return
        super().send_receive_event_to_app()


def _is_utf8(frames: list[bytes]) -> bool:
    try:
        b"".join(frames).decode()
    except UnicodeDecodeError:
        return False
    return True


class HttpServer(uvicorn.Server):
    """Serves until `stop`. The command that runs the server handles signals."""

    def __init__(self, app: HttpApp, listening: socket.socket, clock: Clock, *, frame_bytes_max: int) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=HttpProtocol,
                ws=SocketProtocol,
                ws_max_size=frame_bytes_max,
                ws_per_message_deflate=False,  # a small compressed frame can expand to a very large one
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,  # auth/guard.py decides which proxies are trusted
                server_header=False,
                backlog=ACCEPTED_AT_ONCE,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=GRACE_S,
                timeout_notify=SWEEP_EVERY_S,
                callback_notify=self.sweep,
            )
        )
        self._listening = listening
        self._clock = clock

    async def run_until_stopped(self) -> None:
        await self.serve(sockets=[self._listening])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening.listen(BACKLOG)  # asyncio has one number for this and for ACCEPTED_AT_ONCE

    def stop(self) -> None:
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def sweep(self) -> None:
        """Abort connections that take too long: for a head, for the rest of a body, or for closing."""
        now = self._clock.now()
        for connection in list(self.server_state.connections):
            transport = cast("Transport | None", connection.transport)
            if transport is None:
                continue
            if transport.is_closing():
                connection.closing_since = connection.closing_since or now  # type: ignore[union-attr]
                self._abort(transport, connection.closing_since, now, CLOSE_WAIT_MS)  # type: ignore[union-attr]
            elif isinstance(connection, HttpProtocol) and connection.in_head:
                connection.head_since = connection.head_since or now
                self._abort(transport, connection.head_since, now, HEAD_WAIT_MS)
            elif isinstance(connection, HttpProtocol) and connection.is_answered_early:
                connection.rest_since = connection.rest_since or now
                self._abort(transport, connection.rest_since, now, CLOSE_WAIT_MS)

    def _abort(self, transport: BaseTransport, since: int, now: int, wait_ms: int) -> None:
        if now - since >= wait_ms:
            cast("Transport", transport).abort()
