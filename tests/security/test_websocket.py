"""The WebSocket refuses connections without a token and from foreign pages, and input that costs other clients: exact
inputs, exact codes.

Rules: control 3.
"""

import asyncio
import json
from typing import Any

import pytest
import pytest_asyncio
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from holdfast.api.auth import guard
from holdfast.api.auth.access_token import AccessToken, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token, revoke_token
from holdfast.api.auth.guard import ATTEMPTS_MAX
from holdfast.api.streams import conversation, websocket
from holdfast.api.streams.frames import DeltaFrame
from holdfast.kernel.errors import StoreUnavailable
from holdfast.kernel.ids import TokenId
from holdfast.kernel.notifier import Event
from holdfast.sessions.history_sql import find_mailbox
from tests.support.fakes import soon
from tests.support.live import BODY_BYTES_MAX, TOKEN, serve
from tests.support.ports import replace_verb, verb_on

pytestmark = pytest.mark.asyncio(loop_scope="module")
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def server(tmp_path_factory):
    async with serve(tmp_path_factory.mktemp("ws") / "data") as running:
        yield running


@pytest.fixture
def live(server):
    """The one server, without the wrong tokens of earlier tests."""
    server.app._guard._attempts._used.clear()
    return server


def ws(live, path="/v1/ws", **more):
    return connect(live.url.replace("http", "ws") + path, proxy=None, **more)


async def heard(socket):
    return json.loads(await socket.recv())


async def closed(socket):
    """How the server ends the connection."""
    async for _ in _frames(socket):
        pass
    return socket.close_code, socket.close_reason


async def _frames(socket):
    try:
        while True:
            yield await socket.recv()
    except ConnectionClosed:
        return


async def denied(live, path="/v1/ws", **headers):
    with pytest.raises(InvalidStatus) as caught:
        async with ws(live, path, additional_headers=headers):
            pass
    return caught.value.response.status_code, json.loads(caught.value.response.body)["error"]["code"]


# --- who may come ----------------------------------------------------------------------------------


async def test_a_page_of_another_origin_is_turned_away(live):
    for origin in ("http://localhost:3000", "http://evil.example", "null", live.url + ".evil.example"):
        async with ws(live, origin=origin, additional_headers=BEARER) as socket:
            assert await closed(socket) == (4403, "origin_not_allowed")


async def test_our_own_origin_passes(live):
    async with ws(live, origin=live.url, additional_headers=BEARER) as socket:
        assert (await heard(socket))["type"] == "ready"


async def test_a_cookie_counts_from_our_own_page_only(live):
    response = await live.client.post("/v1/login", json={"code": live.app.logins.new_code()})
    cookie = {"Cookie": response.headers["set-cookie"].partition(";")[0]}
    async with ws(live, origin=live.url, additional_headers=cookie) as socket:
        assert (await heard(socket))["type"] == "ready"
    async with ws(live, additional_headers=cookie) as socket:
        assert await closed(socket) == (4403, "origin_not_allowed")


async def test_a_token_in_the_url_is_refused(live):
    assert await denied(live, f"/v1/ws?token={TOKEN}") == (400, "token_in_url")


async def test_a_foreign_host_is_refused(live):
    assert await denied(live, Host="evil.example") == (400, "host_not_allowed")


async def test_there_is_one_websocket(live):
    assert await denied(live, "/v1/other", **BEARER) == (404, "not_found")


@pytest.mark.parametrize(
    "first",
    ['{"type": "auth", "token": "wrong"}', '{"type": "ping"}', "{", '{"type": "auth"}', '{"type": "nonsense"}'],
)
async def test_a_socket_that_does_not_send_a_token_first_is_closed(live, first):
    async with ws(live) as socket:
        await socket.send(first)
        assert await closed(socket) == (4401, "auth_required")


async def test_a_wrong_header_is_turned_away(live):
    async with ws(live, additional_headers={"Authorization": "Bearer wrong"}) as socket:
        assert await closed(socket) == (4401, "auth_required")


async def test_a_socket_that_says_nothing_is_closed(live, monkeypatch):
    monkeypatch.setattr(websocket, "AUTH_WAIT_MS", 1)
    async with ws(live) as socket:
        assert await closed(socket) == (4401, "auth_required")


async def test_wrong_tokens_are_counted(live):
    for _ in range(ATTEMPTS_MAX):
        async with ws(live, additional_headers={"Authorization": "Bearer wrong"}) as socket:
            await closed(socket)
    async with ws(live, additional_headers={"Authorization": "Bearer wrong"}) as socket:
        assert await closed(socket) == (4429, "too_many_attempts")


async def test_the_first_frame_may_be_the_token(live):
    async with ws(live) as socket:
        await socket.send(json.dumps({"type": "auth", "token": TOKEN}))
        assert (await heard(socket))["type"] == "ready"
        await socket.send(json.dumps({"type": "auth", "token": TOKEN}))
        assert (await heard(socket))["error"]["code"] == "invalid_input"


async def make(live, n, *scopes, agents=()):
    token = AccessToken(id=TokenId(f"tok_{n}"), scopes=frozenset(scopes), agents=frozenset(agents))
    await live.runtime.db.write(add_token(token, hash_token(spell_token(n))))
    return {"Authorization": f"Bearer {spell_token(n)}"}


