"""A turn with a vendor's model, whole: tools, a killed process, fallbacks, what it cost, and a day's limit."""

from dataclasses import replace

import pytest

import holdfast
from holdfast.inbox.channel_status import ConnectionState
from holdfast.inbox.message import MessageState
from holdfast.kernel.ids import AgentName
from holdfast.kernel.log import JsonLines
from holdfast.kernel.retry import RetryPolicy
from holdfast.runtime.app import make_agents
from holdfast.sessions.compression import Thresholds
from holdfast.sessions.history_sql import list_entries, list_operations
from holdfast.store.upkeep_sql import prove_write
from holdfast.testing import ManualClock
from holdfast.turns.journal import AssistantSaid
from holdfast.turns.policy import DAY_MS, AgentPolicy, TurnPolicy
from holdfast.turns.spend_sql import sum_spend_by_model, sum_spent
from tests.support.fakes import Process, kinds, settled, soon, the_session
from tests.support.model_asking import ENVIRONMENT
from tests.support.model_vendor import CANARY, KEY, FakeVendor, chat, chat_calls, claude, hangs, status, streams

QUICK = TurnPolicy(retry=RetryPolicy(delay_ms_base=1))
PRICES = {"input_usd_per_million": 100_000.0, "output_usd_per_million": 0.0}  # 12 tokens in: $1.20


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    for name, key in ENVIRONMENT.items():
        monkeypatch.setenv(name, key)


def policy_at(vendor, **more):
    daily = more.pop("daily_spend_micros", None)
    table = {"name": "openai:gpt-5.2", "base_url": f"{vendor.url}/v1", **more}
    return AgentPolicy(model=table, turn=QUICK, memory={}, daily_spend_micros=daily)


async def look(what: str) -> str:
    """Look something up."""
    return f"{what} is blue"


async def spoken(runtime, session):
    page = await runtime.db.read(list_entries(session))
    return [view.entry.body for view in page if isinstance(view.entry.body, AssistantSaid)]


async def test_a_turn_with_a_tool_is_streamed_journaled_and_paid_for(tmp_path):
    plays = [streams(chat_calls(("c1", "look", ['{"what": ', '"the sky"}']))), streams(chat("It ", "is blue."))]
    async with FakeVendor(plays) as vendor:
        async with holdfast.open(tmp_path, policy=policy_at(vendor, **PRICES), tools=[look]) as runtime:
            pieces = [delta.text async for delta in runtime.stream("c", "what colour?", id="1")]
            (trace,) = await settled(runtime, await runtime.send("c", "what colour?", id="1"))
            said = await spoken(runtime, trace.session)
            (spent,) = await runtime.db.read(sum_spend_by_model())
        assert vendor.asked[1].json["messages"][-1]["content"] == "the sky is blue"
        await vendor.quiet.wait()  # closed with the runtime
    assert "".join(pieces) == "It is blue."
    assert trace.reply is not None
    assert trace.reply.text == "It is blue."
    assert [body.model for body in said] == ["openai:gpt-5.2"] * 2
    assert (spent.agent, spent.task, spent.answers, spent.tokens_in, spent.cost_micros) == (
        "main",
        "reply",
        2,
        24,
        2_400_000,
    )


async def test_a_process_killed_while_the_model_answers_resumes_after_the_tool(tmp_path):
    plays = [streams(chat_calls(("c1", "look", ['{"what": "it"}']))), hangs, streams(chat("done"))]
    async with FakeVendor(plays) as vendor:
        who = make_agents(policy=policy_at(vendor), tools=[look])
        first = await Process.start(tmp_path, who)
        message = await first.runtime.send("c", "look it up", id="1")
        await soon(until(lambda: len(vendor.asked) == 2, first.runtime))
        await first.kill()
        await who.close()
        async with await Process.start(tmp_path, make_agents(policy=policy_at(vendor), tools=[look])) as runtime:
            (trace,) = await settled(runtime, message)
            assert await kinds(runtime, trace.session) == ["user", "assistant", "tool_started", "tool", "assistant"]
        assert [one["role"] for one in vendor.asked[2].json["messages"]] == ["user", "assistant", "tool"]
    assert trace.reply is not None
    assert (trace.state, trace.reply.text) == (MessageState.ANSWERED, "done")


async def until(is_so, runtime):
    """Looked at whenever the store has made another write."""
    while not is_so():
        await runtime.db.write(prove_write())


async def test_which_model_answered_is_journaled(tmp_path, monkeypatch):
    async with FakeVendor([status(401)]) as one, FakeVendor([streams(claude("me instead"))]) as other:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", other.url)
        policy = policy_at(one, fallbacks=["anthropic:claude-haiku-5-5"])
        async with holdfast.open(tmp_path, policy=policy) as runtime:
            assert await runtime.ask("c", "hello") == "me instead"
            (said,) = await spoken(runtime, await the_session(runtime))
            (spent,) = await runtime.db.read(sum_spend_by_model())
            states = {one.name: one for one in runtime.models()}
    first, second = states["openai:gpt-5.2"], states["anthropic:claude-haiku-5-5"]
    assert (first.state, first.status, first.needs_key) == (ConnectionState.DOWN, 401, True)
    assert (second.state, second.failed_at) == (ConnectionState.UP, None)
    assert (said.model, spent.model) == ("anthropic:claude-haiku-5-5", "anthropic:claude-haiku-5-5")


