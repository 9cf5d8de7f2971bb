"""Tools: every start is durable before it happens, and a call of unknown outcome is reported, never repeated."""

import asyncio

import pytest

from holdfast.kernel.ids import AgentName
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.journal import ToolReturned
from holdfast.turns.model import ToolSpec
from holdfast.turns.tool import ToolContext, ToolOutcome
from holdfast.turns.work_sql import take_step
from tests.support.fakes import (
    Gate,
    Process,
    ScriptedModel,
    agents,
    calls,
    happened,
    kinds,
    policy,
    says,
    settled,
    soon,
    stands_at,
    the_session,
)
from tests.support.ports import replace_verb, verb_on


class Till:
    """A tool that takes money: its effect happens before the world hears of it."""

    def __init__(self, *, idempotent: bool = False) -> None:
        self.paid: list[int] = []
        self.gate: Gate | None = Gate()
        self.pay.__func__.idempotent = idempotent  # type: ignore[attr-defined]

    async def pay(self, amount: int = 1) -> str:
        """Pay somebody."""
        self.paid.append(amount)
        if self.gate is not None:
            await self.gate.stand()
        return f"paid {amount}"


async def results(runtime, session) -> list[tuple[str, str]]:
    found = [view.entry.body for view in await runtime.history(session)]
    return [(body.name, body.outcome) for body in found if isinstance(body, ToolReturned)]


async def test_each_step_is_durable_before_the_next_is_taken(tmp_path):
    till = Till()
    model = ScriptedModel(calls('pay {"amount": 3}', text="paying"), stands_at(thinking := Gate(), says("done")))
    async with await Process.start(tmp_path, agents(model, tools=[till.pay])) as runtime:
        message = await runtime.send("c", "pay him")
        assert till.gate is not None
        await till.gate.arrival()
        session = await the_session(runtime)
        assert await kinds(runtime, session) == ["user", "assistant", "tool_started"]
        assert (await runtime.trace(message)).phase == "acting"
        till.gate.open()
        await thinking.arrival()
        assert await kinds(runtime, session) == ["user", "assistant", "tool_started", "tool"]
        assert (await runtime.trace(message)).phase == "thinking"
        thinking.open()
        assert await soon(runtime.reply_to(message)) == "done"
        assert [entry.entry.text for entry in await runtime.history(session)] == [
            "pay him",
            "paying",
            "",
            "paid 3",
            "done",
        ]


async def test_the_model_sees_each_call_with_its_result(tmp_path):
    till = Till()
    till.gate = None
    model = ScriptedModel(calls('pay {"amount": 1}', 'pay {"amount": 2}'), says("done"))
    async with await Process.start(tmp_path, agents(model, tools=[till.pay])) as runtime:
        await soon(runtime.ask("c", "pay both"))
        last = model.requests[-1]
        assert [message.role for message in last] == ["user", "assistant", "tool", "tool"]
        assert [call.id for call in last[1].calls] == [message.call for message in last[2:]]
        assert [message.content for message in last[2:]] == ["paid 1", "paid 2"]
        assert till.paid == [1, 2]


async def test_a_call_of_unknown_outcome_is_reported_to_the_model_and_not_repeated(tmp_path):
    till = Till()
    wish = calls('pay {"amount": 3}', 'pay {"amount": 4}')
    before = await Process.start(tmp_path, agents(ScriptedModel(wish), tools=[till.pay]))
    message = await before.runtime.send("c", "pay him")
    assert till.gate is not None
    await till.gate.arrival()
    await before.kill()
    till.gate = None
    model = ScriptedModel(says("I am not sure about the first"))
    async with await Process.start(tmp_path, agents(model, tools=[till.pay])) as runtime:
        (trace,) = await settled(runtime, message)
        assert trace.state.value == "answered"
        assert till.paid == [3, 4], "the first was not repeated; the second had never begun and was run"
        assert await results(runtime, trace.session) == [("pay", "unknown"), ("pay", "ok")]
        (request,) = model.requests
        assert "outcome of this call is unknown" in request[2].content
        assert request[3].content == "paid 4"


async def test_an_idempotent_call_of_unknown_outcome_is_repeated(tmp_path):
    till = Till(idempotent=True)
    before = await Process.start(tmp_path, agents(ScriptedModel(calls('pay {"amount": 3}')), tools=[till.pay]))
    message = await before.runtime.send("c", "pay him")
    assert till.gate is not None
    await till.gate.arrival()
    await before.kill()
    till.gate = None
    async with await Process.start(tmp_path, agents(ScriptedModel(says("done")), tools=[till.pay])) as runtime:
        (trace,) = await settled(runtime, message)
        assert till.paid == [3, 3]
        assert await results(runtime, trace.session) == [("pay", "ok")]
        assert await kinds(runtime, trace.session) == ["user", "assistant", "tool_started", "tool", "assistant"]


async def test_a_turn_killed_after_a_result_goes_on_from_it(tmp_path):
    till = Till()
    till.gate = None
    model = ScriptedModel(calls("pay"), stands_at(thinking := Gate(), says("x")))
    before = await Process.start(tmp_path, agents(model, tools=[till.pay]))
    message = await before.runtime.send("c", "pay him")
    await thinking.arrival()
    await before.kill()
    after = ScriptedModel(says("done"))
    async with await Process.start(tmp_path, agents(after, tools=[till.pay])) as runtime:
        assert await soon(runtime.reply_to(message)) == "done"
        assert till.paid == [1]
        assert after.requests == [model.requests[-1]]


