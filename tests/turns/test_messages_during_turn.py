"""Messages that arrive while a turn runs follow the policy, none is dropped, and signals reach the turn at once.

Rules: D10, R35.
"""

import asyncio

import pytest

from holdfast.inbox.mailbox_sql import read_mail
from holdfast.kernel.errors import StoreUnavailable
from holdfast.turns import turn_run
from holdfast.turns.policy import Arrivals
from tests.support.fakes import (
    Gate,
    Process,
    ScriptedModel,
    agents,
    calls,
    happened,
    kinds,
    policy,
    said,
    says,
    settled,
    small,
    soon,
    stands_at,
    states,
    the_session,
)
from tests.support.ports import replace_verb, verb_on


async def send(runtime, *texts: str, sender: str = "user"):
    return [await runtime.send("c", text, sender=sender) for text in texts]


def last_words(model: ScriptedModel) -> list[list[str]]:
    """What people had said, as each request showed it."""
    return [[message.content for message in request if message.role == "user"] for request in model.requests]


# --- queue -----------------------------------------------------------------------------------------


async def test_queue_gives_each_arrival_its_own_turn_in_order(tmp_path):
    model = ScriptedModel(stands_at(gate := Gate(), says("re: a")))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        messages = await send(runtime, "a")
        await gate.arrival()
        messages += await send(runtime, "b", "c", "d")
        gate.open()
        traces = await settled(runtime, *messages)
        assert [trace.turn for trace in traces] == [1, 2, 3, 4]
        assert [trace.reply and trace.reply.text for trace in traces] == ["re: a", "re: b", "re: c", "re: d"]
        assert last_words(model) == [["a"], ["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"]]


async def test_one_chat_that_waits_for_its_model_delays_no_other(tmp_path):
    model = ScriptedModel(stands_at(gate := Gate(), says("slow")))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        slow = await runtime.send("slow", "a")
        await gate.arrival()
        assert await soon(runtime.ask("quick", "b")) == "re: b"
        gate.open()
        assert await soon(runtime.reply_to(slow)) == "slow"


async def test_more_chats_than_turns_at_a_time_are_all_served(tmp_path):
    async with await Process.start(tmp_path, agents(ScriptedModel()), turns_max=2) as runtime:
        messages = [await runtime.send(f"chat {n}", f"hello {n}") for n in range(9)]
        assert await states(runtime, *messages) == ["answered"] * 9


# --- collect ---------------------------------------------------------------------------------------


async def test_collect_answers_what_waits_together_in_one_turn(tmp_path):
    model = ScriptedModel(stands_at(gate := Gate(), says("first")))
    async with await Process.start(tmp_path, agents(model, policy(arrivals=Arrivals.COLLECT))) as runtime:
        messages = await send(runtime, "a")
        await gate.arrival()
        messages += await send(runtime, "b", "c")
        messages += await send(runtime, "d", sender="somebody else")
        messages += await send(runtime, "/title x", "e")
        gate.open()
        traces = await settled(runtime, *messages)
        assert [trace.turn for trace in traces] == [1, 2, 2, 3, None, 4]
        assert [trace.reply and trace.reply.text for trace in traces[1:3]] == ["re: c", "re: c"]
        assert last_words(model)[1] == ["a", "b", "c"]
        assert await said(runtime, traces[0].session) == ["a", "b", "c", "d", "e"]


# --- steer -----------------------------------------------------------------------------------------


async def test_steer_lets_arrivals_join_the_running_turn_at_its_next_step(tmp_path):
    gate = Gate()

    async def look() -> str:
        await gate.stand()
        return "seen"

    model = ScriptedModel(calls("look"), says("all of it"))
    async with await Process.start(tmp_path, agents(model, policy(arrivals=Arrivals.STEER), tools=[look])) as runtime:
        messages = await send(runtime, "a")
        await gate.arrival()
        messages += await send(runtime, "b", "c")
        gate.open()
        traces = await settled(runtime, *messages)
        assert [trace.turn for trace in traces] == [1, 1, 1]
        assert {trace.reply and trace.reply.text for trace in traces} == {"all of it"}
        assert [message.role for message in model.requests[1]] == ["user", "assistant", "tool", "user", "user"]
        assert await kinds(runtime, traces[0].session) == [
            *("user", "assistant", "tool_started", "tool", "user", "user", "assistant"),
        ]


