"""Agents on one host message each other through the durable path that all messages take (R38). The answer returns to
the conversation that asked, no message is delivered twice, and two agents cannot keep each other busy for ever (D12).
"""

from collections import Counter
from dataclasses import replace

import pytest

from holdfast.channels.agent import AgentChannel
from holdfast.inbox.address import Address
from holdfast.kernel.ids import AgentName, MessageId, ReplyId
from holdfast.monitor.queues import OPEN_REPLIES
from holdfast.monitor.queues_sql import read_queues
from holdfast.outbox.post import Declined, Post, Sent
from holdfast.outbox.reply_sql import list_replies
from holdfast.runtime import plugins
from holdfast.runtime.app import open_runtime
from holdfast.store.script import Call, rows
from holdfast.tools.toolbox import ToolBox
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.policy import TurnPolicy
from tests.inbox.test_router import OPEN, Chat, wrote
from tests.support.fakes import QUICK, Gate, ScriptedModel, calls, policy, says, soon, stands_at

TO_BEN = Address(agent=AgentName("ben"), channel="agent", type="dm", chat="agent:ada:chat:dm:77")
POST = Post(reply=ReplyId("rep_1"), part=0, parts=1, address=TO_BEN, text="weather?", message=MessageId("m"))


@pytest.fixture
def team(monkeypatch, tmp_path):
    """Opens agents by name, each with a model; those with a chat are reached over it."""
    chats: dict[str, Chat] = {}
    honest = plugins.find_factory

    def found(what, *more):
        return (lambda setup: chats[setup.agent]) if what == "channel" else honest(what, *more)

    monkeypatch.setattr(plugins, "find_factory", found)

    def agent(name, model, **more):
        given: dict[str, dict[str, object]] = {"chat": {}} if name in chats else {}
        chosen = replace(policy(), **{"access": OPEN, "hops_max": 4, "channels": given, "memory": {}, **more})
        return Agent(policy=chosen, model=model, summariser=model, tools=ToolBox())

    async def open_team(models, *, chatting=("ada",), each=None, **more):
        chats.update({name: Chat() for name in chatting})
        listed = {}
        for name, model in models.items():
            others = tuple(other for other in models if other != name)
            listed[AgentName(name)] = agent(name, model, **{"talks_to": others, **more, **(each or {}).get(name, {})})
        who = Agents(None, listed)
        runtime = await open_runtime(tmp_path / "data", agents=who, connect=tmp_path)
        for chat in chats.values():
            await soon(chat.running.wait())
        return runtime, chats

    return open_team


def asks(name, text="what is the weather?"):
    return calls(f'send_message {{"to": "{name}", "text": "{text}"}}')


async def test_an_agent_asks_another_and_its_user_hears_the_answer(team):
    ada = ScriptedModel(asks("ben"), says("I have asked Ben."), says("Ben says: rain."))
    ben = ScriptedModel(says("rain"))
    runtime, chats = await team({"ada": ada, "ben": ben})
    async with runtime:
        await chats["ada"].intake.receive(wrote("weather?"))
        assert await chats["ada"].texts(2) == ["I have asked Ben.", "Ben says: rain."]
        assert {str(post.address) for post in chats["ada"].sent} == {"agent:ada:chat:dm:77"}
        assert [post.in_reply_to for post in chats["ada"].sent] == ["10", ""], "a platform knows no agent's message"
        assert "[a message from the agent ada]\nwhat is the weather?" in ben.requests[0][-1].content
        assert "[a message from the agent ben]\n  rain" in ada.requests[-1][-1].content
        assert [one.agent for one in await runtime.sessions(agent="ben")] == ["ben"]