async def test_a_refusal_is_an_outcome_that_the_sender_sees_and_was_paid_for(tmp_path):
    async with FakeVendor([streams(chat("I", reason="content_filter"))]) as vendor:
        async with holdfast.open(tmp_path, policy=policy_at(vendor, **PRICES)) as runtime:
            (trace,) = await settled(runtime, await runtime.send("c", "do evil", id="1"))
            (spent,) = await runtime.db.read(sum_spend_by_model())
        assert len(vendor.asked) == 1
    assert trace.state is MessageState.FAILED
    assert trace.reply is not None
    assert trace.reply.text == (
        "I could not answer this message: the model openai:gpt-5.2 refused to answer this. "
        "It is kept; send /retry to try again."
    )
    assert spent.cost_micros == 1_200_000


async def test_a_day_that_is_used_up_is_said_and_the_next_one_answers(tmp_path):
    clock = ManualClock()
    async with FakeVendor([streams(chat("yes"))]) as vendor:
        who = make_agents(policy=policy_at(vendor, daily_spend_micros=2_400_000, **PRICES))
        async with await Process.start(tmp_path, who, clock=clock) as runtime:
            texts = [await answered(runtime, n) for n in range(3)]
            assert texts[:2] == ["yes", "yes"]
            assert texts[2] == (
                "I could not answer this message: the agent's daily limit of $2.40 is used up; "
                "it answers again after 00:00 UTC. It is kept; send /retry to try again."
            )
            assert len(vendor.asked) == 2, "no model was asked beyond the limit"
            clock.advance(DAY_MS - clock.now() % DAY_MS)
            assert await answered(runtime, 3) == "yes"
            assert await runtime.db.read(sum_spent(AgentName("main"), clock.now())) == 1_200_000


async def answered(runtime, n):
    (trace,) = await settled(runtime, await runtime.send("c", "well?", id=str(n)))
    assert trace.reply is not None
    return trace.reply.text


async def test_a_summary_counts_and_waits_for_the_next_day(tmp_path):
    clock = ManualClock()
    async with FakeVendor([streams(chat("- what was said"))]) as vendor:
        base = policy_at(vendor, daily_spend_micros=3_600_000, **PRICES)
        policy = replace(base, thresholds=Thresholds(context_tokens=100_000, keep=0.0))
        who = make_agents(policy=policy)
        async with await Process.start(tmp_path, who, clock=clock) as runtime:
            assert await answered(runtime, 0) == "- what was said"
            assert await answered(runtime, 1) == "- what was said"
            session = await the_session(runtime)
            assert (await compressed(runtime, session)).outcome == "done"
            assert {one.task for one in await runtime.db.read(sum_spend_by_model())} == {"reply", "summary"}
            for n in (2, 3):
                await answered(runtime, n)
            refused = await compressed(runtime, session)
            assert (refused.outcome, len(vendor.asked)) == ("failed", 3)
            assert "daily limit of $3.60 is used up" in str(refused.detail)


async def compressed(runtime, session):
    begun = await runtime.begin_compression(session)
    while True:
        found = {one.id: one for one in await runtime.db.read(list_operations(session=session))}[begun.id]
        if found.outcome is not None:
            return found
        await runtime.db.write(prove_write())


async def test_a_failed_turn_tells_the_sender_a_sentence_and_the_operator_what_the_vendor_answered(tmp_path, caplog):
    body = {"error": {"type": "quota_error", "message": f"{CANARY} of My cat is called Byron. {KEY}"}}
    async with FakeVendor([status(402, body, x_request_id="req_42")]) as vendor:
        settings = {"name": "openai:gpt-5.2", "base_url": f"{vendor.url}/v1"}
        who = make_agents(policy=AgentPolicy(model=settings, memory={}, turn=QUICK))
        async with await Process.start(tmp_path, who) as runtime:
            (trace,) = await settled(runtime, await runtime.send("c", "My cat is called Byron."))
    assert trace.reply is not None
    assert CANARY not in trace.reply.text
    assert "req_42" not in trace.reply.text
    assert trace.reason is not None
    assert trace.reason.endswith(f"(status 402; request id req_42; quota_error; it said: {CANARY} of […]. [hidden]).")
    lines = "".join(JsonLines().format(record) for record in caplog.records)
    (line,) = [record.fields for record in caplog.records if record.getMessage() == "model.failed"]
    assert (line["status"], line["request_id"], line["vendor_error"]) == (402, "req_42", "quota_error")
    for word in (CANARY, KEY, "Byron"):
        assert word not in lines
