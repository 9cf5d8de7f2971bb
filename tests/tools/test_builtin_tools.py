"""The built-in tools: `recall` and `history` cross no boundary and leave no copy behind; a message leaves once."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from holdfast.kernel.errors import ConfigInvalid
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.store.script import Call
from holdfast.store.upkeep_sql import prove_write
from holdfast.turns.journal import Recalled
from holdfast.turns.model import ModelEvent, ModelRequest, ModelTask
from holdfast.turns.policy import AgentPolicy
from tests.support.fakes import ScriptedModel, calls, says, soon, the_session


class Talker(ScriptedModel):
    """Speaks by its script; what is asked when a session ends is no part of it."""

    def ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        return says('{"changes": []}')(request) if request.task is ModelTask.EXTRACT else super().ask(request)


def built(model, **policies):
    """Agents over the real stores and the embedded providers."""
    return make_agents(model=model, listed={name: chosen or AgentPolicy() for name, chosen in policies.items()})


def results(model) -> list[str]:
    return [one.content for one in model.requests[-1] if one.role == "tool"]


def shown(model) -> str:
    return "\n".join(one.content for one in model.requests[-1] if one.data == "recall")


async def outgoing(runtime):
    from holdfast.store.script import rows

    sql = "select agent, channel, address, hop, state, body from reply where channel = 'agent' order by n"
    return await runtime.db.read(Call("look", lambda: rows(sql)))


async def test_an_agent_has_all_of_them_or_those_that_are_chosen(tmp_path):
    model = Talker(says("a"), says("b"))
    async with await open_runtime(
        tmp_path, agents=built(model, main=None, few=AgentPolicy(tools=("history",)))
    ) as runtime:
        await soon(runtime.ask("c", "hi"))
        await soon(runtime.ask("c", "hi", agent="few"))
        names = [{spec.name for spec in request.tools} for request in model.asked]
        assert names == [{"memory", "recall", "history"}, {"history"}], "few may message no agent"


async def test_a_tool_that_does_not_exist_cannot_be_chosen(tmp_path):
    with pytest.raises(ConfigInvalid, match=r"agents\.main\.tools names 'fly'; the built-in tools are memory, recall"):
        await open_runtime(tmp_path, agents=built(Talker(), main=AgentPolicy(tools=("fly",))))


# --- history


async def test_history_shows_earlier_sessions_of_this_chat_and_of_no_other(tmp_path):
    model = Talker()
    async with await open_runtime(tmp_path, agents=built(model, main=AgentPolicy(memory={}))) as runtime:
        for chat, text in (("c", "my cat is Tom"), ("d", "my cat is Secret"), ("c", "/new"), ("c", "hello again")):
            await soon(runtime.ask(chat, text))
        model.moves = [calls('history {"query": "cat"}'), says("Tom")]
        assert await soon(runtime.ask("c", "what was my pet called?")) == "Tom"
        assert results(model) == ["1 turns are shown below, newest first."]
        assert "my cat is Tom" in shown(model)
        assert "Secret" not in shown(model)


async def test_history_of_another_chats_session_does_not_exist(tmp_path):
    model = Talker()
    async with await open_runtime(tmp_path, agents=built(model, main=AgentPolicy(memory={}))) as runtime:
        await soon(runtime.ask("d", "my cat is Secret"))
        other = await the_session(runtime, "d")
        model.moves = [calls(f'history {{"session": "{other}"}}', 'history {"session": "ses_none"}'), says("hm")]
        await soon(runtime.ask("c", "what was said there?"))
        assert results(model) == [f"This chat has no session {other!r}.", "This chat has no session 'ses_none'."]
        assert "Secret" not in shown(model)


async def test_what_history_shows_is_for_this_turn_only_and_goes_when_it_is_forgotten(tmp_path):
    model = Talker()
    async with await open_runtime(tmp_path, agents=built(model, main=AgentPolicy(memory={}))) as runtime:
        await soon(runtime.ask("c", "my cat is Tom"))
        first = await the_session(runtime)
        await soon(runtime.ask("c", "/new"))
        model.moves = [calls("history", "history"), says("I see"), says("next")]
        await soon(runtime.ask("c", "look"))
        roles = [one.role for one in model.requests[-1]]
        assert roles == ["user", "assistant", "tool", "tool", "user", "user"], "no result stands between others"
        await soon(runtime.ask("c", "and now?"))
        assert "Tom" not in shown(model)
        await runtime.forget(session=first)
        second = await the_session(runtime)
        left = [view.entry.body for view in await runtime.history(second)]
        assert not any(isinstance(body, Recalled) for body in left)
        assert not any("Tom" in getattr(body, "text", "") for body in left)


async def test_history_reads_on_before_a_turn_and_leaves_out_what_was_taken_back(tmp_path):
    model = Talker()
    async with await open_runtime(tmp_path, agents=built(model, main=AgentPolicy(memory={}))) as runtime:
        for text in ("one", "two", "three", "/undo", "four"):
            await soon(runtime.ask("c", text))
        session = await the_session(runtime)
        model.moves = [calls(f'history {{"session": "{session}", "before": 4}}'), says("ok")]
        await soon(runtime.ask("c", "look"))
        lines = [line for line in shown(model).splitlines() if line.startswith("- [")]
        said = [line.split("] ")[1] for line in lines]
        assert said == ["two", "re: two", "one", "re: one"]


# --- recall


async def test_recall_finds_what_memory_has_and_nothing_of_another_person(tmp_path):
    model = Talker()
    async with await open_runtime(tmp_path, agents=built(model, main=AgentPolicy())) as runtime:
        await soon(runtime.ask("c", "my cat is called Tom", sender="ada"))
        await soon(runtime.ask("d", "my cat is called Secret", sender="eve"))
        while len([one for one in await runtime.deliveries(provider="local") if one.state == "delivered"]) < 2:
            await runtime.db.write(prove_write())
        model.moves = [calls('recall {"query": "cat called"}', 'recall {"query": " "}'), says("Tom")]
        await soon(runtime.ask("e", "hello", sender="ada"))
        assert "must have 1 to 2000 characters" in results(model)[1]
        assert "Tom" in shown(model)
        assert "Secret" not in shown(model)


# --- send_message


async def test_a_message_to_another_agent_is_a_row_of_the_turn_with_one_hop_more(tmp_path):
    model = Talker(calls('send_message {"to": "moss", "text": "please water the plants"}'), says("told them"))
    who = built(model, main=AgentPolicy(memory={}, talks_to=("moss",)), moss=AgentPolicy(memory={}))
    async with await open_runtime(tmp_path, agents=who) as runtime:
        assert await soon(runtime.ask("c", "tell moss")) == "told them"
        assert results(model) == ["Sent to moss. Its answer comes later, as a message."]
        (row,) = await outgoing(runtime)
        assert row[:2] == ("main", "agent")
        assert row[2] == "agent:moss:agent:dm:agent%3Amain%3Ahttp%3Adm%3Ac"
        assert (row[3], bytes(row[5]).decode()) == (1, "please water the plants")


@pytest.mark.parametrize(
    ("wish", "hops_max", "said"),
    [
        ('{"to": "nobody", "text": "hi"}', 8, "you may not message 'nobody'; you can reach moss."),
        ('{"to": "main", "text": "hi"}', 8, "that is you; you can reach moss."),
        ('{"to": "../x", "text": "hi"}', 8, "you may not message '../x'; you can reach moss."),
        ('{"to": "moss", "text": " "}', 8, "no visible character"),
        ('{"to": "moss", "text": "%s"}' % ("x" * 40_000), 8, "the limit is 32768"),
        ('{"to": "moss", "text": "hi"}', 0, "gone from agent to agent 0 times, and the limit is 0"),
    ],
    ids=["unknown", "itself", "not a name", "empty", "too large", "too many hops"],
)
async def test_a_message_that_cannot_be_sent_is_refused_with_the_reason(wish, hops_max, said, tmp_path):
    model = Talker(calls(f"send_message {wish}"), says("well"))
    plain = AgentPolicy(memory={})
    who = built(model, main=replace(plain, hops_max=hops_max, talks_to=("moss",)), moss=plain)
    async with await open_runtime(tmp_path, agents=who) as runtime:
        await soon(runtime.ask("c", "tell them"))
        assert results(model)[0].startswith("Nothing was sent: ")
        assert said in results(model)[0]
        assert await outgoing(runtime) == []