async def test_what_is_handed_over_twice_is_one_message(team):
    ben = ScriptedModel(says("rain"))
    runtime, _ = await team({"ada": ScriptedModel(), "ben": ben})
    async with runtime:
        channel = AgentChannel(AgentName("ada"), runtime.gateway, runtime._agents)
        first, again = await channel.send(POST), await channel.send(replace(POST, attempt=2, doubtful=True))
        assert first == again
        assert isinstance(first, Sent)
        await soon(runtime.reply_to(MessageId(first.receipt)))
        assert len(ben.requests) == 1
        assert await channel.send(replace(POST, text="another")) == Declined(
            f"another text was delivered under this id, as {first.receipt}"
        )
        assert isinstance(await channel.send(replace(POST, hop=5)), Declined)


async def test_two_agents_that_ask_each_other_whatever_they_hear_come_to_rest_after_the_hops_they_may_make(team):
    models = {name: ScriptedModel(otherwise=asks(other)) for name, other in (("ada", "ben"), ("ben", "ada"))}
    runtime, chats = await team(models, turn=TurnPolicy(retry=QUICK, steps_max=1, unattended_max=1_000))
    async with runtime:
        await chats["ada"].intake.receive(wrote("weather?"))
        await soon(rest(runtime))
        # A turn in ada's chat sends one message on. A turn that an agent's message began sends one on and an answer
        # back. All of them are one hop further than the turn.
        assert {name: len(model.requests) for name, model in models.items()} == {"ada": 9, "ben": 4}
        ended = Counter(
            (one.channel, one.state, one.reason) for one in await runtime.db.read(list_replies(limit=1_000))
        )
        assert ended == {
            ("chat", "delivered", None): 4,
            ("agent", "delivered", None): 12,
            ("agent", "failed", "it was passed from agent to agent 5 times"): 4,
        }
        assert await hops(runtime) == {0: 1, 1: 1, 2: 2, 3: 3, 4: 6}


async def hops(runtime):
    """How many messages came through how many agents."""
    found = await runtime.db.read(Call("hops", lambda: rows("select hop, count(*) from inbound group by hop")))
    return dict(found)


async def rest(runtime):
    """Until no message waits or is in a turn and no reply is on its way, at one instant.

    A message is accepted before the reply that brings it is settled, so in between there is always one of them.
    """
    feed = runtime.events()
    while True:
        now = await runtime.db.read(read_queues())
        if not now.messages and not any(queue.count(*OPEN_REPLIES) for queue in now.replies.values()):
            break
        await feed.next_within(1_000)
    feed.close()


async def test_what_agents_say_is_no_humans_so_the_loop_guard_holds_it(team):
    ben = ScriptedModel()
    runtime, _ = await team({"ada": ScriptedModel(), "ben": ben}, turn=TurnPolicy(retry=QUICK, unattended_max=2))
    async with runtime:
        channel = AgentChannel(AgentName("ada"), runtime.gateway, runtime._agents)
        states = []
        for n in range(3):
            sent = await channel.send(replace(POST, reply=ReplyId(f"rep_{n}")))
            assert isinstance(sent, Sent)
            await soon(runtime.reply_to(MessageId(sent.receipt)))
            states.append((await runtime.trace(MessageId(sent.receipt))).state.value)
        assert states == ["answered", "answered", "held"]
        assert len(ben.requests) == 2


async def test_an_answer_comes_back_to_a_process_that_was_started_again(team):
    ada = ScriptedModel(asks("ben"), says("asked"), says("Ben says: rain."))
    gate = Gate()
    ben = ScriptedModel(stands_at(gate, says("rain")), says("rain"))
    runtime, chats = await team({"ada": ada, "ben": ben})
    async with runtime:
        await chats["ada"].intake.receive(wrote("weather?"))
        await gate.arrival()
        runtime._supervisor._worker.cut_off()
    runtime, chats = await team({"ada": ada, "ben": ben})
    async with runtime:
        while "Ben says: rain." not in [post.text for post in chats["ada"].sent]:
            await chats["ada"].texts(len(chats["ada"].sent) + 1)


