"""Replies as they are made, over server-sent events and WebSocket: durable first, then told, and never lost."""

import asyncio
import json
from typing import Any

import pytest
import pytest_asyncio
from websockets.asyncio.client import connect

from holdfast.api.streams import event_stream, frames
from holdfast.kernel.notifier import Event
from holdfast.sessions.history_sql import find_mailbox
from tests.support.fakes import soon
from tests.support.live import TOKEN, GatedModel, code_of, serve
from tests.support.live import until as holds

pytestmark = pytest.mark.asyncio(loop_scope="module")
EVENTS = {"Accept": "text/event-stream"}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def live(tmp_path_factory):
    async with serve(tmp_path_factory.mktemp("streams") / "data") as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def gated(tmp_path):
    model = GatedModel()
    async with serve(tmp_path, model=model) as running:
        running.side = model
        yield running


async def events(response):
    """The events of a stream, heartbeats left out."""
    name = ""
    async for line in response.aiter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


async def collected(response):
    return [event async for event in events(response)]


def posting(live, text="My cat is called Byron.", *, chat, id="1"):
    body = {"chat": chat, "id": id, "text": text}
    return live.client.stream("POST", "/v1/messages", json=body, headers=EVENTS)


# --- server-sent events ----------------------------------------------------------------------------


async def test_a_message_is_accepted_first_and_its_reply_streams_after_it(live):
    async with posting(live, chat="sse") as response:
        assert (response.status_code, response.headers["content-type"]) == (202, "text/event-stream; charset=utf-8")
        told = await collected(response)
    names = [name for name, _ in told]
    assert (names[0], names[-1]) == ("accepted", "reply")
    assert set(names) <= {"accepted", "state", "delta", "restarted", "reply"}
    reply = told[-1][1]
    assert (reply["state"], reply["text"], reply["id"]) == ("answered", "Noted: My cat is called Byron.", "1")
    assert reply["message"] == told[0][1]["message"]
    assert "".join(data["text"] for name, data in told if name == "delta") in reply["text"]


async def test_a_repeat_streams_the_same_reply(live):
    async with posting(live, chat="again") as response:
        first = (await collected(response))[-1]
    async with posting(live, chat="again") as response:
        assert response.status_code == 200
        told = await collected(response)
    assert (told[0][0], told[-1]) == ("duplicate", first)


async def test_a_message_that_is_refused_is_an_answer_and_no_stream(live):
    await live.say("one", chat="refused")
    async with posting(live, "two", chat="refused") as response:
        await response.aread()
        assert (response.status_code, code_of(response)) == (409, "idempotency_conflict")


async def test_a_client_that_was_cut_off_asks_again_and_gets_the_whole_reply(gated):
    async with posting(gated, chat="cut") as response:
        following = events(response)
        message = (await anext(following))[1]["message"]
        await gated.side.asked.wait()
        await following.aclose()
    async with gated.client.stream("GET", f"/v1/messages/{message}/stream") as response:
        following = events(response)
        assert await anext(following) == ("state", {"type": "state", "message": message, "state": "in_turn"})
        gated.side.gate.set()
        told = [event async for event in following]
    assert told[-1][1]["text"] == "Noted: My cat is called Byron."


async def test_a_finished_message_streams_its_reply_at_once(live):
    message = (await live.say("My dog is called Ada.", chat="done")).json()["message"]
    await live.runtime.reply_to(message)
    async with live.client.stream(
        "GET", f"/v1/messages/{message}/stream", headers={"Last-Event-ID": message}
    ) as response:
        assert [name for name, _ in await collected(response)] == ["state", "reply"]


async def test_a_message_that_is_not_there_has_no_stream(live):
    response = await live.get("/v1/messages/msg_never/stream")
    assert (response.status_code, code_of(response)) == (404, "message_not_found")


