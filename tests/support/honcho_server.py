"""A Honcho for tests: an HTTP server on a loopback socket that speaks to the real honcho-ai SDK and behaves as the
real server (3.0.12) was measured to, its bad habits included.

    async with HonchoServer() as server:
        server.fail_next("drop_after", path="/messages")   # the words are kept, the answer is lost
        Honcho(base_url=server.url, ...)
    with HonchoServer() as server: ...                      # the same, in a thread of its own

What it keeps is in tests/support/honcho_world.py. Here: sockets, routes, keys and faults. Faults, each with an optional
part of the path and a method that the request must have:

    drop_after    the effect happens, the connection is closed without an answer
    reset_before  the connection is closed, nothing happens
    stall         the effect happens and no answer comes until `release()` (with effect=False: nothing happens)
    status        an answer with `status`, `headers` and `body`; with effect=True the effect happened all the same
    forward_later a proxy answers `status` by itself; the request reaches the server when the test calls `forward()`
    html          a page instead of JSON, as a proxy shows
    redirect      302 to `location`
    lie           201 with rows that look right and were never stored
    lie_empty     201 with no rows
"""

import asyncio
import json
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

from tests.support.honcho_world import HonchoWorld, Problem
from tests.support.patience import HANGS_S

PAGE = b"<!doctype html><title>Sign in</title><p>Please sign in to the network.</p>"
ACCEPTED_FAULTS = (
    *("drop_after", "reset_before", "stall", "status", "forward_later", "html", "redirect", "lie", "lie_empty"),
)


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)


@dataclass
class Fault:
    kind: str
    path: str = ""
    method: str = ""
    times: int = 1
    status: int = 500
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    location: str = "http://127.0.0.1:9/"
    effect: bool | None = None

    def meets(self, request: Request) -> bool:
        """`path` is a part of the request's; with a `$` behind it, its end."""
        found = request.path.endswith(self.path[:-1]) if self.path.endswith("$") else self.path in request.path
        return self.times > 0 and found and self.method in ("", request.method)