async def test_nothing_is_sent_to_an_unknown_agent_to_oneself_or_too_far(team):
    ada = ScriptedModel(asks("nobody"), asks("ada"), says("I cannot."))
    runtime, chats = await team({"ada": ada, "ben": ScriptedModel()})
    async with runtime:
        await chats["ada"].intake.receive(wrote("go on"))
        assert await chats["ada"].texts(1) == ["I cannot."]
        told = [message.content for message in ada.requests[-1] if message.role == "tool"]
        assert told[0] == "Nothing was sent: you may not message 'nobody'; you can reach ben."
        assert told[1] == "Nothing was sent: that is you; you can reach ben."
        assert [one.channel for one in await runtime.db.read(list_replies())] == ["chat"]


# --- whom an agent may message -----------------------------------------------------------------------


async def test_a_message_is_handed_over_only_to_those_listed_now(team):
    runtime, _ = await team({"ada": ScriptedModel(), "ben": ScriptedModel(), "cy": ScriptedModel()})
    async with runtime:
        by_name = dict(runtime._agents.listed)

        def allowing(**lists):
            changed = {
                name: replace(one, policy=replace(one.policy, talks_to=lists.get(name, ())))
                for name, one in by_name.items()
            }
            return AgentChannel(AgentName("ada"), runtime.gateway, Agents(None, changed))

        assert await allowing().send(POST) == Declined("agent ada may not message ben; it may message no agent")
        assert await allowing(ada=("cy",)).send(POST) == Declined("agent ada may not message ben; it may message cy")
        for_cy = replace(POST, chain=(AgentName("cy"),))
        assert await allowing(ada=("ben",)).send(for_cy) == Declined(
            "agent ada may not message ben, in a turn that began with cy; it may message no agent"
        )
        gone = replace(POST, chain=(AgentName("gone"),))
        assert isinstance(await allowing(ada=("ben",)).send(gone), Declined)
        assert not await runtime.sessions(agent="ben")
        assert isinstance(await allowing(ada=("ben",), cy=("ben",)).send(for_cy), Sent)


async def test_an_answer_goes_back_unlisted_and_nothing_else_passes_for_one(team):
    ada = ScriptedModel(asks("ben"), says("asked"), says("Ben says: rain."))
    runtime, _ = await team({"ada": ada, "ben": ScriptedModel(says("rain"))})
    async with runtime:
        who = runtime._agents.listed
        silent = {name: replace(one, policy=replace(one.policy, talks_to=())) for name, one in who.items()}
        to_ada = Address(agent=AgentName("ben"), channel="agent", type="dm", chat="agent:ada:chat:dm:77")
        channel = AgentChannel(AgentName("ben"), runtime.gateway, Agents(None, silent))
        posing = replace(POST, address=to_ada)
        assert await channel.send(posing) == Declined("agent ben may not message ben; it may message no agent")
        assert isinstance(await channel.send(replace(posing, is_answer=True)), Sent)


async def test_a_turn_that_is_taken_up_after_a_crash_has_no_more_tools_than_before(team):
    gate = Gate()
    ben = ScriptedModel(stands_at(gate, says("rain")), says("rain"))
    ada = ScriptedModel(asks("ben"), says("asked"), says("Ben says: rain."))
    tools = {"tools": ("send_message", "history")}
    runtime, chats = await team({"ada": ada, "ben": ben}, **tools)
    async with runtime:
        await chats["ada"].intake.receive(wrote("weather?"))
        await gate.arrival()
        runtime._supervisor._worker.cut_off()
    runtime, chats = await team({"ada": ada, "ben": ben}, **tools, each={"ben": {"tools": None}})
    async with runtime:
        await soon(rest(runtime))
        offered = [{spec.name for spec in request.tools} for request in ben.asked]
        assert offered == [{"history", "send_message"}] * 2, "ada has neither memory nor recall"
        assert len(ada.requests) == 3
