"""A turn that waits for approval tells every client that waits for its reply, over each interface. The question is sent
once; the answer follows after the decision.
"""

import asyncio
import json

from typer.testing import CliRunner
from websockets.asyncio.client import connect

from holdfast.cli.commands import app
from holdfast.sessions.history_sql import trace_message
from holdfast.turns.policy import AgentPolicy, ApprovalPolicy
from tests.support.fakes import ScriptedModel, calls, happened, says, soon
from tests.support.live import TOKEN, serve
from tests.support.ports import replace_verb, verb_on

GUARDED = AgentPolicy(approval=ApprovalPolicy(tools=frozenset({"memory"})), memory={})
WISH = 'memory {"action": "read"}'
QUESTION = f"main wants to use `{WISH.replace(' ', '`: `', 1)}`\n"


def serving(folder, *moves):
    return serve(
        folder, model=ScriptedModel(*(moves or (calls(WISH, text="let me look"), says("done")))), policy=GUARDED
    )


async def asked(live):
    """A message that waits, and its approval."""
    feed = live.runtime.events()
    message = (await live.say("look")).json()["message"]
    await happened(feed, "turn.asked")
    feed.close()
    return message, (await live.runtime.approvals.list())[0].id


# --- server-sent events ----------------------------------------------------------------------------


async def events(response):
    name = ""
    async for line in response.aiter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


async def test_a_stream_of_events_tells_the_question_once_and_then_the_reply(tmp_path):
    body = {"chat": "hello", "id": "1", "text": "look"}
    told = []
    async with (
        serving(tmp_path) as live,
        live.client.stream("POST", "/v1/messages", json=body, headers={"Accept": "text/event-stream"}) as response,
    ):
        async for name, data in events(response):
            told.append((name, data))
            if name == "asked":
                await live.say(f" /approve {data['approval']}", id="2")
    (question,) = [data for name, data in told if name == "asked"]
    assert question["text"].startswith(QUESTION)
    assert f"Answer /approve {question['approval']} or" in question["text"]
    assert (question["message"], question["tool"]) == (told[0][1]["message"], "memory")
    assert [name for name, _ in told][-1] == "reply"
    assert told[-1][1]["text"] == "done"


async def test_a_client_that_comes_later_or_waits_behind_the_turn_is_told_as_well(tmp_path):
    async with serving(tmp_path) as live:
        message, approval = await asked(live)
        behind = (await live.say("yes, please", id="2")).json()["message"]
        for one in (message, behind):
            async with live.client.stream("GET", f"/v1/messages/{one}/stream") as response:
                following = events(response)
                names = [(await soon(anext(following)))[0] for _ in range(2)]
                assert names == ["state", "asked"]
            status = (await live.get(f"/v1/messages/{one}")).json()
            assert (status["awaiting"]["approval"], status["awaiting"]["tool"]) == (approval, "memory")
            assert status["awaiting"]["text"].startswith(QUESTION)
        await live.say(f"/deny {approval}", id="3")
        assert await soon(live.runtime.reply_to(message)) == "done"
        assert (await live.get(f"/v1/messages/{message}")).json()["awaiting"] is None


# --- WebSocket -------------------------------------------------------------------------------------


def ws(live):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return connect(live.url.replace("http", "ws") + "/v1/ws", additional_headers=headers, proxy=None)


async def say(socket, **frame):
    await socket.send(json.dumps(frame))


async def heard(socket, is_last):
    """Every frame up to the first of which that holds."""
    frames = [json.loads(await soon(socket.recv()))]
    while not is_last(frames[-1]):
        frames.append(json.loads(await soon(socket.recv())))
    return frames