async def test_a_stream_that_has_nothing_to_tell_shows_that_it_lives(gated, monkeypatch):
    monkeypatch.setattr(event_stream, "HEARTBEAT_MS", 1)
    async with posting(gated, chat="quiet") as response:
        async for line in response.aiter_lines():
            if line.startswith(":"):
                break
    gated.side.gate.set()


async def test_a_reader_that_leaves_ends_its_feed(gated):
    feeds = gated.runtime._notifier._feeds
    async with posting(gated, chat="gone") as response:
        await anext(events(response))
        assert any(key.startswith("message ") for key in feeds)
    await (await gated.client.get("/healthz")).aread()
    gated.side.gate.set()
    message = (await gated.say("hello", chat="gone", id="2")).json()["message"]
    await gated.runtime.reply_to(message)
    assert not any(key.startswith("message ") for key in feeds)


# --- WebSocket -------------------------------------------------------------------------------------


def ws(live):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return connect(live.url.replace("http", "ws") + "/v1/ws", additional_headers=headers, proxy=None)


async def say(socket, **frame):
    await socket.send(json.dumps(frame))


async def until(socket, kind):
    """Every frame up to the first of a kind."""
    heard: list[dict[str, Any]] = []
    while not (heard and heard[-1]["type"] == kind):
        heard.append(json.loads(await socket.recv()))
    return heard


async def test_a_message_sent_over_a_socket_is_accepted_streamed_and_answered(live):
    async with ws(live) as socket:
        assert (await until(socket, "ready"))[0]["agents"] == ["main"]
        await say(socket, type="send", chat="ws", id="1", text="My cat is called Byron.")
        heard = await until(socket, "reply")
        accepted, reply = heard[0], heard[-1]
        assert (accepted["type"], accepted["id"], accepted["queued_behind"]) == ("accepted", "1", 0)
        assert (await live.get(f"/v1/messages/{accepted['message']}")).status_code == 200
        assert (reply["message"], reply["text"]) == (accepted["message"], "Noted: My cat is called Byron.")
        await say(socket, type="send", chat="ws", id="1", text="My cat is called Byron.")
        again = await until(socket, "reply")
        assert (again[0]["type"], again[0]["state"], again[-1]) == ("duplicate", "answered", reply)
        await say(socket, type="send", chat="ws", id="1", text="another")
        refused = (await until(socket, "error"))[-1]
        assert (refused["id"], refused["error"]["code"]) == ("1", "idempotency_conflict")


async def test_accepted_is_told_before_the_reply_is_made_and_the_reply_in_pieces(gated):
    async with ws(gated) as socket:
        await until(socket, "ready")
        await say(socket, type="send", chat="c", id="1", text="My cat is called Byron.")
        await until(socket, "accepted")
        await gated.side.asked.wait()
        gated.side.gate.set()
        heard = await until(socket, "reply")
    deltas = "".join(one["text"] for one in heard if one["type"] == "delta")
    assert deltas == heard[-1]["text"]


async def test_a_subscriber_hears_what_others_say_in_its_chat_and_in_no_other(live):
    async with ws(live) as socket:
        await until(socket, "ready")
        await live.runtime.ask("heard", "hello")
        await say(socket, type="subscribe", chat="heard")
        await until(socket, "subscribed")
        await live.runtime.ask("unheard", "My secret is called X.")
        mine = await live.runtime.send("heard", "My fox is called Max.")
        heard = await until(socket, "reply")
        assert heard[-1]["message"] == mine
        assert {one["message"] for one in heard if "message" in one} == {mine}


async def test_a_chat_may_be_subscribed_to_before_it_exists(live, monkeypatch):
    monkeypatch.setattr("holdfast.api.streams.conversation.LOOK_EVERY_MS", 1)
    async with ws(live) as socket:
        await until(socket, "ready")
        await say(socket, type="subscribe", chat="to-come")
        await until(socket, "subscribed")
        await live.runtime.ask("to-come", "hello")
        await until(socket, "subscribed")  # from here on everything is told; what came before is in the journal
        mine = await live.runtime.send("to-come", "My fox is called Max.")
        while (await until(socket, "reply"))[-1]["message"] != mine:
            pass