class HonchoServer(HonchoWorld):
    """One server with one database. `key` turns authentication on; `workspace_keys` open one workspace each."""

    def __init__(self, *, key: str | None = None) -> None:
        super().__init__()
        self.key = key
        self.workspace_keys: dict[str, str] = {}
        self.requests: list[tuple[str, str]] = []
        self.url = ""
        self.held: list[Request] = []  # what a proxy has answered and not forwarded yet
        self._faults: list[Fault] = []
        self._chance: Callable[[Request], Fault | None] = lambda request: None
        self._released = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: set[asyncio.StreamWriter] = set()

    # --- faults

    def fail_next(self, kind: str, *, times: int = 1, path: str = "", method: str = "", **more: Any) -> None:
        assert kind in ACCEPTED_FAULTS, f"no such fault: {kind}"
        self._faults.append(Fault(kind=kind, times=times, path=path, method=method, **more))

    def fail_often(self, share: float, *, seed: int, faults: tuple[dict[str, Any], ...]) -> None:
        """From now on that share of all requests meets one of the faults, by seed."""
        dice = random.Random(seed)

        def chance(request: Request) -> Fault | None:
            fitting = [fault for fault in (Fault(**given) for given in faults) if fault.meets(request)]
            return dice.choice(fitting) if fitting and dice.random() < share else None

        self._chance = chance

    def heal(self) -> None:
        self._faults.clear()
        self._chance = lambda request: None
        self.release()

    def forward(self) -> int:
        """Let the proxy forward every request that it answered by itself; return how many."""
        held, self.held = self.held, []
        for request in held:
            self._act(request)
        return len(held)

    def release(self) -> None:
        """Let every stalled request go on."""
        self._released.set()
        self._released = asyncio.Event()

    def count(self, method: str, ending: str) -> int:
        return sum(seen == method and path.endswith(ending) for seen, path in self.requests)

    def _fault(self, request: Request) -> Fault | None:
        for fault in self._faults:
            if fault.meets(request):
                fault.times -= 1
                return fault
        return self._chance(request)

    # --- one request

    async def _reply(self, request: Request) -> Answer | None:
        """None closes the connection without an answer."""
        self.requests.append((request.method, request.path))
        fault = self._fault(request)
        if fault is None:
            return self._act(request)
        if fault.kind == "reset_before":
            return None
        if fault.kind in ("drop_after", "stall"):
            if fault.effect is not False:
                self._act(request)
            if fault.kind == "stall":
                await self._released.wait()
            return None
        return self._wrong_answer(fault, request)

    def _wrong_answer(self, fault: Fault, request: Request) -> Answer:
        if fault.effect:
            self._act(request)
        if fault.kind == "forward_later":
            self.held.append(request)
        if fault.kind == "html":
            return Answer(200, PAGE, (("content-type", "text/html"),))
        if fault.kind == "redirect":
            return Answer(302, b"", (("location", fault.location),))
        if fault.kind == "lie_empty":
            return _json(201, [])
        if fault.kind == "lie":
            return _json(201, self.pretend(request.path, request.body))
        if isinstance(fault.body, bytes):
            named = tuple((name.replace("_", "-"), value) for name, value in fault.headers.items())
            return Answer(fault.status, fault.body, (("content-type", "text/html"), *named))
        body = {"detail": "made up by the test"} if fault.body is None else fault.body
        return _json(fault.status, body, **fault.headers)

    def _act(self, request: Request) -> Answer:
        if request.path == "/health":
            return _json(200, {"status": "ok"})  # for any state of the database
        try:
            self._authenticate(request)
            status, body = self.handle(request.method, request.path, request.query, request.body)
        except Problem as problem:
            return _json(problem.status, {"detail": problem.detail})
        return _json(status, body)

    def _authenticate(self, request: Request) -> None:
        """Every refusal is a 401, as measured; 403 does not occur."""
        if self.key is None and not self.workspace_keys:
            return
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not given:
            raise Problem(401, "No access token provided")
        if given == self.key:
            return
        if given not in self.workspace_keys:
            raise Problem(401, "Invalid JWT")
        named = request.path.split("/")[3:4] or [request.body["id"]]
        if named != [self.workspace_keys[given]]:
            raise Problem(401, "Unauthorized access to resource")

    # --- sockets

    async def __aenter__(self) -> "HonchoServer":
        self._listener = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        host, port = self._listener.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        for writer in list(self._open):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._listener.wait_closed()

    def __enter__(self) -> "HonchoServer":
        started, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(started)), name="honcho-server")
        self._thread.start()
        started.wait(HANGS_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(HANGS_S)

    async def _run(self, started: threading.Event) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        async with self:
            started.set()
            await self._ended.wait()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        self._open.add(writer)
        try:
            await self._converse(reader, writer)
        except (ConnectionError, h11.RemoteProtocolError, asyncio.CancelledError):
            pass  # a client that left, or the end of the test
        finally:
            writer.transport.abort()
            self._open.discard(writer)
            self._tasks.discard(task)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = h11.Connection(h11.SERVER)
        while (request := await _read(wire, reader)) is not None:
            answer = await self._reply(request)
            if answer is None:
                return
            headers = [*answer.headers, ("content-length", str(len(answer.body)))]
            for event in (
                h11.Response(status_code=answer.status, headers=headers),
                h11.Data(data=answer.body),
                h11.EndOfMessage(),
            ):
                writer.write(wire.send(event) or b"")
            await writer.drain()
            if wire.our_state is not h11.DONE or wire.their_state is not h11.DONE:
                return
            wire.start_next_cycle()


async def _read(wire: h11.Connection, reader: asyncio.StreamReader) -> Request | None:
    head: h11.Request | None = None
    body = b""
    while True:
        event = wire.next_event()
        if event is h11.NEED_DATA:
            wire.receive_data(await reader.read(65_536))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            assert head
            return _request(head, body)
        else:
            return None


def _request(head: h11.Request, body: bytes) -> Request:
    target = urlsplit(head.target.decode())
    return Request(
        method=head.method.decode(),
        path=unquote(target.path),
        query=dict(parse_qsl(target.query)),
        headers={name.decode(): value.decode() for name, value in head.headers},
        body=json.loads(body) if body else None,
    )


def _json(status: int, body: Any, **headers: str) -> Answer:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    written = b"" if body is None else json.dumps(body).encode()
    return Answer(status, written, (("content-type", "application/json"), *named))
