"""The library: a handful of calls, the same from a coroutine and from any thread."""

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor
from itertools import takewhile

import pytest

import holdfast
from holdfast.kernel.errors import IdempotencyConflict, InvalidInput, MessageNotFound, SessionNotFound, StoreUnavailable
from holdfast.kernel.ids import MessageId, SessionId
from tests.support.fakes import (
    Gate,
    Process,
    ScriptedModel,
    agents,
    happened,
    policy,
    says,
    soon,
    stands_at,
    the_session,
)
from tests.support.patience import HANGS_S


@pytest.mark.parametrize("model", ["practice", "openai:gpt-5.2", object()])
async def test_a_model_that_cannot_be_asked_is_refused_at_once(tmp_path, model):
    with pytest.raises(InvalidInput, match="AgentPolicy"):
        async with holdfast.open(tmp_path, model=model):
            pass


def test_no_vendors_library_is_loaded_before_a_model_needs_it(tmp_path):
    program = f"""
import sys, holdfast
with holdfast.open_sync({str(tmp_path)!r}) as runtime:
    runtime.ask("ada", "My cat is called Byron.", id="1")
print(sorted({{"openai", "anthropic", "pydantic_ai", "mcp", "discord"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=HANGS_S)
    assert done.stdout == "[]\n"


async def test_a_conversation_through_the_library(tmp_path):
    async with holdfast.open(tmp_path) as runtime:
        assert await soon(runtime.ask("lobby", "My cat is called Byron.", id="1")) == "Noted: My cat is called Byron."
        assert "Byron" in await soon(runtime.ask("lobby", "What is my cat called?", id="2"))
        (session,) = await runtime.sessions(chat="lobby")
        assert session.live
        assert [view.entry.kind for view in await runtime.history(session.id)] == ["user", "assistant"] * 2
        context = await runtime.context(session.id)
        assert context.entries[0].text == "My cat is called Byron."
        prompt = await runtime.prompt(session.id)
        assert [message.role for message in prompt.messages] == ["user", "assistant"] * 2
        assert prompt.tokens > 0
    async with holdfast.open(tmp_path) as runtime:
        assert "Byron" in await soon(runtime.ask("lobby", "What is my cat called?", id="3"))


async def test_a_repeated_id_returns_the_same_reply_without_a_second_turn(tmp_path):
    model = ScriptedModel(says("once"), says("twice"))
    async with holdfast.open(tmp_path, model=model) as runtime:
        first = await runtime.send("c", "hello", id="1")
        assert await soon(runtime.reply_to(first)) == "once"
        assert await runtime.send("c", "hello", id="1") == first
        assert await soon(runtime.ask("c", "hello", id="1")) == "once"
        assert [delta.text async for delta in runtime.stream("c", "hello", id="1")] == ["once"]
        with pytest.raises(IdempotencyConflict):
            await runtime.send("c", "other words", id="1")
        assert len(model.requests) == 1
        assert await soon(runtime.ask("elsewhere", "hello", id="1")) == "twice", "ids belong to a chat"


async def test_concurrent_repeats_are_one_message(tmp_path):
    model = ScriptedModel()
    async with holdfast.open(tmp_path, model=model) as runtime:
        replies = await asyncio.gather(*(soon(runtime.ask("c", "hello", id="1")) for _ in range(20)))
        assert set(replies) == {"re: hello"}
        assert len(model.requests) == 1


async def test_two_who_stream_one_message_both_get_the_whole_reply(tmp_path):
    model = ScriptedModel(stands_at(gate := Gate(), says("one two"), after="zero "))
    async with holdfast.open(tmp_path, model=model) as runtime:

        async def listen() -> str:
            text = ""
            async for delta in runtime.stream("c", "hello", id="1"):
                text = delta.text if delta.restarted else text + delta.text
            return text

        first = asyncio.ensure_future(listen())
        await gate.arrival()
        second = asyncio.ensure_future(listen())
        await runtime.sessions()  # the second may be listening by now; it must not matter
        gate.open()
        trace = await runtime.trace(await runtime.send("c", "hello", id="1"))
        assert await soon(first) == await soon(second) == "one two"
        assert trace.turn == 1


async def test_events_tell_the_whole_story_in_order(tmp_path):
    async with holdfast.open(tmp_path, model=ScriptedModel()) as runtime:
        feed = runtime.events()
        message = await runtime.send("c", "hello")
        for name in ("message.accepted", "turn.opened", "turn.delta", "turn.answered"):
            event = await happened(feed, name)
            assert event.messages == (message,)
        assert event.text == "re: hello"
        assert event.session == await the_session(runtime)


async def test_unknown_things_are_said_to_be_unknown(tmp_path):
    async with holdfast.open(tmp_path, model=ScriptedModel()) as runtime:
        with pytest.raises(MessageNotFound):
            await runtime.trace(MessageId("msg_nowhere"))
        with pytest.raises(SessionNotFound):
            await runtime.history(SessionId("ses_nowhere"))
        with pytest.raises(SessionNotFound):
            await runtime.context(SessionId("ses_nowhere"))
        with pytest.raises(SessionNotFound):
            await runtime.begin_compression(SessionId("ses_nowhere"))
        assert list(await runtime.sessions(chat="nowhere")) == []


async def test_a_prompt_shows_nothing_of_a_turn_that_is_still_open(tmp_path):
    model = ScriptedModel(says("first"), stands_at(gate := Gate(), says("second")))
    chosen = policy(instructions="Be brief.")
    async with await Process.start(tmp_path, agents(model, chosen)) as runtime:
        await soon(runtime.ask("c", "one"))
        await runtime.send("c", "two")
        await gate.arrival()
        prompt = await runtime.prompt(await the_session(runtime))
        assert [message.content for message in prompt.messages] == ["Be brief.", "one", "first"]
        gate.open()


async def test_tools_of_the_library_are_plain_functions(tmp_path):
    def weather(city: str) -> str:
        """The weather in a city."""
        return f"sunny in {city}"

    async with holdfast.open(tmp_path, tools=[weather]) as runtime:
        reply = await soon(runtime.ask("c", 'use weather {"city": "Oslo"}'))
        assert reply == "The tool weather answered: sunny in Oslo"


# --- synchronous -----------------------------------------------------------------------------------


def test_the_synchronous_face_is_safe_from_several_threads(tmp_path):
    model = ScriptedModel()
    with holdfast.open_sync(tmp_path, model=model) as runtime, ThreadPoolExecutor(8) as pool:
        asked = [(f"chat{n % 4}", f"hello {n}") for n in range(40)]
        replies = list(pool.map(lambda ask: runtime.ask(*ask), asked))
        assert replies == [f"re: {text}" for _, text in asked]
        assert len(runtime.sessions()) == 4
        for chat in range(4):
            (session,) = runtime.sessions(chat=f"chat{chat}")
            said = [view.entry.text for view in runtime.history(session.id) if view.entry.kind == "user"]
            assert sorted(said) == sorted(text for chat_, text in asked if chat_ == f"chat{chat}")


def test_the_synchronous_face_streams_traces_and_shows_the_context(tmp_path):
    with holdfast.open_sync(tmp_path, model=ScriptedModel()) as runtime:
        assert [delta.text for delta in runtime.stream("c", "hello")] == ["re:", " hello"]
        message = runtime.send("c", "again", id="1")
        assert runtime.ask("c", "again", id="1") == "re: again"
        trace = runtime.trace(message)
        assert (trace.state.value, trace.turn) == ("answered", 2)
        (session,) = runtime.sessions(chat="c")
        assert [entry.text for entry in runtime.context(session.id).entries][-1] == "re: again"


def test_a_synchronous_subscriber_hears_what_happens(tmp_path):
    with holdfast.open_sync(tmp_path, model=ScriptedModel()) as runtime:
        feed = runtime.events()
        runtime.ask("c", "hello")
        heard = [event.name for event in takewhile(lambda event: event.name != "turn.answered", feed)]
        assert heard[:2] == ["message.accepted", "turn.opened"]
        feed.close()
        feed.close()
        for _ in feed:
            pass  # it ends, as an iterator does


def test_leaving_a_stream_early_ends_its_subscription(tmp_path):
    with holdfast.open_sync(tmp_path, model=ScriptedModel(says("one two three"))) as runtime:
        pieces = runtime.stream("c", "hello")
        assert next(pieces).text == "one"
        pieces.close()
        feeds = runtime._runtime._notifier._feeds
        assert not [key for key in feeds if key.startswith("message")]


def test_a_thread_that_waits_while_the_runtime_closes_is_let_go(tmp_path, monkeypatch):
    from holdfast.runtime.supervisor import Supervisor

    monkeypatch.setattr(Supervisor.stop, "__defaults__", (10,))  # of grace
    asked, caught = threading.Event(), []

    class Silent:
        name = "silent"

        async def ask(self, _request):
            asked.set()
            await asyncio.Event().wait()
            yield

    def wait(runtime) -> None:
        try:
            runtime.ask("c", "hello")
        except (holdfast.HoldfastError, CancelledError) as error:
            caught.append(error)

    with holdfast.open_sync(tmp_path, model=Silent()) as runtime:
        thread = threading.Thread(target=wait, args=(runtime,))
        thread.start()
        assert asked.wait(HANGS_S)
    thread.join(HANGS_S)
    assert not thread.is_alive()
    assert len(caught) == 1


def test_every_call_after_the_end_gets_an_error(tmp_path):
    with holdfast.open_sync(tmp_path, model=ScriptedModel(says("one two three"))) as runtime:
        feed, pieces = runtime.events(), runtime.stream("c", "hello")
        assert next(pieces).text == "one"
    for call in (lambda: runtime.ask("c", "hello"), runtime.sessions, lambda: next(feed), lambda: next(pieces)):
        with pytest.raises(StoreUnavailable):
            call()
    feed.close()
    pieces.close()


def test_a_thread_that_comes_between_the_end_of_the_loop_and_its_closing_is_not_left_waiting(tmp_path, monkeypatch):
    told: list[StoreUnavailable] = []

    def ask() -> None:
        try:
            runtime.ask("c", "hello")
        except StoreUnavailable as error:
            told.append(error)

    class Ending(threading.Thread):
        def join(self, timeout=None) -> None:
            super().join(timeout)
            if self.name == "holdfast":
                late = threading.Thread(target=ask, daemon=True)
                late.start()
                late.join(HANGS_S)

    monkeypatch.setattr(threading, "Thread", Ending)
    with holdfast.open_sync(tmp_path, model=ScriptedModel()) as runtime:
        pass
    assert len(told) == 1


def test_closing_once_more_does_nothing_whenever_it_comes(tmp_path):
    with holdfast.open_sync(tmp_path, model=ScriptedModel()) as runtime:
        runtime.close()
        runtime.close()
    runtime.close()


def test_a_close_that_fails_releases_every_waiter(tmp_path, monkeypatch):
    from holdfast.runtime.supervisor import Supervisor

    asked, caught = threading.Event(), []

    class Silent:
        name = "silent"

        async def ask(self, _request):
            asked.set()
            await asyncio.Event().wait()
            yield

    async def stop(_self):
        raise ZeroDivisionError

    def wait(runtime) -> None:
        try:
            runtime.ask("c", "hello")
        except (holdfast.HoldfastError, CancelledError) as error:
            caught.append(error)

    monkeypatch.setattr(Supervisor, "stop", stop)
    opened = holdfast.open_sync(tmp_path, model=Silent())
    thread = threading.Thread(target=wait, args=(opened.__enter__(),), daemon=True)
    thread.start()
    assert asked.wait(HANGS_S)
    with pytest.raises(ZeroDivisionError):
        opened.__exit__(None, None, None)
    thread.join(HANGS_S)
    assert len(caught) == 1
