"""Agents on one host message each other through the same durable path as everybody (R38): the answer comes back to the
conversation that asked, nothing is handed over twice, and no two agents can keep each other busy for ever (D12)."""

from dataclasses import replace

import pytest

from holdfast import connections
from holdfast.app import open_runtime
from holdfast.core.ids import AgentName, MessageId, ReplyId
from holdfast.core.key import Address
from holdfast.core.outgoing import Declined, Post, Sent
from holdfast.core.policy import TurnPolicy
from holdfast.loops.agents import Agent, Agents
from holdfast.loops.liaison import AgentChannel
from holdfast.loops.toolbox import ToolBox
from tests.integration.fakes import QUICK, Gate, ScriptedModel, calls, policy, says, soon, stands_at
from tests.integration.test_intake import OPEN, Chat, wrote


@pytest.fixture
def team(monkeypatch, tmp_path):
    """Opens agents by name, each with a model; those with a chat are reached over it."""
    chats: dict[str, Chat] = {}
    monkeypatch.setattr(connections, "_factory", lambda _name, _key: lambda setup: chats[setup.agent])

    def agent(name, model, **more):
        given: dict[str, dict[str, object]] = {"chat": {}} if name in chats else {}
        chosen = replace(policy(), **{"access": OPEN, "hops_max": 4, "channels": given, "memory": {}, **more})
        return Agent(policy=chosen, model=model, summariser=model, tools=ToolBox())

    async def open_team(models, *, chatting=("ada",), **more):
        chats.update({name: Chat() for name in chatting})
        who = Agents(None, {AgentName(name): agent(name, model, **more) for name, model in models.items()})
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
        assert "[a message from the agent ben]\nrain" in ada.requests[-1][-1].content
        assert [one.agent for one in await runtime.sessions(agent="ben")] == ["ben"]


async def test_what_is_handed_over_twice_is_one_message(team):
    ben = ScriptedModel(says("rain"))
    runtime, _ = await team({"ada": ScriptedModel(), "ben": ben})
    async with runtime:
        channel = AgentChannel(AgentName("ada"), runtime.gateway, runtime._agents)
        address = Address(agent=AgentName("ben"), channel="agent", type="dm", chat="agent:ada:chat:dm:77")
        post = Post(reply=ReplyId("rep_1"), part=0, parts=1, address=address, text="weather?", message=MessageId("m"))
        first, again = await channel.send(post), await channel.send(replace(post, attempt=2, doubtful=True))
        assert first == again
        assert isinstance(first, Sent)
        await soon(runtime.reply_to(MessageId(first.receipt)))
        assert len(ben.requests) == 1
        assert await channel.send(replace(post, text="another")) == Declined(
            f"another text was handed over under this id, as {first.receipt}"
        )
        assert isinstance(await channel.send(replace(post, hop=5)), Declined)


async def test_two_agents_that_ask_each_other_whatever_they_hear_come_to_rest(team):
    models = {name: ScriptedModel(otherwise=asks(other)) for name, other in (("ada", "ben"), ("ben", "ada"))}
    runtime, chats = await team(models, turn=TurnPolicy(retry=QUICK, steps_max=1, unattended_max=6))
    async with runtime:
        await chats["ada"].intake.receive(wrote("weather?"))
        await soon(rest(runtime))
        assert sum(len(model.requests) for model in models.values()) < 60
        assert {one.state for one in await runtime.reader.replies()} <= {"delivered", "failed"}


async def rest(runtime):
    """Until nobody has anything to say any more."""
    feed = runtime.events()
    while (await runtime.reader.next_ready()) is not None or any(
        one.state in {"pending", "attempting"} for one in await runtime.reader.replies(limit=1_000)
    ):
        await feed.next_within(200)
    feed.close()


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


async def test_nothing_is_sent_to_nobody_to_oneself_or_too_far(team):
    ada = ScriptedModel(asks("nobody"), asks("ada"), says("I cannot."))
    runtime, chats = await team({"ada": ada, "ben": ScriptedModel()})
    async with runtime:
        await chats["ada"].intake.receive(wrote("go on"))
        assert await chats["ada"].texts(1) == ["I cannot."]
        told = [message.content for message in ada.requests[-1] if message.role == "tool"]
        assert "there is no agent 'nobody'" in told[0]
        assert "that is you" in told[1]
        assert [one.channel for one in await runtime.reader.replies()] == ["chat"]