async def test_over_a_socket_a_question_is_told_once_for_each_and_answered_there(tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.api.streams.conversation.LOOK_EVERY_MS", 1)
    async with serving(tmp_path, calls(WISH), calls(WISH), says("done")) as live, ws(live) as socket:
        await say(socket, type="send", chat="hello", id="1", text="look")
        first = (await heard(socket, lambda one: one["type"] == "asked"))[-1]
        await say(socket, type="send", chat="hello", id="2", text=f" /approve {first['approval']}")
        frames = await heard(socket, lambda one: one["type"] == "asked")
        assert [one["text"] for one in frames if one["type"] == "reply"] == [
            f"Approved: memory ({first['approval']}) runs once."
        ]
        second = frames[-1]
        assert second["approval"] != first["approval"]
        await say(socket, type="send", chat="hello", id="3", text=f"/deny {second['approval']}")
        frames = await heard(socket, lambda one: one["type"] == "reply" and one["id"] == "1")
        assert [one for one in frames if one["type"] == "asked"] == []
        assert frames[-1]["text"] == "done"


async def test_who_follows_or_subscribes_over_a_socket_is_told_what_is_waited_for(tmp_path):
    async with serving(tmp_path, calls(WISH), says("done"), calls(WISH), says("done")) as live, ws(live) as socket:
        message, approval = await asked(live)
        await say(socket, type="follow", message=message)
        found = (await heard(socket, lambda one: one["type"] == "asked"))[-1]
        assert (found["message"], found["approval"]) == (message, approval)
        await live.say(f"/approve {approval}", id="2")
        await heard(socket, lambda one: one["type"] == "reply")
        await say(socket, type="subscribe", chat="hello")
        await heard(socket, lambda one: one["type"] == "subscribed")
        mine = (await live.say("again", id="3")).json()["message"]
        found = (await heard(socket, lambda one: one["type"] == "asked"))[-1]
        assert found["message"] == mine


async def test_a_reply_is_told_once_although_two_look_for_it_at_the_same_time(tmp_path, monkeypatch):
    """The sender of a signal reads at once, and the watcher of the chat reads periodically."""
    monkeypatch.setattr("holdfast.api.streams.conversation.LOOK_EVERY_MS", 1)
    async with serving(tmp_path) as live, ws(live) as socket:
        trace, both = verb_on(live.runtime.db, trace_message, reads=True), asyncio.Barrier(2)
        looks: list[str] = []

        async def looking(message):
            found = await trace(message)
            if len(looks) < both.parties:
                looks.append(message)
                await both.wait()
            return found

        replace_verb(monkeypatch, live.runtime.db, trace_message, looking)
        await say(socket, type="send", chat="hello", id="1", text="/status")
        await heard(socket, lambda one: one["type"] == "reply")
        await say(socket, type="ping")
        frames = await heard(socket, lambda one: one["type"] == "pong")
        assert [one for one in frames if one["type"] == "reply"] == []
        assert len(set(looks)) == 1


async def test_a_reply_is_told_once_although_another_message_is_looked_up_before_it(tmp_path, monkeypatch):
    """The watcher of a chat takes its list; while it reads the first, the sender of the second reports it."""
    monkeypatch.setattr("holdfast.api.streams.conversation.LOOK_EVERY_MS", 1)
    async with serving(tmp_path) as live, ws(live) as socket:
        await say(socket, type="send", chat="hello", id="1", text="look")
        first = (await heard(socket, lambda one: one["type"] == "asked"))[-1]["message"]
        trace = verb_on(live.runtime.db, trace_message, reads=True)
        sender_looks, watch_looks, told, again = (asyncio.Event() for _ in range(4))

        async def looking(message):
            task = asyncio.current_task()
            if task is None or task.get_name() != "ws-chat":
                sender_looks.set()  # nothing else ran since the watch could know of its message
                found = await trace(message)
                await watch_looks.wait()
                return found
            is_after_sender = sender_looks.is_set()
            found = await trace(message)
            if message == first and told.is_set():
                again.set()
            elif message == first and is_after_sender:
                watch_looks.set()
                await told.wait()
            return found

        replace_verb(monkeypatch, live.runtime.db, trace_message, looking)
        await say(socket, type="send", chat="hello", id="2", text="/status")
        await heard(socket, lambda one: one["type"] == "reply")
        told.set()
        await soon(again.wait())
        await say(socket, type="ping")
        frames = await heard(socket, lambda one: one["type"] == "pong")
        assert [one for one in frames if one["type"] == "reply"] == []


# --- the command line ------------------------------------------------------------------------------


async def send(folder, text, *more):
    arguments = ["send", text, "--chat", "hello", "--wait", "--data", str(folder), *more]
    done = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    return done.exit_code, done.stdout


async def test_send_prints_the_question_and_leaves_with_a_code_that_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.runtime.runtime.LOOK_EVERY_MS", 1)
    async with serving(tmp_path):
        code, out = await send(tmp_path, "look", "--id", "1")
        assert (code, out[: len(QUESTION)]) == (4, QUESTION)
        code, out = await send(tmp_path, "look", "--id", "1", "--json")
        status = json.loads(out)
        assert (code, status["state"], status["awaiting"]["tool"]) == (4, "awaiting", "memory")
        code, out = await send(tmp_path, f"/approve {status['awaiting']['approval']}")
        assert (code, out) == (0, "done\n"), "it waits for what it released"
