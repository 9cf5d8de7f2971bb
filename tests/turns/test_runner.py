"""A turn is streamed, journaled as it happens, resumed from its last step, and ended visibly for every fault of the
model.
"""

import asyncio
import logging
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import pytest

from holdfast.inbox.message import MessageState
from holdfast.kernel.ids import MessageId
from holdfast.turns.journal import ToolCall
from holdfast.turns.model import ModelAnswer, TextDelta
from holdfast.turns.model_call import ANSWER_CHARS_MAX
from holdfast.turns.turn import Usage
from holdfast.turns.work_sql import claim_work, end_turn
from tests.support.fakes import (
    Gate,
    Process,
    ScriptedModel,
    agents,
    calls,
    emits,
    happened,
    kinds,
    policy,
    raises,
    said,
    says,
    settled,
    small,
    soon,
    stands_at,
    states,
    the_session,
)
from tests.support.live import until
from tests.support.ports import replace_verb, verb_on

# --- streaming -------------------------------------------------------------------------------------


async def test_the_pieces_of_a_stream_add_up_to_the_durable_reply(tmp_path):
    model = ScriptedModel(says("one two three"))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        pieces = [delta async for delta in runtime.stream("c", "hello", id="1")]
        assert [piece.text for piece in pieces] == ["one", " two", " three"]
        assert not any(piece.restarted for piece in pieces)
        (trace,) = await settled(runtime, await runtime.send("c", "hello", id="1"))
        assert trace.reply is not None
        assert trace.reply.text == "".join(piece.text for piece in pieces)
        assert trace.state is MessageState.ANSWERED


async def test_a_stream_that_is_read_after_the_answer_has_its_pieces_all_the_same(tmp_path):
    """A busy process may end the turn before the reader of the stream runs for the first time."""
    async with await Process.start(tmp_path, agents(ScriptedModel(says("one two three")))) as runtime:
        feed = runtime.events()
        message = await runtime.send("c", "hello", id="1")
        await settled(runtime, message)
        assert [delta.text async for delta in runtime.follow(message, feed)] == ["one", " two", " three"]


async def test_a_stream_starts_again_when_the_model_breaks_off_and_is_asked_again(tmp_path):
    model = ScriptedModel(emits(TextDelta("the answer is")), says("the answer is 42"))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        pieces = [(delta.text, delta.restarted) async for delta in runtime.stream("c", "hello")]
        assert pieces[:2] == [("the answer is", False), ("", True)]
        assert "".join(text for text, _ in pieces[2:]) == "the answer is 42"
        assert await said(runtime, await the_session(runtime)) == ["hello"]


async def test_what_was_streamed_before_a_tool_is_not_part_of_the_reply(tmp_path):
    def look() -> str:
        return "a cat"

    model = ScriptedModel(calls("look", text="let me see"), says("it is a cat"))
    async with await Process.start(tmp_path, agents(model, tools=[look])) as runtime:
        pieces = [(delta.text, delta.restarted) async for delta in runtime.stream("c", "what is it")]
        assert pieces[:2] == [("let me see", False), ("", True)]
        assert "".join(text for text, _ in pieces[2:]) == "it is a cat"
        session = await the_session(runtime)
        assert await kinds(runtime, session) == ["user", "assistant", "tool_started", "tool", "assistant"]


async def test_an_answer_that_differs_from_its_deltas_replaces_them(tmp_path):
    model = ScriptedModel(emits(TextDelta("4"), TextDelta("1"), ModelAnswer(text="42")))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        pieces = [(delta.text, delta.restarted) async for delta in runtime.stream("c", "hello")]
        assert pieces == [("4", False), ("1", False), ("42", True)]


# --- resuming --------------------------------------------------------------------------------------


async def test_a_turn_killed_while_the_model_thinks_is_resumed_and_answered_once(tmp_path):
    first = ScriptedModel(stands_at(gate := Gate(), says("too late"), after="too"))
    before = await Process.start(tmp_path, agents(first))
    message = await before.runtime.send("c", "hello")
    await gate.arrival()
    await before.kill()
    second = ScriptedModel()
    async with await Process.start(tmp_path, agents(second)) as runtime:
        (trace,) = await settled(runtime, message)
        assert trace.reply is not None
        assert (trace.state.value, trace.attempt, trace.reply.text) == ("answered", 2, "re: hello")
        assert await kinds(runtime, trace.session) == ["user", "assistant"]
        assert second.requests == [first.requests[0]]


