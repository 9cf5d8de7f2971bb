"""The use of one client or one token is limited before any work is done, each refusal has a code, and the operator is
served while all others are refused. Over real sockets.
"""

import asyncio
import contextlib
import json
from typing import Any

import pytest
from msgspec.structs import replace
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from holdfast.api import server
from holdfast.api.auth.access_token import AccessToken, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.api.auth.guard import Names
from holdfast.api.limits import admission
from holdfast.api.limits.connections import Connections, OpenConnection, client_key
from holdfast.api.limits.server_limits import ServerLimits
from holdfast.kernel.ids import TokenId
from holdfast.testing.clock import ManualClock
from tests.support.live import BODY_BYTES_MAX, TOKEN, GatedModel, code_of, serve, until

pytestmark = pytest.mark.asyncio
OPERATOR = f"Authorization: Bearer {TOKEN}\r\n"
JSON = "Content-Type: application/json\r\n"
LIMITS = ServerLimits()


class OneHook:
    """A hook that exists, and accepts every body."""

    def __init__(self):
        self.taken = []

    def check_head(self, agent, channel, headers):
        return (agent, channel) == ("main", "here")

    async def hook(self, agent, channel, request):
        self.taken.append(len(request.body))


async def opened(live, text):
    host, port = live.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(text.encode())
    await writer.drain()
    return reader, writer


def head(path, *, length=0, method="POST", more=""):
    body = f"Content-Length: {length}\r\n" if length else ""
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{JSON}{body}{more}\r\n"


async def told(reader):
    """The status and the body of one answer."""
    lines = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(lines.split(b"content-length: ")[1].split(b"\r\n")[0])
    body = json.loads(await reader.readexactly(length))
    return int(lines.split(b" ")[1]), body.get("error", {}).get("code"), lines


async def token(live, n, *scopes, agents=()):
    made = AccessToken(id=TokenId(f"tok_{n}"), scopes=frozenset(scopes), agents=frozenset(agents))
    await live.runtime.db.write(add_token(made, hash_token(spell_token(n))))
    return {"Authorization": f"Bearer {spell_token(n)}"}


# --- from the head -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_head", "status", "code"),
    [
        (head("/v1/hooks/main/nowhere", length=200_000), 404, "not_found"),
        (head("/v1/hooks/nobody/here", length=200_000), 404, "not_found"),
        (head("/v1/nowhere", length=200_000, more=OPERATOR), 404, "not_found"),
        (head("/v1/messages", length=200_000), 401, "auth_required"),
        (head("/v1/messages", length=200_000, more="Authorization: Bearer wrong\r\n"), 401, "auth_required"),
        (head("/v1/messages", length=200_000, method="PUT", more=OPERATOR), 405, "method_not_allowed"),
        (head("/v1/messages", length=200_000, more=OPERATOR).replace("json", "xml"), 415, "unsupported_media_type"),
        (head("/v1/messages", length=10**9, more=OPERATOR), 413, "message_too_large"),
        (head("/v1/login", length=200_000), 413, "message_too_large"),
    ],
)
async def test_what_the_head_shows_to_be_wrong_is_answered_before_a_byte_of_the_body(
    tmp_path, request_head, status, code
):
    async with serve(tmp_path / "data", hooks=OneHook()) as live:
        reader, writer = await opened(live, request_head)
        assert (await told(reader))[:2] == (status, code)
        assert live.app._settings.admission.bodies.held == 0
        writer.close()


async def test_an_unexpected_body_is_discarded_with_its_connection(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "REST_BYTES_MAX", 100_000)
    async with serve(tmp_path / "data") as live:
        reader, writer = await opened(live, head("/v1/hooks/main/nowhere", length=10**8))
        assert (await told(reader))[0] == 404
        every: set[Any] = live.server.server_state.connections
        (connection,) = [one for one in every if one.is_answered_early]
        assert len(connection.cycle.body) == 0
        with contextlib.suppress(OSError):  # a reset or a broken pipe, as the system likes
            while connection in every:
                writer.write(b"x" * 65_536)
                await writer.drain()
        await until(lambda: connection not in every)
        writer.close()