async def test_a_call_that_was_wished_for_and_never_began_is_run_after_the_kill(tmp_path, monkeypatch):
    till = Till()
    till.gate = None
    before = await Process.start(tmp_path, agents(ScriptedModel(calls("pay")), tools=[till.pay]))
    db, gate = before.runtime.db, Gate()
    append = verb_on(db, take_step)

    async def appending(claim, turn, step, known):
        if step.entries[0].kind == "tool_started":
            await gate.stand()
        return await append(claim, turn, step, known)

    replace_verb(monkeypatch, db, take_step, appending)
    message = await before.runtime.send("c", "pay him")
    await gate.arrival()
    assert till.paid == [], "nothing is done before it is written that it will be done"
    await before.kill()
    async with await Process.start(tmp_path, agents(ScriptedModel(says("done")), tools=[till.pay])) as runtime:
        assert await soon(runtime.reply_to(message)) == "done"
        assert till.paid == [1]


async def test_a_tool_that_raises_is_told_to_the_model(tmp_path):
    def fall() -> str:
        raise ValueError("no ground")

    model = ScriptedModel(calls("fall"), says("it fell"))
    async with await Process.start(tmp_path, agents(model, tools=[fall])) as runtime:
        assert await soon(runtime.ask("c", "fall")) == "it fell"
        assert "no ground" in model.requests[-1][-1].content
        assert await results(runtime, await the_session(runtime)) == [("fall", "error")]


async def test_a_tool_that_never_returns_is_cut_off_and_of_unknown_outcome(tmp_path):
    till = Till()
    model = ScriptedModel(calls("pay"), says("maybe"))
    async with await Process.start(tmp_path, agents(model, policy(tool_wait_ms=20), tools=[till.pay])) as runtime:
        assert await soon(runtime.ask("c", "pay")) == "maybe"
        assert "did not answer within 20 ms" in model.requests[-1][-1].content
        assert "may or may not have taken effect" in model.requests[-1][-1].content
        assert await results(runtime, await the_session(runtime)) == [("pay", "unknown")]


@pytest.mark.parametrize("failing", ["cancels itself", "half a character"])
async def test_a_tool_that_misbehaves_blocks_nothing(failing, tmp_path):
    async def odd() -> str:
        if failing == "cancels itself":
            raise asyncio.CancelledError
        return "smile \ud83d"

    model = ScriptedModel(calls("odd"), says("odd indeed"))
    async with await Process.start(tmp_path, agents(model, tools=[odd])) as runtime:
        (trace,) = await settled(runtime, await runtime.send("c", "try"))
        assert trace.reply is not None
        assert (trace.reply.text, trace.attempt) == ("odd indeed", 1)
        expected = {"cancels itself": "unknown", "half a character": "ok"}[failing]
        assert await results(runtime, await the_session(runtime)) == [("odd", expected)]


class Foreign:
    """A `Tools` of somebody else, which does not keep the port's promise."""

    def __init__(self, *outcomes: ToolOutcome | Exception) -> None:
        self.outcomes = list(outcomes)

    def specs(self, agent: AgentName) -> tuple[ToolSpec, ...]:
        return ()

    def is_idempotent(self, name: str) -> bool:
        return False

    def needs_approval(self, agent: AgentName, name: str) -> bool:
        return False

    async def call(self, name: str, arguments: str, context: ToolContext) -> ToolOutcome:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def test_tools_of_somebody_else_may_return_what_cannot_be_stored_or_raise(tmp_path):
    model = ScriptedModel(calls("any"), calls("any"), says("done"))
    foreign = Foreign(ToolOutcome("smile \ud83d"), LookupError("a bug of theirs"))
    who = Agents(Agent(policy=policy(), model=model, summariser=model, tools=foreign))
    async with await Process.start(tmp_path, who) as runtime:
        (trace,) = await settled(runtime, await runtime.send("c", "try"))
        assert (trace.state.value, trace.attempt) == ("answered", 2)
        told = [message.content for message in model.requests[-1] if message.role == "tool"]
        assert told[0] == "smile ?"
        assert "outcome of this call is unknown" in told[1], "it raised after it began, so the outcome is unknown"


async def test_an_unknown_tool_and_unusable_arguments_are_reported_to_the_model(tmp_path):
    till = Till()
    till.gate = None
    model = ScriptedModel(calls("fly"), calls('pay {"amount": "much"}'), calls("pay {not json"), says("I give up"))
    async with await Process.start(tmp_path, agents(model, tools=[till.pay])) as runtime:
        assert await soon(runtime.ask("c", "try")) == "I give up"
        told = [message.content for message in model.requests[-1] if message.role == "tool"]
        assert "There is no tool 'fly'" in told[0]
        assert all("not usable" in text for text in told[1:])
        assert till.paid == []


async def test_a_model_that_only_ever_calls_tools_ends_as_failed(tmp_path):
    till = Till()
    till.gate = None
    model = ScriptedModel(otherwise=calls("pay"))
    async with await Process.start(tmp_path, agents(model, policy(steps_max=3), tools=[till.pay])) as runtime:
        (trace,) = await settled(runtime, await runtime.send("c", "go"))
        assert trace.state.value == "failed"
        assert "asked for tools 3 times" in (trace.reason or "")
        assert len(till.paid) == 3


async def test_tools_of_one_answer_are_announced_one_by_one(tmp_path):
    till = Till()
    till.gate = None
    model = ScriptedModel(calls("pay", "pay"), says("done"))
    async with await Process.start(tmp_path, agents(model, tools=[till.pay])) as runtime:
        feed = runtime.events()
        await runtime.send("c", "go")
        for name in ("turn.opened", "turn.called", "turn.stepped", "turn.stepped", "turn.returned", "turn.answered"):
            await happened(feed, name)