async def test_a_message_accepted_before_the_kill_is_answered_after_it(tmp_path):
    asleep = await Process.start(tmp_path, agents(ScriptedModel()), serve=False)
    message = await asleep.runtime.send("c", "hello")
    await asleep.kill()
    async with await Process.start(tmp_path, agents(ScriptedModel())) as runtime:
        assert await soon(runtime.reply_to(message)) == "re: hello"


async def test_a_resumed_turn_says_that_its_stream_starts_again(tmp_path):
    before = await Process.start(tmp_path, agents(ScriptedModel(stands_at(gate := Gate(), says("x"), after="half"))))
    message = await before.runtime.send("c", "hello")
    await gate.arrival()
    await before.kill()
    async with await Process.start(tmp_path, agents(ScriptedModel())) as runtime:
        feed = runtime.events()
        assert (await happened(feed, "turn.restarted")).messages == (message,)
        assert (await happened(feed, "turn.delta")).messages == (message,)
        assert (await happened(feed, "turn.answered")).text == "re: hello"


async def test_a_stream_in_the_same_process_is_told_when_its_turn_is_resumed(tmp_path):
    model = ScriptedModel(stands_at(gate := Gate(), says("never heard"), after="half"), says("whole"))
    process = await Process.start(tmp_path, agents(model))
    async with process as runtime:

        async def listen() -> list[tuple[str, bool]]:
            return [(delta.text, delta.restarted) async for delta in runtime.stream("c", "hello", id="1")]

        listening = asyncio.ensure_future(listen())
        await gate.arrival()
        # Another process takes the file: every claim of this one is void, and its node registers again.
        other = await Process.start(tmp_path, agents(ScriptedModel(says("whole"))))
        (trace,) = await settled(other.runtime, await other.runtime.send("c", "hello", id="1"))
        assert trace.attempt == 2
        assert await soon(listening) == [("half", False), ("whole", True)]
        await other.kill()


async def test_a_turn_that_keeps_killing_its_worker_ends_as_failed_and_the_mailbox_goes_on(tmp_path):
    deadly = policy(turn_attempts_max=3)
    process = await Process.start(
        tmp_path, agents(ScriptedModel(otherwise=stands_at(gate := Gate(), says("x"))), deadly)
    )
    poison, later = await process.runtime.send("c", "poison"), await process.runtime.send("c", "later")
    for _ in range(2):
        await gate.arrival()
        await process.kill()
        gate = Gate()
        process = await Process.start(tmp_path, agents(ScriptedModel(otherwise=stands_at(gate, says("x"))), deadly))
    await gate.arrival()
    assert (await process.runtime.trace(poison)).attempt == 3
    await process.kill()
    model = ScriptedModel()
    async with await Process.start(tmp_path, agents(model, deadly)) as runtime:
        failed, answered = await settled(runtime, poison, later)
        assert failed.reply is not None
        assert (failed.state.value, failed.attempt) == ("failed", 3)
        assert "could not answer" in failed.reply.text
        assert "3 times" in failed.reply.text
        assert answered.state is MessageState.ANSWERED
        assert len(model.requests) == 1, "the poison was not tried a fourth time"
        assert await said(runtime, answered.session) == ["poison", "later"]


# --- what models do --------------------------------------------------------------------------------