async def test_nothing_of_a_body_is_read_before_its_bytes_have_a_place(tmp_path, monkeypatch):
    """A slow body at a hook that exists holds what it announced; one more of the same size waits, and is refused."""
    monkeypatch.setattr(admission, "WAIT_MS", 1)
    limits = replace(LIMITS, body_bytes_max=BODY_BYTES_MAX, client_body_bytes_max=BODY_BYTES_MAX)
    async with serve(tmp_path / "data", hooks=OneHook(), limits=limits) as live:
        bodies = live.app._settings.admission.bodies
        _, slow = await opened(live, head("/v1/hooks/main/here", length=BODY_BYTES_MAX))
        await until(lambda: bodies.held == BODY_BYTES_MAX)
        reader, writer = await opened(live, head("/v1/hooks/main/here", length=10))
        status, code, lines = await told(reader)
        assert (status, code) == (429, "too_many_bytes")
        assert b"retry-after" in lines
        assert (await live.say("the operator is served")).status_code == 202
        slow.close()
        await until(lambda: bodies.held == 0)
        writer.write(b"x" * 10)
        writer.close()
        again, last = await opened(live, head("/v1/hooks/main/here", length=3) + "abc")
        assert (await again.readline()).split(b" ")[1] == b"404"  # the hook was asked, and knows nothing to answer
        last.close()


async def test_a_request_that_waits_for_memory_leaves_its_body_in_the_socket(tmp_path, monkeypatch):
    limits = replace(LIMITS, body_bytes_max=BODY_BYTES_MAX, client_body_bytes_max=BODY_BYTES_MAX)
    async with serve(tmp_path / "data", hooks=OneHook(), limits=limits) as live:
        monkeypatch.setattr(admission, "WAIT_MS", 60_000)
        _, slow = await opened(live, head("/v1/hooks/main/here", length=BODY_BYTES_MAX))
        await until(lambda: live.app._settings.admission.bodies.held == BODY_BYTES_MAX)
        before = set(live.server.server_state.connections)
        _, writer = await opened(live, head("/v1/hooks/main/here", length=BODY_BYTES_MAX))
        every: set[Any] = live.server.server_state.connections
        await until(lambda: len(every - before) == 1)
        (connection,) = every - before
        writer.write(b"x" * BODY_BYTES_MAX)
        await until(lambda: connection.flow is not None and connection.flow.read_paused)
        assert len(connection.cycle.body) <= server.READ_BYTES
        slow.close()
        writer.close()


async def test_the_memory_of_all_bodies_is_bounded_for_all_senders(tmp_path, monkeypatch):
    monkeypatch.setattr(admission, "WAIT_MS", 1)
    limits = replace(LIMITS, body_bytes_max=2 * BODY_BYTES_MAX, client_body_bytes_max=BODY_BYTES_MAX)
    names = Names((), ("127.0.0.1",))
    async with serve(tmp_path / "data", hooks=OneHook(), limits=limits, names=names) as live:
        bodies = live.app._settings.admission.bodies
        held = []
        for n in range(2):
            more = f"X-Forwarded-For: 198.51.100.{n}\r\n"
            held.append(await opened(live, head("/v1/hooks/main/here", length=BODY_BYTES_MAX, more=more)))
        await until(lambda: bodies.held == 2 * BODY_BYTES_MAX)
        more = "X-Forwarded-For: 198.51.100.9\r\nTransfer-Encoding: chunked\r\n"
        reader, writer = await opened(live, head("/v1/hooks/main/here", more=more))
        assert (await told(reader))[:2] == (503, "body_memory_full")
        writer.close()
        for _, one in held:
            one.close()


# --- per client and per token ---------------------------------------------------------------------


async def test_requests_of_one_client_are_limited_and_the_operator_is_not(tmp_path):
    limits = replace(LIMITS, client_requests_max=2)
    async with serve(tmp_path / "data", hooks=OneHook(), limits=limits) as live:
        held = [await opened(live, head("/v1/hooks/main/here", length=9)) for _ in range(2)]
        await until(lambda: live.app._settings.admission._others == 2)
        reader, writer = await opened(live, head("/v1/hooks/main/here", length=9))
        status, code, lines = await told(reader)
        assert (status, code, b"retry-after" in lines) == (429, "too_many_requests", True)
        assert (await live.say("the operator is served")).status_code == 202
        assert (await live.client.get("/healthz", headers={"Authorization": ""})).status_code == 200
        assert 'http_errors_total{code="too_many_requests"} 1.0' in (await live.get("/metrics")).text
        for _, one in (*held, (reader, writer)):
            one.close()


