"""A mistyped command is answered with the command that was meant; the model never sees it and nothing changes."""

import pytest

from tests.support.fakes import Gate, Process, ScriptedModel, agents, said, says, settled, soon, stands_at

SUGGESTED = "There is no command /tilte. Did you mean /title <text>?"


def reply_of(trace) -> str:
    return trace.reply.text if trace.reply else ""


async def test_it_is_answered_with_a_suggestion_and_the_model_never_sees_it(tmp_path):
    model = ScriptedModel()
    async with await Process.start(tmp_path, agents(model)) as runtime:
        await soon(runtime.ask("c", "hello"))
        before = (await runtime.sessions(chat="c"))[0]
        message = await runtime.send("c", "/tilte Cats")
        (trace,) = await settled(runtime, message)
        assert (trace.state.value, reply_of(trace).startswith(SUGGESTED)) == ("command", True)
        after = (await runtime.sessions(chat="c"))[0]
        assert (after.title, after.committed_seq, after.id) == (None, before.committed_seq, before.id)
        assert await said(runtime, after.id) == ["hello"]
        assert len(model.requests) == 1
        assert await soon(runtime.ask("c", "/etc/hosts is empty"))
        assert len(model.requests) == 2, "a path is no command"


async def test_it_is_answered_at_once_while_a_turn_runs(tmp_path):
    """Somebody who mistypes /stop must not wait for the end of what they want to stop."""
    model = ScriptedModel(stands_at(gate := Gate(), says("late")))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        first = await runtime.send("c", "hello")
        await gate.arrival()
        assert "Did you mean /stop?" in await soon(runtime.ask("c", "/stpo"))
        assert (await runtime.trace(first)).state.value == "in_turn"
        gate.open()
        (trace,) = await settled(runtime, first)
        assert trace.state.value == "answered"


async def test_a_repeat_of_it_is_one_message_with_one_reply(tmp_path):
    async with await Process.start(tmp_path, agents(ScriptedModel())) as runtime:
        first = await runtime.send("c", "/tilte", id="1")
        assert await runtime.send("c", "/tilte", id="1") == first
        assert reply_of(await runtime.trace(first)).startswith(SUGGESTED)


async def test_the_words_of_programs_are_plain_text(tmp_path):
    """Two agents must not correct each other's spelling for ever."""
    from holdfast.inbox.message import Origin, accepted_message

    model = ScriptedModel(says("ok"))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        outcome = await runtime.accept("c", "/tilte", origin=Origin(human=False))
        (trace,) = await settled(runtime, accepted_message(outcome))
        assert (trace.state.value, reply_of(trace)) == ("answered", "ok")
    assert len(model.requests) == 1


@pytest.mark.parametrize("door", ["websocket", "openai", "stream"])
async def test_it_is_answered_over_every_kind_of_connection(tmp_path, door):
    import json

    from websockets.asyncio.client import connect

    from tests.support.live import TOKEN, serve

    async with serve(tmp_path / "data", model=(model := ScriptedModel())) as live:
        if door == "websocket":
            headers = {"Authorization": f"Bearer {TOKEN}"}
            url = live.url.replace("http", "ws") + "/v1/ws"
            async with connect(url, proxy=None, additional_headers=headers) as socket:
                await socket.send(json.dumps({"type": "send", "chat": "c", "id": "1", "text": "/tilte"}))
                while (frame := json.loads(await socket.recv()))["type"] != "reply":
                    pass
            text = frame["text"]
        elif door == "openai":
            body = {"model": "main", "user": "c", "messages": [{"role": "user", "content": "/tilte"}]}
            text = (await live.post("/v1/chat/completions", body)).json()["choices"][0]["message"]["content"]
        else:
            text = "".join([delta.text async for delta in live.runtime.stream("c", "/tilte")])
        assert text.startswith(SUGGESTED)
        assert model.requests == []


async def test_in_a_group_it_is_answered_there_and_overheard_slips_are_left_alone(tmp_path):
    from holdfast.channels.telegram import make_telegram
    from holdfast.inbox.channel import ChannelSetup
    from holdfast.kernel.ids import AgentName
    from holdfast.kernel.machine import AsyncTasks, SystemClock, SystemEntropy
    from tests.platforms.telegram import FakeTelegram
    from tests.support.approving import Till, start

    async with FakeTelegram() as server:
        bot = server.bot("ada_bot")
        chat, bob = server.group(bot), server.user("Bob")
        setup = ChannelSetup(
            name="telegram",
            agent=AgentName("main"),
            settings={"token_env": "TOKEN", "api_url": server.url},
            environment={"TOKEN": bot.token},
            folder=tmp_path,
            clock=SystemClock(),
            entropy=SystemEntropy(),
            tasks=AsyncTasks(),
        )
        channel = make_telegram(setup)
        async with await start(tmp_path, "telegram", channel, till := Till()):
            server.say(chat, bob, "/tilte@another_bot Cats")
            server.say(chat, bob, f"/tilte@{bot.username} Cats")
            await server.until(lambda: len(chat.texts()) == 1)
        await channel.close()
    assert [text.startswith(SUGGESTED) for text in chat.texts()] == [True]
    assert till.paid == [], "the model was never asked"
