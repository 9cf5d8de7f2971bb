"""The server: a socket on loopback and uvicorn on the running event loop, without handlers or logs of its own."""

import errno
import ipaddress
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from holdfast.channels.http.errors import PortInUse, PublicBindRefused

BACKLOG = 512
CONNECTIONS_MAX = 800  # below the usual limit of 1,024 open files, which the store needs too
KEEP_ALIVE_S = 30
GRACE_S = 5


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises `PublicBindRefused` for anything but loopback, and `PortInUse`."""
    address = _loopback(host)
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # elsewhere it would let two programs share a port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((str(address), port))
        listening.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        what = "is in use" if getattr(error, "errno", None) == errno.EADDRINUSE else f"cannot be used ({error})"
        raise PortInUse(f"{host}:{port} {what}", host=host, port=port) from error
    listening.setblocking(False)
    return listening


def _loopback(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        address = ipaddress.ip_address("127.0.0.1" if host.lower() == "localhost" else host.strip("[]"))
    except ValueError as error:
        raise PublicBindRefused(f"{host!r} is not a loopback address", host=host) from error
    if not address.is_loopback:
        raise PublicBindRefused(f"{host} can be reached from other machines", host=host)
    return address


def url_of(listening: socket.socket) -> str:
    host, port, *_ = listening.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class HttpServer(uvicorn.Server):
    """Serves until `stop`. Signals belong to the command that runs it."""

    def __init__(self, app: ASGIApp, listening: socket.socket) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,  # nobody stands before us, so nobody may say who the client is
                server_header=False,
                limit_concurrency=CONNECTIONS_MAX,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=GRACE_S,
            )
        )
        self._listening = listening

    async def run_until_stopped(self) -> None:
        await self.serve(sockets=[self._listening])

    def stop(self) -> None:
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