async def test_streams_of_one_token_are_limited_and_another_token_is_not(tmp_path):
    limits = replace(LIMITS, token_requests_max=2)
    model = GatedModel()
    async with serve(tmp_path / "data", model=model, limits=limits) as live:
        one = await token(live, 1, Scope.SEND, Scope.READ)
        other = await token(live, 2, Scope.SEND, Scope.READ)
        body = {"chat": "slow", "id": "1", "text": "hello"}
        message = (await live.client.post("/v1/messages", json=body, headers=one)).json()["message"]
        path = f"/v1/messages/{message}/stream"
        async with live.client.stream("GET", path, headers=one), live.client.stream("GET", path, headers=one):
            refused = await live.client.get("/v1/me", headers=one)
            assert (refused.status_code, code_of(refused)) == (429, "too_many_requests")
            assert (await live.client.get("/v1/me", headers=other)).status_code == 200
        await until(lambda: live.app._settings.admission._others == 0)
        assert (await live.client.get("/v1/me", headers=one)).status_code == 200
        model.gate.set()


async def test_the_operators_share_is_free_while_everybody_else_is_refused(tmp_path):
    limits = replace(LIMITS, connections_max=6, operator_connections=3, half_open_max=6, client_half_open_max=6)
    async with serve(tmp_path / "data", hooks=OneHook(), limits=limits) as live:
        held = [await opened(live, head("/v1/hooks/main/here", length=9)) for _ in range(3)]
        await until(lambda: live.app._settings.admission._others == 3)
        reader, writer = await opened(live, head("/v1/hooks/main/here", length=9))
        assert (await told(reader))[:2] == (503, "too_many_connections")
        held += [await opened(live, "GET / HT") for _ in range(10)]  # they make room for each other and the operator
        assert (await live.client.get("/healthz", headers={"Authorization": ""})).status_code == 200
        assert (await live.get("/readyz")).status_code == 200
        assert (await live.say("the operator is served")).status_code == 202
        assert live.app._settings.admission._others == 3, "no request under way was cut off"
        for _, one in (*held, (reader, writer)):
            one.close()


async def test_bytes_of_one_token_are_limited_within_a_minute(tmp_path):
    clock = ManualClock()
    limits = replace(LIMITS, token_bytes_per_minute=1_000)
    async with serve(tmp_path / "data", limits=limits, clock=clock) as live:
        bearer = await token(live, 1, Scope.SEND)

        async def say(n):
            body = {"chat": "c", "id": str(n), "text": "x" * 600}
            return await live.client.post("/v1/messages", json=body, headers=bearer)

        assert (await say(1)).status_code == 202
        refused = await say(2)
        assert (refused.status_code, code_of(refused)) == (429, "byte_rate_exceeded")
        assert int(refused.headers["retry-after"]) == 60
        clock.advance(60_000)
        assert (await say(2)).status_code == 202


@pytest.mark.parametrize("way", ["messages", "completions", "socket"])
async def test_new_chats_of_one_token_are_limited_and_known_ones_go_on(tmp_path, way):
    clock = ManualClock()
    limits = replace(LIMITS, token_chats_per_hour=2)
    async with serve(tmp_path / "data", limits=limits, clock=clock) as live:
        bearer = await token(live, 1, Scope.SEND, Scope.READ)
        await send(live, {"Authorization": f"Bearer {TOKEN}"}, way, "old")  # the operator's are not counted
        assert [await send(live, bearer, way, chat) for chat in ("old", "a", "b")] == ["", "", ""]
        assert await send(live, bearer, way, "c") == "too_many_chats"
        assert [await send(live, bearer, way, chat) for chat in ("old", "a", "b")] == ["", "", ""]
        assert "c" not in {(one.address or "").rpartition(":")[2] for one in await live.runtime.sessions()}
        clock.advance(3_600_000)
        assert await send(live, bearer, way, "c") == ""


async def send(live, bearer, way, chat):
    """Say something; the code of the refusal, or nothing."""
    if way == "socket":
        url = live.url.replace("http", "ws", 1) + "/v1/ws"
        async with connect(url, additional_headers=bearer, proxy=None) as socket:
            await socket.recv()
            ident = f"{chat} {live.runtime.entropy.bits(64)}"
            await socket.send(json.dumps({"type": "send", "chat": chat, "id": ident, "text": "hello"}))
            found = json.loads(await socket.recv())
            return found["error"]["code"] if found["type"] == "error" else ""
    ident = f"{chat} {live.runtime.entropy.bits(64)}"
    if way == "messages":
        body, path = {"chat": chat, "id": ident, "text": "hello"}, "/v1/messages"
    else:
        body, path = {"user": chat, "messages": [{"role": "user", "content": ident}]}, "/v1/chat/completions"
    response = await live.client.post(path, json=body, headers=bearer)
    return code_of(response) if response.is_error else ""


# --- WebSockets ---------------------------------------------------------------------------------


async def test_a_socket_that_has_not_said_who_it_is_may_send_a_small_frame_only(tmp_path):
    async with serve(tmp_path / "data") as live:
        url = live.url.replace("http", "ws", 1) + "/v1/ws"
        async with connect(url, proxy=None) as socket:
            await socket.send("x" * (server.FIRST_FRAME_BYTES_MAX + 1))
            await socket.wait_closed()
            assert socket.close_code == 1009


