"""The incident, end to end over Discord's own library: two agents in one channel, one of them compressing while the
other posts. The first turn after the compression sees what was posted meanwhile, the session stays the same, and two
agents that answer each other come to rest by themselves (R22, R27, D12)."""

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from holdfast.inbox.mailbox import MessageTrace
from holdfast.kernel.ids import AgentName
from holdfast.runtime.app import open_runtime
from holdfast.sessions.compression import Thresholds
from holdfast.sessions.history_sql import read_session
from holdfast.tools.toolbox import ToolBox
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.policy import AccessPolicy, Door, GroupPolicy, TurnPolicy
from tests.platforms.discord import FakeDiscord
from tests.support.fakes import QUICK, Gate, ScriptedModel, gist, policy, says, stands_at
from tests.support.patience import within

OPEN = AccessPolicy(door=Door.OPEN, group_door=Door.OPEN)
TINY = Thresholds(context_tokens=500, soft=0.5, hard=0.7, keep=0.2)


@pytest.fixture
async def discord():
    async with FakeDiscord() as server:
        yield server


def agent_of(server, name, model, thresholds, *, guard, **more):
    chosen = replace(
        policy(thresholds=thresholds),
        access=OPEN,
        memory={},
        turn=TurnPolicy(retry=QUICK, unattended_max=guard),
        channels={"discord": {"token_env": f"{name.upper()}_TOKEN", "api_url": server.url}},
        **more,
    )
    return Agent(policy=chosen, model=model, summariser=model, tools=ToolBox())


async def open_room(server, folder, monkeypatch, models, *, thresholds=None, guard=12, **more):
    bots = {name: server.add_bot(name) for name in models}
    for name, bot in bots.items():
        monkeypatch.setenv(f"{name.upper()}_TOKEN", bot.token)
    room = server.add_channel(server.add_guild("Crew", *bots.values()), "deploys")
    given = {
        AgentName(name): agent_of(server, name, model, (thresholds or {}).get(name), guard=guard, **more)
        for name, model in models.items()
    }
    runtime = await open_runtime(folder / "data", agents=Agents(None, given), connect=folder)
    await server.until(lambda: all(server.is_connected(bot) for bot in bots.values()))
    return runtime, room, bots


def ask(server, room, author, bot, text):
    return server.say(room, author, f"<@{bot.id}> {text}", mentions=[bot.user])


async def test_the_first_turn_after_a_compression_sees_what_the_other_agent_posted(discord, tmp_path, monkeypatch):
    gate = Gate()
    fern = ScriptedModel(summary=stands_at(gate, gist))
    models = {"fern": fern, "moss": ScriptedModel(otherwise=says("The deploy is at noon."))}
    runtime, room, bots = await open_room(discord, tmp_path, monkeypatch, models, thresholds={"fern": TINY})
    ada = discord.add_user("Ada")

    def moved_on(count):
        return gate.reached.is_set() or len(discord.texts(room, bots["fern"].user)) >= count

    async with runtime:
        said = 0
        while not gate.reached.is_set():  # until fern has to compress
            said += 1
            ask(discord, room, ada, bots["fern"], f"note {said}: " + "the harbour is calm today " * 6)
            await discord.until(partial(moved_on, said))
        [before] = [one.id for one in await runtime.sessions(agent="fern") if one.live]
        ask(discord, room, ada, bots["moss"], "when is the deploy?")
        await discord.until(lambda: "The deploy is at noon." in discord.texts(room, bots["moss"].user))
        ask(discord, room, ada, bots["fern"], "what did moss say?")
        feed = runtime.events()
        gate.open()
        await discord.until(
            lambda: any("what did moss say?" in text for text in discord.texts(room, bots["fern"].user))
        )
        feed.close()
        seen = " ".join(message.content for message in fern.requests[-1])
        assert "The deploy is at noon." in seen
        [after] = [one.id for one in await runtime.sessions(agent="fern") if one.live]
        assert (after, len(await runtime.sessions(agent="fern"))) == (before, 1)
        assert (await runtime.db.read(read_session(after))).summaries >= 1


async def test_agents_that_answer_each_other_come_to_rest_and_a_human_wakes_them(discord, tmp_path, monkeypatch):
    """Both answer everything that is said, and thank each other: nothing but the guard ends it."""
    models = {name: ScriptedModel(otherwise=says("Thank you!")) for name in ("fern", "moss")}
    groups = GroupPolicy(mention_only=False)
    runtime, room, bots = await open_room(discord, tmp_path, monkeypatch, models, guard=3, groups=groups)
    ada = discord.add_user("Ada")
    async with runtime:
        holding = asyncio.ensure_future(both_held(runtime))
        discord.say(room, ada, "good morning")
        for held in await holding:
            assert (held.state.value, held.reason) == ("held", "loop_guard")
        thanks = sum(len(discord.texts(room, bot.user)) for bot in bots.values())
        assert thanks == 2 * (1 + 3), "each answers the human, and the other three times"
        discord.say(room, ada, "that will do")
        await discord.until(lambda: sum(len(discord.texts(room, bot.user)) for bot in bots.values()) > thanks)


async def both_held(runtime):
    """What each agent left unanswered first."""
    held: dict[str, MessageTrace] = {}
    feed = runtime.events()
    async with within(30):
        while len(held) < 2:
            event = await feed.next_within(1_000)
            if event is not None and event.name == "message.observed" and event.fields["held"]:
                trace = await runtime.trace(event.messages[0])
                held.setdefault(trace.agent, trace)
    feed.close()
    return held.values()