BAD_MOVES: dict[str, tuple[Any, str]] = {
    "answers nothing": (emits(ModelAnswer(text="")), "answered nothing"),
    "answers blanks": (emits(ModelAnswer(text=" \n")), "answered nothing"),
    "ends without a word": (emits(), "broke off"),
    "breaks off": (emits(TextDelta("half an")), "broke off"),
    "raises something foreign": (raises(ZeroDivisionError("secret key 123")), "raised ZeroDivisionError"),
    "raises mid-stream": (raises(KeyError("x"), after="half"), "raised KeyError"),
    "raises a timeout of its own": (raises(TimeoutError("connect")), "raised TimeoutError"),
    "cancels itself": (raises(asyncio.CancelledError()), "cancelled its own work"),
    "yields strings": (emits("hello"), "neither text nor an answer"),
    "yields nothing at all": (emits(None), "neither text nor an answer"),
    "answers with no text": (emits(ModelAnswer(text=cast("Any", None))), "garbled"),
    "answers half a character": (emits(ModelAnswer(text="\ud83d")), "garbled"),
    "streams half a character": (emits(TextDelta("\ud83d"), ModelAnswer(text="x")), "neither text nor an answer"),
    "uses one id twice": (calls("a", "b", ids=("same", "same")), "garbled"),
    "names no id": (emits(ModelAnswer(text="", calls=(ToolCall(id="", name="a"),))), "garbled"),
    "counts backwards": (emits(ModelAnswer(text="x", usage=Usage(tokens_in=-1))), "garbled"),
    "counts to the moon": (emits(ModelAnswer(text="x", usage=Usage(tokens_in=1 << 70))), "garbled"),
    "answers without end": (emits(ModelAnswer(text="x" * (ANSWER_CHARS_MAX + 1))), "more than"),
    "streams without end": (emits(*[TextDelta("x" * (ANSWER_CHARS_MAX // 2))] * 3), "more than"),
    "cannot be iterated": (lambda _request: 42, "raised TypeError"),
}


@pytest.mark.parametrize("bad", BAD_MOVES)
async def test_a_model_that_fails_once_is_asked_again(bad, tmp_path):
    model = ScriptedModel(BAD_MOVES[bad][0], says("better"))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        assert await soon(runtime.ask("c", "hello")) == "better"
        assert await kinds(runtime, await the_session(runtime)) == ["user", "assistant"]


@pytest.mark.parametrize("bad", BAD_MOVES)
async def test_a_model_that_fails_every_time_fails_the_turn_visibly_and_later_messages_are_answered(bad, tmp_path):
    move, why = BAD_MOVES[bad]
    model = ScriptedModel(move, move, move)
    async with await Process.start(tmp_path, agents(model, policy(model_attempts_max=3))) as runtime:
        lost, later = await runtime.send("c", "lost"), await runtime.send("c", "later")
        failed, answered = await settled(runtime, lost, later)
        assert failed.reply is not None
        assert failed.state is MessageState.FAILED
        assert why in failed.reply.text
        assert why in (failed.reason or "")
        assert "secret" not in failed.reply.text, "what a foreign error says is for the log"
        assert failed.attempt == 1, "the worker itself did not fail"
        assert answered.state is MessageState.ANSWERED
        assert len(model.requests) == 4


async def test_a_model_that_never_answers_is_given_up_after_its_time(tmp_path):
    move = stands_at(gate := Gate(), says("x"), after="hm")
    model = ScriptedModel(move, move)
    async with await Process.start(tmp_path, agents(model, policy(model_attempts_max=2, model_wait_ms=20))) as runtime:
        lost, later = await runtime.send("c", "lost"), await runtime.send("c", "later")
        failed, answered = await settled(runtime, lost, later)
        assert "did not answer within 20 ms" in (failed.reason or "")
        assert [failed.state.value, answered.state.value] == ["failed", "answered"]
        assert gate.left.is_set(), "the model was told to stop"


async def test_a_failed_turn_says_so_to_the_next_one(tmp_path):
    boom = raises(ValueError())
    model = ScriptedModel(boom, boom, boom)
    async with await Process.start(tmp_path, agents(model)) as runtime:
        await soon(runtime.ask("c", "lost"))
        await soon(runtime.ask("c", "again"))
        notices = [message.content for message in model.requests[-1] if message.role == "system"]
        assert notices == ["[This turn failed: the model raised ValueError.]"]


async def test_a_failure_of_ours_is_tried_a_bounded_number_of_times(tmp_path, monkeypatch):
    """A worker that meets something it does not know gives the mailbox back; the turn still ends."""
    process = await Process.start(tmp_path, agents(ScriptedModel(), policy(turn_attempts_max=2)))
    async with process as runtime:
        real = verb_on(runtime.db, end_turn)
        failures = [1, 2]

        async def ending(*args):
            if failures:
                failures.pop()
                raise RuntimeError("a bug")
            return await real(*args)

        replace_verb(monkeypatch, runtime.db, end_turn, ending)
        feed = runtime.events()
        message = await runtime.send("c", "hello")
        await happened(feed, "turn.opened")
        await happened(feed, "turn.restarted")
        assert await states(runtime, message) == ["failed"]
        assert (await runtime.trace(message)).attempt == 2


# --- usage and the context -------------------------------------------------------------------------


async def test_usage_is_kept_and_calibrates_the_estimate(tmp_path):
    model = ScriptedModel(says("fine", usage=Usage(tokens_in=60, tokens_out=7)))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        await soon(runtime.ask("c", "x" * 100))  # 4 + 25 tokens by our estimate
        context = await runtime.context(await the_session(runtime))
        assert context.token_ratio == pytest.approx(60 / 29)
        assert context.used_tokens() == pytest.approx(context.estimated_tokens() * 60 / 29)


async def test_a_model_that_reports_no_usage_leaves_the_estimate_alone(tmp_path):
    async with await Process.start(tmp_path, agents(ScriptedModel())) as runtime:
        await soon(runtime.ask("c", "hello"))
        assert (await runtime.context(await the_session(runtime))).token_ratio == 1.0


async def test_between_compressions_each_request_begins_with_the_one_before_byte_for_byte(tmp_path):
    def look() -> str:
        return "a cat"

    boom = raises(ValueError())
    model = ScriptedModel(says("one"), calls("look"), says("two"), boom, boom, boom, says("three"))
    chosen = policy(instructions="Be brief.", thresholds=small(context_tokens=100_000))
    async with await Process.start(tmp_path, agents(model, chosen, tools=[look])) as runtime:
        for text in ("first", "second", "third", "fourth", "fifth"):
            await soon(runtime.ask("c", text))
    async with await Process.start(tmp_path, agents(model, chosen, tools=[look])) as runtime:
        await soon(runtime.ask("c", "after a restart"))
    requests = model.requests
    assert len(requests) == 9
    for earlier, later in pairwise(requests):
        assert later[: len(earlier)] == earlier
    assert all(request.tools == model.asked[0].tools for request in model.asked)


async def asked_of(runtime, model, count):
    """Until the model was asked so often."""
    feed = runtime.events()
    while len(model.requests) < count:
        await feed.next_within(1_000)
    feed.close()


async def test_a_death_is_counted_against_one_turn_once_several_have_been_through_a_few(tmp_path):
    """Which turn caused the crash is unknown; resumed one at a time, the other turns keep their attempts."""
    model = ScriptedModel(otherwise=stands_at(Gate(), says("never")))
    chats = [f"chat {n}" for n in range(4)]
    sent: list[MessageId] = []
    for life in range(6):
        gate, asked = Gate(), len(model.requests)
        model.otherwise = stands_at(gate, says("done"))
        process = await Process.start(tmp_path, agents(model, policy(turn_attempts_max=5)))
        if not sent:
            sent = [await process.runtime.send(chat, "hello") for chat in chats]
        await soon(asked_of(process.runtime, model, asked + (len(chats) if life < 2 else 1)))
        await process.kill()
    async with await Process.start(
        tmp_path, agents(ScriptedModel(otherwise=says("done")), policy(turn_attempts_max=5))
    ) as runtime:
        found = await settled(runtime, *sent)
        assert [one.state.value for one in found].count("answered") >= 3
        assert sum(one.attempt for one in found) == 4 * 2 + 4 + 3


async def test_a_turn_that_another_worker_ended_asks_the_model_nothing(tmp_path, monkeypatch, caplog):
    """A worker that slept finds its turn over, and perhaps undone, so that nothing is left to show a model."""
    model = ScriptedModel()
    async with await Process.start(tmp_path, agents(model)) as runtime:
        claim = verb_on(runtime.db, claim_work)

        async def over(*args, **kwargs):
            claimed = await claim(*args, **kwargs)
            return tuple(replace(one, context=replace(one.context, open_turn=None, entries=())) for one in claimed)

        replace_verb(monkeypatch, runtime.db, claim_work, over)
        caplog.set_level(logging.INFO, logger="holdfast")
        await runtime.send("c", "hello")
        await soon(until(lambda: model.asked or "claim.lost" in caplog.messages))
    assert model.asked == []
