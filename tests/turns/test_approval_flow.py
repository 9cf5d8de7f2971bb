"""A dangerous call runs once, and only after a human's yes, through every crash; nothing is blocked meanwhile."""

import re
from dataclasses import replace

import pytest

from holdfast.kernel.ids import ApprovalId
from holdfast.sessions.history_sql import find_mailbox
from holdfast.tools.toolbox import ToolBox
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.approval import Decision
from holdfast.turns.policy import ApprovalPolicy, Arrivals
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

WISH = 'pay {"amount": 3}'


class Till:
    """A dangerous tool: it takes money."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.gate: Gate | None = None
        self.pay.__func__.dangerous = True  # type: ignore[attr-defined]

    async def pay(self, amount: int = 1) -> str:
        """Pay somebody."""
        self.paid.append(amount)
        if self.gate is not None:
            await self.gate.stand()
        return f"paid {amount}"


def guarded(arrivals: Arrivals = Arrivals.QUEUE, **approval):
    return replace(policy(arrivals=arrivals), approval=ApprovalPolicy(**approval))


async def asked(feed) -> str:
    """The id of the approval that the next question names."""
    event = await happened(feed, "turn.asked")
    found = re.search(r"Answer /approve (\w{6}) or /deny \1\.", event.text)
    assert found is not None, event.text
    return found[1]


async def told(runtime, text: str, **more) -> str:
    return await soon(runtime.ask("c", text, **more))


async def test_a_dangerous_call_waits_for_its_yes_and_then_runs_once(tmp_path):
    till = Till()
    model = ScriptedModel(calls(WISH), says("done"))
    async with await Process.start(tmp_path, agents(model, tools=[till.pay])) as runtime:
        feed = runtime.events()
        message = await runtime.send("c", "pay him")
        approval = await asked(feed)
        trace = await runtime.trace(message)
        assert (trace.phase, till.paid) == ("awaiting", [])
        assert trace.reply is not None
        assert trace.reply.text.startswith('main wants to use `pay`: `{"amount": 3}`')
        assert await told(runtime, f"/approve {approval.lower()}") == f"Approved: pay ({approval}) runs once."
        assert await soon(runtime.reply_to(message)) == "done"
        assert till.paid == [3]
        session = await the_session(runtime)
        assert await kinds(runtime, session) == ["user", "assistant", "tool_started", "tool", "assistant"]


async def test_a_waiting_turn_holds_no_claim_and_does_not_spin(tmp_path):
    till = Till()
    model = ScriptedModel(calls(WISH), says("done"))
    async with await Process.start(tmp_path, agents(model, tools=[till.pay])) as runtime:
        feed = runtime.events()
        await runtime.send("c", "pay him")
        approval = await asked(feed)
        later = await runtime.send("c", "and then?")
        assert await told(runtime, "hello", agent="other") == "done", "other mailboxes go on"
        box = await runtime.db.read(find_mailbox("agent:main:http:dm:c"))
        assert box is not None
        assert (box.owner, box.depth) == (None, 2)
        assert "is awaiting" in await told(runtime, "/status")
        await told(runtime, "still there?", agent="other")
        later_box = await runtime.db.read(find_mailbox("agent:main:http:dm:c"))
        assert later_box is not None
        assert later_box.fence == box.fence, "no worker claimed it in vain"
        await told(runtime, f"/deny {approval} not today")
        assert await soon(runtime.reply_to(later)) == "re: and then?"


async def test_a_denial_and_its_reason_are_told_to_the_model_which_goes_on(tmp_path):
    till = Till()
    model = ScriptedModel(calls(WISH, "pay"), says("so be it"))
    async with await Process.start(tmp_path, agents(model, tools=[till.pay])) as runtime:
        feed = runtime.events()
        message = await runtime.send("c", "pay both")
        await told(runtime, f"/deny {await asked(feed)} far too much")
        await told(runtime, f"/approve {await asked(feed)}")
        assert await soon(runtime.reply_to(message)) == "so be it"
        results = [one.content for one in model.requests[-1] if one.role == "tool"]
        assert results[0].startswith('This call was not run: a person denied it. They said: "far too much". Do not')
        assert results[1] == "paid 1"
        assert till.paid == [1]


async def test_an_approval_without_an_answer_in_time_is_denied(tmp_path):
    till = Till()
    model = ScriptedModel(calls(WISH), says("nobody there"))
    async with await Process.start(tmp_path, agents(model, guarded(wait_ms=1), tools=[till.pay])) as runtime:
        assert await told(runtime, "pay him") == "nobody there"
        assert "nobody approved it in time" in model.requests[-1][-1].content
        assert till.paid == []


async def test_a_model_that_never_takes_no_for_an_answer_ends_its_turn(tmp_path):
    till = Till()
    insists = ScriptedModel(*[calls(WISH)] * 9, says("at last"))
    few = replace(guarded(wait_ms=1), turn=replace(policy().turn, steps_max=3))
    async with await Process.start(tmp_path, agents(insists, few, tools=[till.pay])) as runtime:
        assert "asked for tools 3 times without answering" in await told(runtime, "pay him")
        assert (len(insists.requests), till.paid) == (3, [])


async def test_a_dangerous_tool_that_appears_while_its_call_begins_is_not_run_without_a_yes(tmp_path):
    till = Till()

    class Coming(ToolBox):
        """It has its tools from the moment on at which it was said that there is none."""

        def specs(self, agent):
            return super().specs(agent) if self.asked_in_vain else ()

        def needs_approval(self, agent, name):
            self.asked_in_vain, was_there = True, self.asked_in_vain
            return was_there and super().needs_approval(agent, name)

        asked_in_vain = False

    box = Coming()
    box.add(till.pay)
    model = ScriptedModel(calls(WISH), calls(WISH), says("done"))
    who = Agents(Agent(policy=policy(), model=model, summariser=model, tools=box))
    async with await Process.start(tmp_path, who) as runtime:
        feed = runtime.events()
        message = await runtime.send("c", "pay him")
        approval = await asked(feed)
        assert till.paid == []
        assert "was not run" in model.requests[-1][-1].content
        await told(runtime, f"/approve {approval}")
        assert await soon(runtime.reply_to(message)) == "done"
        assert till.paid == [3]


async def test_the_policy_may_guard_tools_that_are_not_marked_but_not_tools_that_do_not_exist(tmp_path):
    def look() -> str:
        return "seen"

    model = ScriptedModel(calls("fly", "look"), says("done"))
    async with await Process.start(tmp_path, agents(model, guarded(tools=frozenset({"*"})), tools=[look])) as runtime:
        feed = runtime.events()
        message = await runtime.send("c", "go")
        await told(runtime, f"/approve {await asked(feed)}")
        assert await soon(runtime.reply_to(message)) == "done"
        assert [one.content for one in model.requests[-1] if one.role == "tool"][1] == "seen"
        assert len(await runtime.approvals.list(decided=True)) == 1, "an unknown tool needs no approval"


@pytest.mark.parametrize("when", ["before the decision", "after the decision"])
async def test_a_kill_while_it_waits_loses_neither_the_question_nor_the_answer(when, tmp_path):
    till = Till()
    before = await Process.start(tmp_path, agents(ScriptedModel(calls(WISH)), tools=[till.pay]))
    feed = before.runtime.events()
    message = await before.runtime.send("c", "pay him")
    approval = await asked(feed)
    if when == "before the decision":
        await before.kill()
    else:
        visitor = await Process.start(tmp_path, agents(ScriptedModel()), serve=False)
        await before.kill()
        async with visitor as runtime:
            await told(runtime, f"/approve {approval}")
    async with await Process.start(tmp_path, agents(ScriptedModel(says("done")), tools=[till.pay])) as runtime:
        if when == "before the decision":
            assert till.paid == []
            await told(runtime, f"/approve {approval}")
        (trace,) = await settled(runtime, message)
        assert (trace.state.value, trace.attempt, till.paid) == ("answered", 1, [3])


async def test_a_kill_after_the_approved_call_began_is_an_unknown_outcome_and_not_a_second_call(tmp_path):
    till = Till()
    till.gate = Gate()
    before = await Process.start(tmp_path, agents(ScriptedModel(calls(WISH)), tools=[till.pay]))
    feed = before.runtime.events()
    message = await before.runtime.send("c", "pay him")
    await told(before.runtime, f"/approve {await asked(feed)}")
    await till.gate.arrival()
    await before.kill()
    till.gate = None
    model = ScriptedModel(says("perhaps"))
    async with await Process.start(tmp_path, agents(model, tools=[till.pay])) as runtime:
        assert await soon(runtime.reply_to(message)) == "perhaps"
        assert till.paid == [3]
        assert "outcome of this call is unknown" in model.requests[-1][-1].content


async def test_stop_ends_a_turn_that_waits_and_a_late_yes_is_told_so(tmp_path):
    till = Till()
    async with await Process.start(tmp_path, agents(ScriptedModel(calls(WISH)), tools=[till.pay])) as runtime:
        feed = runtime.events()
        message = await runtime.send("c", "pay him")
        approval = await asked(feed)
        await told(runtime, "/stop")
        (trace,) = await settled(runtime, message)
        assert trace.state.value == "interrupted"
        assert await told(runtime, f"/approve {approval}") == f"{approval} (pay) is over: its turn has ended."
        assert till.paid == []
        assert await told(runtime, "and now?") == "re: and now?"


@pytest.mark.parametrize(
    ("arrivals", "state"),
    [(Arrivals.INTERRUPT, "interrupted"), (Arrivals.STEER, "answered")],
    ids=["interrupt", "steer"],
)
async def test_mail_that_comes_meanwhile_interrupts_or_joins_as_the_policy_says(arrivals, state, tmp_path):
    till = Till()
    model = ScriptedModel(calls(WISH))
    async with await Process.start(tmp_path, agents(model, guarded(arrivals), tools=[till.pay])) as runtime:
        feed = runtime.events()
        message = await runtime.send("c", "pay him")
        approval = await asked(feed)
        later = await runtime.send("c", "never mind")
        if arrivals is Arrivals.STEER:
            await told(runtime, f"/deny {approval}")
        traces = await settled(runtime, message, later)
        assert [trace.state.value for trace in traces] == [state, "answered"]
        assert (traces[0].turn == traces[1].turn) == (arrivals is Arrivals.STEER)
        assert till.paid == []


async def test_an_operator_decides_from_another_process(tmp_path):
    till = Till()
    model = ScriptedModel(calls(WISH), says("done"))
    async with await Process.start(tmp_path, agents(model, tools=[till.pay])) as runtime:
        feed = runtime.events()
        message = await runtime.send("c", "pay him")
        await asked(feed)
        visitor = await Process.start(tmp_path, agents(ScriptedModel()), serve=False)
        async with visitor as beside:
            (view,) = await beside.approvals.list()
            assert (view.tool, view.arguments) == ("pay", '{"amount": 3}')
            decided = await beside.approvals.decide(ApprovalId(view.id.lower()), Decision.APPROVED, by="operator")
            assert decided.decided_by == "operator"
        assert await soon(runtime.reply_to(message)) == "done"
        assert till.paid == [3]


async def test_many_approvals_in_one_turn_do_not_use_up_its_attempts(tmp_path):
    till = Till()
    model = ScriptedModel(*[calls(WISH)] * 7, says("done"))
    async with await Process.start(tmp_path, agents(model, tools=[till.pay])) as runtime:
        feed = runtime.events()
        message = await runtime.send("c", "pay him often")
        for _ in range(7):
            await told(runtime, f"/approve {await asked(feed)}")
        (trace,) = await settled(runtime, message)
        assert (trace.state.value, trace.attempt, len(till.paid)) == ("answered", 1, 7)


async def test_words_that_are_forgotten_end_the_turn_that_waits_with_them(tmp_path):
    till = Till()
    model = ScriptedModel(calls(WISH), stands_at(Gate(), says("never")))
    async with await Process.start(tmp_path, agents(model, tools=[till.pay])) as runtime:
        feed = runtime.events()
        await runtime.send("c", "pay him")
        approval = await asked(feed)
        await runtime.forget(session=await the_session(runtime))
        assert (await told(runtime, f"/approve {approval}")).endswith("its turn has ended.")
        (view,) = await runtime.approvals.list(decided=True)
        assert (view.decision, view.arguments, till.paid) == (Decision.VOID, "", [])


@pytest.mark.parametrize("beside", [False, True], ids=["where it is served", "beside the process that serves"])
async def test_a_client_that_streams_the_reply_gets_the_question_and_then_the_answer(beside, tmp_path):
    till = Till()
    model = ScriptedModel(calls(WISH, text="let me pay"), says("done"))
    async with await Process.start(tmp_path, agents(model, tools=[till.pay])) as runtime:
        db = runtime
        if beside:
            db = (await Process.start(tmp_path, agents(ScriptedModel()), serve=False)).runtime
        heard = ""
        async for delta in db.stream("c", "pay him"):
            heard = delta.text if delta.restarted else heard + delta.text
            found = re.search(r"Answer /approve (\w{6}) or", heard)
            if found is not None:
                await told(runtime, f"/approve {found[1]}")
        assert heard == "done"
        if beside:
            await db.close()