@pytest.mark.parametrize(("text", "sender"), [("/title x", "user"), ("b", "somebody else")])
async def test_steer_takes_only_the_unbroken_run_of_the_same_person(text, sender, tmp_path):
    gate = Gate()

    async def look() -> str:
        await gate.stand()
        return "seen"

    model = ScriptedModel(calls("look"), says("first"))
    async with await Process.start(tmp_path, agents(model, policy(arrivals=Arrivals.STEER), tools=[look])) as runtime:
        messages = await send(runtime, "a")
        await gate.arrival()
        messages += await send(runtime, "joins")
        messages += await send(runtime, text, sender=sender)
        messages += await send(runtime, "waits")
        gate.open()
        traces = await settled(runtime, *messages)
        assert [trace.turn for trace in traces[:2]] == [1, 1]
        assert traces[3].turn is not None
        assert traces[3].turn > 1
        assert last_words(model)[1] == ["a", "joins"]


async def test_a_message_that_comes_with_the_last_step_is_not_lost_to_steering(tmp_path):
    model = ScriptedModel(stands_at(gate := Gate(), says("first")))
    async with await Process.start(tmp_path, agents(model, policy(arrivals=Arrivals.STEER))) as runtime:
        messages = await send(runtime, "a")
        await gate.arrival()
        messages += await send(runtime, "b")
        gate.open()
        traces = await settled(runtime, *messages)
        assert [(trace.turn, trace.reply and trace.reply.text) for trace in traces] == [(1, "first"), (2, "re: b")]


async def test_joining_is_no_step_of_the_model(tmp_path):
    """However many join, only the model's own steps count against the limit."""
    gates = [Gate() for _ in range(3)]
    waiting = list(gates)

    async def look() -> str:
        await waiting.pop(0).stand()
        return "seen"

    chosen = policy(arrivals=Arrivals.STEER, steps_max=4)
    model = ScriptedModel(calls("look"), calls("look"), calls("look"), says("done"))
    async with await Process.start(tmp_path, agents(model, chosen, tools=[look])) as runtime:
        messages = await send(runtime, "a")
        for n, gate in enumerate(gates):
            await gate.arrival()
            messages += await send(runtime, f"more {n}")
            gate.open()
        assert await states(runtime, *messages) == ["answered"] * 4


# --- interrupt -------------------------------------------------------------------------------------


async def test_interrupt_ends_the_running_turn_and_answers_the_new_message(tmp_path):
    model = ScriptedModel(stands_at(gate := Gate(), says("never"), after="I was say"))
    async with await Process.start(tmp_path, agents(model, policy(arrivals=Arrivals.INTERRUPT))) as runtime:
        (first,) = await send(runtime, "a")
        await gate.arrival()
        (second,) = await send(runtime, "b")
        interrupted, answered = await settled(runtime, first, second)
        assert (interrupted.state.value, answered.state.value) == ("interrupted", "answered")
        assert interrupted.reply is not None
        assert interrupted.reply.text == "I was say", "what was seen is what is kept"
        assert "another message came in" in (interrupted.reason or "")
        await soon(gate.left.wait())
        roles = [(message.role, message.content) for message in model.requests[1]]
        assert roles[:2] == [("user", "a"), ("assistant", "I was say")]
        assert roles[2][0] == "system"
        assert roles[3] == ("user", "b")


async def test_a_command_does_not_interrupt(tmp_path):
    model = ScriptedModel(stands_at(gate := Gate(), says("first")))
    async with await Process.start(tmp_path, agents(model, policy(arrivals=Arrivals.INTERRUPT))) as runtime:
        (first,) = await send(runtime, "a")
        await gate.arrival()
        (command,) = await send(runtime, "/title x")
        gate.open()
        assert await states(runtime, first, command) == ["answered", "command"]


# --- signals ---------------------------------------------------------------------------------------


async def test_stop_ends_a_turn_while_the_model_thinks(tmp_path):
    model = ScriptedModel(stands_at(gate := Gate(), says("never"), after="half"))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        first, waiting = await send(runtime, "a", "b")
        await gate.arrival()
        assert await soon(runtime.ask("c", "/stop", sender="user")) == "Stopping turn 1."
        stopped, answered = await settled(runtime, first, waiting)
        assert stopped.reply is not None
        assert (stopped.state.value, stopped.reply.text) == ("interrupted", "half")
        assert answered.state.value == "answered", "only the running turn was stopped"
        await soon(gate.left.wait())


async def test_stop_before_the_first_word_is_told_in_words(tmp_path):
    model = ScriptedModel(stands_at(gate := Gate(), says("never said"), after=" \n"))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        (message,) = await send(runtime, "hello")
        await gate.arrival()
        await soon(runtime.ask("c", "/stop", sender="user"))
        (trace,) = await settled(runtime, message)
        assert trace.reply is not None
        assert trace.reply.text == "Interrupted (stopped by /stop)."
        assert await kinds(runtime, await the_session(runtime)) == ["user", "notice"]


