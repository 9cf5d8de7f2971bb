"""Slow clients cost other clients nothing: heads that never end, bodies that never come, readers that never read."""

import asyncio
import socket

import pytest
import pytest_asyncio

from holdfast.api import request, server
from holdfast.api.server import CLOSE_WAIT_MS, HEAD_BYTES_MAX, HEAD_WAIT_MS
from holdfast.api.streams import event_stream
from holdfast.testing.clock import ManualClock
from tests.support.live import TOKEN, serve, until

pytestmark = pytest.mark.asyncio(loop_scope="module")
HEAD = f"Host: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def live(tmp_path_factory):
    clock = ManualClock()
    async with serve(tmp_path_factory.mktemp("slow") / "data", clock=clock) as running:
        running.side = clock
        yield running


async def opened(live, text=""):
    host, port = live.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(text.encode())
    await writer.drain()
    return reader, writer


def heads(live):
    """Connections that have not shown a whole head."""
    return [one for one in live.server.server_state.connections if isinstance(one, server.HttpProtocol) and one.in_head]


@pytest.mark.parametrize("text", ["", "GET /healthz HTTP/1.1\r\n", f"GET /healthz HTTP/1.1\r\n{HEAD}X-Slow: "])
async def test_a_head_that_never_ends_is_let_go_after_ten_seconds(live, text):
    reader, writer = await opened(live, text)
    await until(lambda: heads(live))
    await live.server.sweep()
    live.side.advance(HEAD_WAIT_MS - 1)
    await live.server.sweep()
    assert not reader.at_eof()
    live.side.advance(1)
    await live.server.sweep()
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await reader.readexactly(1)
    writer.close()
    assert (await live.get("/healthz")).status_code == 200


async def test_a_head_beyond_its_limit_is_refused(live):
    reader, writer = await opened(live, "GET /healthz HTTP/1.1\r\nX: " + "x" * (HEAD_BYTES_MAX + 1))
    assert b"400" in await reader.readline()
    writer.close()


async def test_a_connection_that_works_is_never_swept_away(live):
    reader, writer = await opened(live)
    for _ in range(3):
        writer.write(f"GET /v1/me HTTP/1.1\r\n{HEAD}\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        assert len(await reader.readexactly(length)) == length
        live.side.advance(HEAD_WAIT_MS * 10)
        await live.server.sweep()
    writer.close()


async def test_a_body_that_never_comes_is_answered_with_408(live, monkeypatch):
    monkeypatch.setattr(request, "BODY_WAIT_MS", 1)
    reader, writer = await opened(live, f"POST /v1/messages HTTP/1.1\r\n{HEAD}Content-Length: 10\r\n\r\n{{")
    assert b"408" in await reader.readline()
    writer.close()


async def test_a_ten_megabyte_message_is_refused_before_it_is_read(live):
    reader, writer = await opened(live, f"POST /v1/messages HTTP/1.1\r\n{HEAD}Content-Length: 10485760\r\n\r\n")
    assert b"413" in await reader.readline()
    writer.close()


@pytest.mark.parametrize("pieces", [10**9, 1], ids=["in its middle", "at its end"])
async def test_a_stream_without_a_reader_is_closed_and_the_message_is_not_lost(live, monkeypatch, pieces):
    """The client takes the head of its stream and nothing more; its socket is full, and then its time is over."""
    message = await live.runtime.send(f"stalled {pieces}", "My cat is called Byron.")
    await live.runtime.reply_to(message)
    monkeypatch.setattr(event_stream, "STALL_MS", 50)
    host, port = live.url.removeprefix("http://").split(":")
    client = socket.create_connection((host, int(port)))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)

    async def long(*_args):
        for _ in range(pieces):
            yield event_stream.event("delta", "x" * 8_000_000)

    monkeypatch.setattr("holdfast.api.routes.messages.events_of", long)
    before = set(live.server.server_state.connections)
    client.sendall(f"GET /v1/messages/{message}/stream HTTP/1.1\r\n{HEAD}\r\n".encode())
    await until(lambda: live.server.server_state.connections - before)
    (connection,) = live.server.server_state.connections - before
    await until(connection.transport.is_closing)
    await live.server.sweep()
    live.side.advance(CLOSE_WAIT_MS)
    await live.server.sweep()
    await until(lambda: connection not in live.server.server_state.connections)
    client.close()
    assert (await live.runtime.trace(message)).reply.text == "Noted: My cat is called Byron."


async def test_events_of_a_stream_are_made_no_further_ahead_than_the_reader_is(live):
    """The source waits: what is made ahead is bounded."""
    made = 0

    async def source():
        nonlocal made
        while True:
            made += 1
            yield b"x"

    queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue(event_stream.AHEAD_MAX)
    making = asyncio.ensure_future(event_stream.EventStream(source(), live.runtime.tasks)._make(queue))
    for _ in range(event_stream.AHEAD_MAX * 3):
        await asyncio.sleep(0)
    assert made == event_stream.AHEAD_MAX + 1
    making.cancel()
