"""A request is one request: nothing behind its head is taken for head, nothing in its body for another request, and an
answer that came early does not keep a connection open."""

import asyncio
import json

import pytest
import pytest_asyncio

from holdfast.api.server import CLOSE_WAIT_MS, HEAD_BYTES_MAX
from holdfast.testing.clock import ManualClock
from tests.support.live import TOKEN, serve, until

pytestmark = pytest.mark.asyncio(loop_scope="module")
HOST = "Host: 127.0.0.1\r\n"
BEARER = f"Authorization: Bearer {TOKEN}\r\n"
TYPE = "Content-Type: application/json\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n"
SMUGGLED = f"GET /v1/me HTTP/1.1\r\n{HOST}{BEARER}\r\n"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def live(tmp_path_factory):
    clock = ManualClock()
    async with serve(tmp_path_factory.mktemp("raw") / "data", clock=clock) as running:
        running.side = clock
        yield running


async def opened(live, text):
    host, port = live.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(text.encode("latin-1"))
    await writer.drain()
    return reader, writer


def connections(live):
    return list(live.server.server_state.connections)


async def told(reader):
    """The status and the body of one answer."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
    return int(head.split(b" ")[1]), (await reader.readexactly(length)).decode()


async def sent(live, text):
    reader, writer = await opened(live, text)
    try:
        return await told(reader)
    finally:
        writer.close()


@pytest.mark.parametrize(
    "head",
    [
        f"Content-Length: 5\r\n{CHUNKED}\r\n0\r\n\r\n",
        f"{CHUNKED}Content-Length: 5\r\n\r\n0\r\n\r\n",
        f"{CHUNKED}Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
        "Content-Length: +0\r\n\r\n",
        f"{CHUNKED}\r\n-1\r\n\r\n",
        f"{CHUNKED}\r\n0x0\r\n\r\n",
        f"{CHUNKED}\r\nFFFFFFFFFFFFFFFFF\r\n\r\n",
        "X: a\rb\r\n\r\n",
        "X : a\r\n\r\n",
        "X: a\x00b\r\n\r\n",
        "X: a\r\n folded\r\n\r\n",
    ],
)
async def test_a_request_that_two_servers_would_read_differently_is_refused_with_all_that_follows(live, head):
    reader, writer = await opened(live, f"POST /v1/logout HTTP/1.1\r\n{HOST}{BEARER}{head}{SMUGGLED}")
    everything = await reader.read()
    assert everything.startswith(b"HTTP/1.1 400")
    assert everything.count(b"HTTP/1.1 ") == 1
    assert b"operator" not in everything
    writer.close()


@pytest.mark.parametrize("host", [f"{HOST}{HOST}", f"{HOST}Host: evil.example\r\n", "Host: localhost.\r\n", ""])
async def test_a_host_that_is_not_exactly_one_of_ours_is_refused(live, host):
    status, body = await sent(live, f"GET /healthz HTTP/1.1\r\n{host}\r\n")
    assert (status, json.loads(body)["error"]["code"]) == (400, "host_not_allowed")


async def test_what_stands_behind_a_body_is_no_header(live):
    """A proxy that checks headers does not look there: no token, and no forwarded address, may come that way."""
    tail = f"{CHUNKED}\r\n2\r\n{{}}\r\n0\r\n"
    status, body = await sent(live, f"POST /v1/logout HTTP/1.1\r\n{HOST}{tail}{BEARER}\r\n")
    assert (status, json.loads(body)["error"]["code"]) == (401, "auth_required")
    status, _ = await sent(live, f"POST /v1/logout HTTP/1.1\r\n{HOST}{BEARER}{tail}Host: evil.example\r\n\r\n")
    assert status == 200


@pytest.mark.parametrize(
    "rest", ["X: " + "x" * HEAD_BYTES_MAX + "\r\n\r\n", "a: b\r\n" * (HEAD_BYTES_MAX // 6 + 1) + "\r\n"]
)
async def test_a_head_beyond_its_limit_is_refused_though_it_came_at_once(live, rest):
    status, _ = await sent(live, f"GET /healthz HTTP/1.1\r\n{HOST}{rest}")
    assert status == 400


@pytest.mark.parametrize("begun", ["0\r\nX: ", "1;"], ids=["a trailer", "a chunk extension"])
async def test_what_is_neither_head_nor_body_has_a_limit_too(live, begun):
    """The parser would keep what never ends."""
    head = f"POST /v1/messages HTTP/1.1\r\n{HOST}{BEARER}{TYPE}{CHUNKED}\r\n"
    reader, writer = await opened(live, head)
    await until(lambda: any(one.in_body and not one.transport.is_closing() for one in connections(live)))
    writer.write(begun.encode().ljust(HEAD_BYTES_MAX + 1, b"x"))
    assert (await reader.readline()).startswith(b"HTTP/1.1 400")
    writer.close()


async def test_a_body_that_goes_on_after_its_answer_is_let_go_after_five_seconds(live):
    """A client without a token may not hold a connection by never ending a refused request."""
    reader, writer = await opened(live, f"POST /v1/messages HTTP/1.1\r\n{HOST}Content-Length: 100000000\r\n\r\n")
    assert (await told(reader))[0] == 401
    await until(lambda: any(one.is_answered_early for one in connections(live)))
    await live.server.sweep()
    live.side.advance(CLOSE_WAIT_MS - 1)
    writer.write(b"x")
    await live.server.sweep()
    assert not reader.at_eof()
    live.side.advance(1)
    await live.server.sweep()
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await reader.readexactly(1)
    writer.close()


async def test_a_body_that_ends_in_time_keeps_its_connection(live):
    reader, writer = await opened(live, f"POST /v1/messages HTTP/1.1\r\n{HOST}Content-Length: 4\r\n\r\n")
    assert (await told(reader))[0] == 401
    await live.server.sweep()
    writer.write(b"null" + SMUGGLED.encode())
    assert (await told(reader))[0] == 200
    live.side.advance(CLOSE_WAIT_MS)
    await live.server.sweep()
    writer.write(SMUGGLED.encode())
    assert (await told(reader))[0] == 200
    writer.close()


async def test_a_refused_websocket_is_no_fault_of_ours(live, caplog):
    handshake = (
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    reader, writer = await opened(live, f"GET /v1/elsewhere HTTP/1.1\r\n{HOST}{handshake}")
    assert (await reader.read()).startswith(b"HTTP/1.1 404")
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
    writer.close()