async def test_a_revoked_token_ends_its_connections(live, monkeypatch):
    monkeypatch.setattr(guard, "RECHECK_EVERY_MS", 1)
    async with ws(live, additional_headers=await make(live, 1, Scope.READ)) as socket:
        assert (await heard(socket))["type"] == "ready"
        await live.runtime.db.write(revoke_token(TokenId("tok_1")))
        assert await closed(socket) == (4401, "auth_required")


class Away:
    """A question to the store, which is away until it is told otherwise."""

    def __init__(self, asked):
        self._asked = asked
        self._times = 0
        self.asked_again = asyncio.Event()
        self.is_away = True

    async def __call__(self, *args):
        self._times += 1
        if self._times > 1:
            self.asked_again.set()
        if self.is_away:
            raise StoreUnavailable("the database does not answer")
        return await self._asked(*args)


async def test_a_store_that_is_away_for_a_moment_ends_no_connection(live, monkeypatch):
    monkeypatch.setattr(guard, "RECHECK_EVERY_MS", 1)
    monkeypatch.setattr(conversation, "LOOK_EVERY_MS", 1)
    async with ws(live, additional_headers=await make(live, 15, Scope.READ)) as socket:
        assert (await heard(socket))["type"] == "ready"
        await socket.send(json.dumps({"type": "subscribe", "chat": "nobody spoke here"}))
        assert (await heard(socket))["type"] == "subscribed"
        rechecks, looks = Away(live.app._guard.recheck), Away(verb_on(live.runtime.db, find_mailbox, reads=True))
        monkeypatch.setattr(live.app._guard, "recheck", rechecks)
        replace_verb(monkeypatch, live.runtime.db, find_mailbox, looks)
        await soon(rechecks.asked_again.wait())
        await soon(looks.asked_again.wait())
        rechecks.is_away = looks.is_away = False
        await socket.send(json.dumps({"type": "ping"}))
        assert (await heard(socket))["type"] == "pong"
        await live.runtime.db.write(revoke_token(TokenId("tok_15")))
        assert await closed(socket) == (4401, "auth_required")


async def test_while_the_store_is_away_its_tokens_are_refused(live, monkeypatch):
    mine = await make(live, 16, Scope.READ)
    monkeypatch.setattr(live.app._guard, "identify", Away(live.app._guard.identify))
    async with ws(live, additional_headers=mine) as socket:
        assert await closed(socket) == (1013, "store_unavailable")


async def test_scopes_hold_for_every_frame(live):
    async with ws(live, additional_headers=await make(live, 2, Scope.READ)) as socket:
        await heard(socket)
        await socket.send(json.dumps({"type": "send", "chat": "c", "id": "1", "text": "hello"}))
        refused = await heard(socket)
        assert (refused["error"]["code"], refused["id"]) == ("scope_required", "1")
    async with ws(live, additional_headers=await make(live, 3, Scope.SEND)) as socket:
        await heard(socket)
        for frame in ({"type": "subscribe", "chat": "c"}, {"type": "follow", "message": "msg_x"}):
            await socket.send(json.dumps(frame))
            assert (await heard(socket))["error"]["code"] == "scope_required"


async def test_another_agents_messages_are_not_there(live):
    message = await live.runtime.send("secret", "My canary is called X.", agent="ada")
    await live.runtime.reply_to(message)
    async with ws(live, additional_headers=await make(live, 4, Scope.ADMIN, agents=["bob"])) as socket:
        assert (await heard(socket))["agents"] == ["bob"]
        for frame, code in (
            ({"type": "follow", "message": message}, "message_not_found"),
            ({"type": "send", "agent": "ada", "chat": "secret", "id": "1", "text": "x"}, "agent_not_found"),
            ({"type": "subscribe", "agent": "ada", "chat": "secret"}, "agent_not_found"),
        ):
            await socket.send(json.dumps(frame))
            assert (await heard(socket))["error"]["code"] == code
        await socket.send(json.dumps({"type": "send", "chat": "mine", "id": "1", "text": "x"}))
        assert (await heard(socket))["agent"] == "bob", "whom else could a token for one agent mean?"


async def test_a_send_token_hears_of_its_own_messages_only(live):
    """Somebody else talks in the same chat: without a subscription that is not told."""
    async with ws(live, additional_headers=await make(live, 5, Scope.SEND)) as socket:
        await heard(socket)
        await live.runtime.ask("shared", "My secret is called X.")
        await socket.send(json.dumps({"type": "send", "chat": "shared", "id": "1", "text": "hello"}))
        frames: list[dict[str, Any]] = []
        while not (frames and frames[-1]["type"] == "reply"):
            frames.append(await heard(socket))
        assert {one["message"] for one in frames if "message" in one} == {frames[0]["message"]}
        assert {name for one in frames for name in one.get("messages", [])} <= {frames[0]["message"]}