async def test_after_a_connection_is_lost_a_message_is_followed_by_its_id(gated):
    async with ws(gated) as socket:
        await until(socket, "ready")
        await say(socket, type="send", chat="c", id="1", text="My cat is called Byron.")
        message = (await until(socket, "accepted"))[-1]["message"]
        await gated.side.asked.wait()
        socket.transport.abort()
    async with ws(gated) as socket:
        await until(socket, "ready")
        await say(socket, type="follow", message=message)
        assert (await until(socket, "state"))[-1]["state"] == "in_turn"
        gated.side.gate.set()
        assert (await until(socket, "reply"))[-1]["text"] == "Noted: My cat is called Byron."


async def test_a_reply_that_another_process_makes_is_told_all_the_same(live, monkeypatch):
    """Nothing is heard in this process: it looks for itself."""
    monkeypatch.setattr(frames, "LOOK_EVERY_MS", 1)
    monkeypatch.setattr("holdfast.api.streams.conversation.LOOK_EVERY_MS", 1)
    monkeypatch.setattr(live.runtime._notifier, "publish", lambda event: None)
    async with ws(live) as socket:
        await until(socket, "ready")
        await say(socket, type="send", chat="elsewhere", id="1", text="My cat is called Byron.")
        assert (await until(socket, "reply"))[-1]["text"] == "Noted: My cat is called Byron."


async def test_in_a_chat_that_is_never_silent_such_a_reply_is_told_as_well(live, monkeypatch):
    """Of the turn nothing is heard in this process, of what others say in the chat a lot."""
    monkeypatch.setattr("holdfast.api.streams.conversation.LOOK_EVERY_MS", 300)
    notifier, is_over = live.runtime._notifier, asyncio.Event()
    publish = notifier.publish

    async def crowd(mailbox):
        while not is_over.is_set():
            publish(Event(name="message.accepted", mailbox=mailbox, messages=("msg_of_another",)))
            await asyncio.sleep(0)

    async with ws(live) as socket:
        await until(socket, "ready")
        await say(socket, type="send", chat="busy", id="1", text="hello")
        await until(socket, "reply")
        monkeypatch.setattr(notifier, "publish", lambda event: None)
        there = await live.runtime.db.read(find_mailbox("agent:main:http:dm:busy"))
        crowding = asyncio.ensure_future(crowd(there.mailbox))
        await say(socket, type="send", chat="busy", id="2", text="My cat is called Byron.")
        try:
            assert (await soon(until(socket, "reply")))[-1]["text"] == "Noted: My cat is called Byron."
        finally:
            is_over.set()
            await crowding


async def test_a_signal_is_answered_however_many_messages_wait(gated, monkeypatch):
    monkeypatch.setattr("holdfast.api.streams.conversation.CHECKED_MAX", 1)
    async with ws(gated) as socket:
        await until(socket, "ready")
        for n in range(3):
            await say(socket, type="send", chat="c", id=str(n), text="hello")
        await say(socket, type="send", chat="c", id="signal", text="/status")
        reply = (await soon(until(socket, "reply")))[-1]
        assert (reply["id"], reply["state"]) == ("signal", "command")
        gated.side.gate.set()


async def test_commands_are_answered_too_and_nothing_is_kept_of_a_chat_that_is_done(live):
    async with ws(live) as socket:
        await until(socket, "ready")
        await say(socket, type="send", chat="cmd", id="1", text="/status")
        assert (await until(socket, "reply"))[-1]["state"] == "command"
        await say(socket, type="ping")
        await until(socket, "pong")
    await holds(lambda: not live.app._sockets._open)


async def test_the_server_tells_its_clients_that_it_stops(tmp_path):
    async with serve(tmp_path) as live:
        socket = await ws(live)
        await until(socket, "ready")
    await socket.wait_closed()
    assert socket.close_code == 1012