async def test_stop_ends_a_turn_while_a_tool_runs_and_its_outcome_is_unknown(tmp_path):
    gate = Gate()

    async def pay() -> str:
        await gate.stand()
        return "paid"

    model = ScriptedModel(calls("pay", "pay"))
    async with await Process.start(tmp_path, agents(model, tools=[pay])) as runtime:
        (first,) = await send(runtime, "a")
        await gate.arrival()
        await soon(runtime.ask("c", "/stop", sender="user"))
        assert await states(runtime, first) == ["interrupted"]
        await soon(gate.left.wait())
        await soon(runtime.ask("c", "b"))
        told = [message.content for message in model.requests[-1] if message.role == "tool"]
        assert "outcome of this call is unknown" in told[0]
        assert "was not run" in told[1]
        calls_shown = [call.id for message in model.requests[-1] for call in message.calls]
        assert calls_shown == [message.call for message in model.requests[-1] if message.role == "tool"]


async def test_stop_ends_a_turn_that_waits_for_a_summary(tmp_path):
    model = ScriptedModel(summary=stands_at(gate := Gate(), says("late")))
    async with await Process.start(tmp_path, agents(model, policy(thresholds=small(soft=0.79)))) as runtime:
        await soon(runtime.ask("c", "a" * 500))
        (second,) = await send(runtime, "b" * 900)
        await gate.arrival()
        await soon(runtime.ask("c", "/stop", sender="user"))
        assert await states(runtime, second) == ["interrupted"]
        feed = runtime.events()
        gate.open()
        await happened(feed, "compress.done", outcome="done")
        assert await soon(runtime.ask("c", "/compress")) != "", "nothing is left open behind the stopped turn"


async def test_stop_from_another_process_ends_the_turn(tmp_path):
    model = ScriptedModel(stands_at(gate := Gate(), says("never"), after="half"))
    async with await Process.start(tmp_path, agents(model)) as serving:
        (first,) = await send(serving, "a")
        await gate.arrival()
        async with await Process.start(tmp_path, agents(ScriptedModel()), serve=False) as visiting:
            assert await soon(visiting.ask("c", "/stop", sender="user")) == "Stopping turn 1."
            assert await states(visiting, first) == ["interrupted"]


async def test_a_store_that_is_away_for_one_look_cuts_no_tool_off(tmp_path, monkeypatch):
    monkeypatch.setattr(turn_run, "LOOK_EVERY_MS", 10)
    gate, away = Gate(), asyncio.Event()

    async def pay() -> str:
        await gate.stand()
        return "paid"

    async def fails_once(claim, *, limit):
        if away.is_set():
            return await look(claim, limit=limit)
        away.set()
        raise StoreUnavailable("the store did not answer")

    model = ScriptedModel(calls("pay"), says("done"))
    async with await Process.start(tmp_path, agents(model, tools=[pay])) as runtime:
        (message,) = await send(runtime, "pay him")
        await gate.arrival()
        look = verb_on(runtime.db, read_mail, reads=True)
        replace_verb(monkeypatch, runtime.db, read_mail, fails_once)
        await soon(away.wait())
        gate.open()
        (trace,) = await settled(runtime, message)
        assert (trace.state.value, trace.attempt) == ("answered", 1)
        assert [one.content for one in model.requests[-1] if one.role == "tool"] == ["paid"]


async def test_stop_when_nothing_runs_says_so(tmp_path):
    async with await Process.start(tmp_path, agents(ScriptedModel())) as runtime:
        assert await soon(runtime.ask("c", "/stop", sender="user")) == "Nothing is running."
        await soon(runtime.ask("c", "a"))
        assert await soon(runtime.ask("c", "/stop", sender="user")) == "Nothing is running."


async def test_stop_after_a_kill_ends_the_turn_instead_of_resuming_it(tmp_path):
    before = await Process.start(tmp_path, agents(ScriptedModel(stands_at(gate := Gate(), says("x")))))
    (first,) = await send(before.runtime, "a")
    await gate.arrival()
    await before.kill()
    async with await Process.start(tmp_path, agents(ScriptedModel()), serve=False) as visiting:
        await soon(visiting.ask("c", "/stop", sender="user"))
    model = ScriptedModel()
    async with await Process.start(tmp_path, agents(model)) as runtime:
        assert await states(runtime, first) == ["interrupted"]
        assert model.requests == []


async def test_status_is_answered_at_once_while_everything_else_waits(tmp_path):
    model = ScriptedModel(stands_at(gate := Gate(), says("first")))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        await send(runtime, "a", "b")
        await gate.arrival()
        answer = await soon(runtime.ask("c", "/status"))
        session = await the_session(runtime)
        assert answer == f"Turn 1 is thinking (attempt 1). 1 message waiting. Session: {session}."
        (trace,) = await settled(runtime, await runtime.send("c", "/status", id="s"))
        assert (trace.state.value, trace.queued_behind, trace.turn) == ("command", 0, None)
        assert await kinds(runtime, session) == ["user"], "signals are not part of the conversation"
        gate.open()