# --- what is not acceptable ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "invalid_json"),
        ("[]", "invalid_input"),
        ('{"type": "shout"}', "invalid_input"),
        ('{"type": "send", "chat": "c", "id": "1"}', "invalid_input"),
        ('{"type": "send", "chat": "c", "id": "1", "text": "x", "more": 1}', "invalid_input"),
        ('{"type": "send", "chat": "", "id": "1", "text": "x"}', "invalid_name"),
        ('{"type": "send", "chat": "c", "id": "1", "text": " "}', "empty_message"),
        ('{"type": "send", "chat": "c", "id": "1", "text": "x", "agent": "../x"}', "invalid_name"),
        ('{"type": "follow", "message": "msg_never"}', "message_not_found"),
    ],
)
async def test_a_frame_that_cannot_be_meant_is_told_and_the_connection_goes_on(live, text, code):
    async with ws(live, additional_headers=BEARER) as socket:
        await heard(socket)
        await socket.send(text)
        refused = await heard(socket)
        assert (refused["type"], refused["error"]["code"]) == ("error", code)
        assert set(refused["error"]) == {"code", "message", "hint"}
        await socket.send('{"type": "ping"}')
        assert await heard(socket) == {"type": "pong"}


async def test_a_lone_surrogate_ends_the_connection(live):
    async with ws(live, additional_headers=BEARER) as socket:
        await socket.send(r'{"type": "send", "chat": "c", "id": "1", "text": "\ud800"}')
        assert await closed(socket) == (1007, "invalid_unicode")


async def test_what_is_not_utf8_ends_the_connection(live):
    async with ws(live, additional_headers=BEARER) as socket:
        await socket.send(b'{"type": "ping\xff"}', text=True)
        assert await closed(socket) == (1007, "invalid_unicode")


async def test_bytes_end_the_connection(live):
    async with ws(live, additional_headers=BEARER) as socket:
        await socket.send(b"{}")
        assert (await closed(socket))[0] == 1003


async def test_a_frame_beyond_the_limit_ends_the_connection_before_it_is_read(live):
    async with ws(live, additional_headers=BEARER) as socket:
        await heard(socket)
        await socket.send(" " * (BODY_BYTES_MAX + 1))
        assert (await closed(socket))[0] == 1009


async def test_there_is_a_limit_to_connections(live, monkeypatch):
    monkeypatch.setattr(websocket, "SOCKETS_MAX", 1)
    async with ws(live, additional_headers=BEARER) as socket:
        await heard(socket)
        assert await denied(live, **BEARER) == (503, "too_many_connections")
    assert (await live.get("/healthz")).status_code == 200


async def test_there_is_a_limit_to_chats_of_a_connection(live, monkeypatch):
    monkeypatch.setattr(conversation, "CHATS_MAX", 0)
    async with ws(live, additional_headers=BEARER) as socket:
        await heard(socket)
        for frame in (
            {"type": "send", "chat": "c", "id": "1", "text": "x"},
            {"type": "subscribe", "chat": "c"},
            {"type": "follow", "message": "m"},
        ):
            await socket.send(json.dumps(frame))
            assert (await heard(socket))["error"]["code"] == "invalid_input"


# --- a client that never reads -----------------------------------------------------------------------


async def test_an_outbox_that_is_full_ends_the_connection():
    box = websocket.Outbox(frames_max=2, bytes_max=1_000_000)
    for _ in range(2):
        box.put(DeltaFrame(messages=[], text="x"))
    with pytest.raises(websocket.Closing) as caught:
        box.put(DeltaFrame(messages=[], text="x"))
    assert (caught.value.code, caught.value.reason) == (4408, "slow_reader")
    box = websocket.Outbox(frames_max=1_000, bytes_max=10)
    box.put(DeltaFrame(messages=[], text="one frame may be larger than the limit"))
    with pytest.raises(websocket.Closing):
        box.put(DeltaFrame(messages=[], text="x"))


async def test_a_client_that_never_reads_is_let_go_and_loses_nothing(live):
    """It floods itself with a chat's events and never reads; the store has what it sent, and it can ask again."""
    async with ws(live, additional_headers=BEARER, max_queue=1) as socket:
        await heard(socket)
        await socket.send('{"type": "send", "chat": "slow", "id": "1", "text": "My cat is called Byron."}')
        accepted = await heard(socket)
        await live.runtime.reply_to(accepted["message"])
        mailbox = (await live.runtime.db.read(find_mailbox("agent:main:http:dm:slow"))).mailbox
        await socket.send('{"type": "subscribe", "chat": "slow"}')
        while (await heard(socket))["type"] != "subscribed":
            pass
        socket.transport.pause_reading()
        open_before = live.app._sockets._open
        while live.app._sockets._open == open_before:
            flood = Event(name="turn.delta", mailbox=mailbox, messages=("m",), text="x" * 100_000)
            live.runtime._notifier.publish(flood)
            await asyncio.sleep(0)
        socket.transport.resume_reading()
        assert await closed(socket) == (4408, "slow_reader")
    async with ws(live, additional_headers=BEARER) as socket:
        await heard(socket)
        await socket.send(json.dumps({"type": "follow", "message": accepted["message"]}))
        assert (await heard(socket))["text"] == "Noted: My cat is called Byron."