async def test_large_frames_are_accepted_from_clients_with_a_token(tmp_path):
    async with serve(tmp_path / "data") as live:
        url = live.url.replace("http", "ws", 1) + "/v1/ws"
        async with connect(url, additional_headers={"Authorization": f"Bearer {TOKEN}"}, proxy=None) as socket:
            frame = {"type": "send", "chat": "c", "id": "1", "text": "x" * 100_000}
            await socket.send(json.dumps(frame))  # at once, before anything was heard
            assert json.loads(await socket.recv())["type"] == "ready"
            assert json.loads(await socket.recv())["type"] == "accepted"
        await until(lambda: live.app._settings.admission.bodies.held == 0)


async def test_unfinished_frames_count_as_bodies_do(tmp_path):
    limits = replace(LIMITS, token_body_bytes_max=BODY_BYTES_MAX)
    async with serve(tmp_path / "data", limits=limits) as live:
        bearer = await token(live, 1, Scope.SEND)
        url = live.url.replace("http", "ws", 1) + "/v1/ws"

        async def pieces():
            for _ in range(20):
                yield "x" * 10_000
            await stop.wait()
            yield "x"

        stop = asyncio.Event()
        async with connect(url, additional_headers=bearer, proxy=None) as first:
            await first.recv()
            sending = asyncio.ensure_future(first.send(pieces()))
            await until(lambda: live.app._settings.admission.bodies.held >= 200_000)
            async with connect(url, additional_headers=bearer, proxy=None) as second:
                await second.recv()
                with contextlib.suppress(ConnectionClosed):
                    await second.send("x" * 200_000)
                await second.wait_closed()
                assert second.close_code == 1013
            stop.set()
            await sending
        await until(lambda: live.app._settings.admission.bodies.held == 0)


# --- connections --------------------------------------------------------------------------------


class Wire(OpenConnection):
    peer = ""
    has_unsent = False

    def __init__(self, peer, *, unsent=False):
        self.peer, self.has_unsent, self.dropped = peer, unsent, False

    def drop(self):
        self.dropped = True


async def settle():
    for _ in range(4):
        await asyncio.sleep(0)


def held(limits, is_proxy=lambda _: False):
    reasons: list[str] = []
    return Connections(limits, is_proxy, reasons.append), reasons


async def test_the_oldest_half_open_connection_of_a_client_makes_room_and_no_other_clients():
    connections, reasons = held(replace(LIMITS, client_half_open_max=2))
    other = Wire("192.0.2.9")
    many = [Wire("192.0.2.1") for _ in range(4)]
    for one in (other, *many):
        connections.opened(one)
    await settle()
    assert [one.dropped for one in (other, *many)] == [False, True, True, False, False]
    assert reasons == ["half_open", "half_open"]


async def test_a_head_that_arrives_at_once_is_read_before_room_is_made():
    connections, _ = held(replace(LIMITS, client_half_open_max=1))
    first, second = Wire("192.0.2.1"), Wire("192.0.2.1")
    connections.opened(first)
    connections.opened(second)
    connections.works(first)
    await settle()
    assert (first.dropped, second.dropped) == (False, False)


async def test_the_longest_idle_connection_makes_room_and_none_with_a_request():
    connections, reasons = held(replace(LIMITS, connections_max=2))
    busy, resting, sending = Wire("192.0.2.1"), Wire("192.0.2.2"), Wire("192.0.2.3", unsent=True)
    for one in (busy, sending, resting):
        connections.opened(one)
        connections.works(one)
    connections.rests(sending)
    connections.rests(resting)
    await settle()
    assert [one.dropped for one in (busy, sending, resting)] == [False, False, True]
    assert reasons == ["connections"]
    assert len(connections) == 2


@pytest.mark.parametrize(("peer", "proxy"), [("127.0.0.1", False), ("10.0.0.1", True)])
async def test_addresses_that_many_share_are_not_limited_in_connections(peer, proxy):
    connections, _ = held(replace(LIMITS, client_connections_max=1), lambda _: proxy)
    for one in (many := [Wire(peer) for _ in range(3)]):
        connections.opened(one)
        connections.works(one)
        connections.rests(one)
    await settle()
    assert not any(one.dropped for one in many)


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("::1", "::1"),
        ("unknown", "unknown"),
    ],
)
async def test_one_machine_is_one_client_whatever_address_of_its_network_it_takes(address, key):
    assert client_key(address) == key
