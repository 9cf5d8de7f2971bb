"""With a real store, a message on Discord is answered there once, through outages of Discord, the store and the
process.
"""

from dataclasses import replace

import pytest

from holdfast.kernel.ids import AgentName
from holdfast.runtime.app import open_runtime
from holdfast.tools.toolbox import ToolBox
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.policy import AccessPolicy, Door
from tests.platforms.discord import Fault
from tests.support.fakes import ScriptedModel, policy

OPEN = AccessPolicy(door=Door.OPEN, group_door=Door.OPEN)


@pytest.fixture
def opened(world, tmp_path, monkeypatch):
    """Opens the runtime on the same data folder each time."""
    monkeypatch.setenv("ADA_TOKEN", world.bot.token)
    table = {"discord": {"token_env": "ADA_TOKEN", "api_url": world.fake.url}}

    async def open_again():
        chosen = replace(policy(), access=OPEN, memory={}, channels=table)
        model = ScriptedModel()
        agent = Agent(policy=chosen, model=model, summariser=model, tools=ToolBox())
        runtime = await open_runtime(
            tmp_path / "data", agents=Agents(None, {AgentName("ada"): agent}), connect=tmp_path
        )
        await world.fake.until(lambda: world.fake.is_connected(world.bot))
        return runtime

    return open_again


async def test_what_was_said_while_the_process_was_away_is_answered_once_and_in_order(world, opened):
    fake = world.fake

    def answers():
        return fake.texts(world.dm, world.bot.user)

    async with await opened():
        fake.say(world.dm, world.ann, "one")
        await fake.until(lambda: len(answers()) == 1)
    fake.say(world.dm, world.ann, "two")
    fake.say(world.dm, world.ann, "three")
    fake.faults.append(Fault("/messages", cut=True))  # the first to be lost is the request for what was missed
    fake.faults.append(Fault(f"POST /channels/{world.dm.id}/messages", cut=True, effect=True))
    async with await opened():
        fake.say(world.dm, world.ann, "four")
        await fake.until(lambda: len(answers()) == 4 and not fake.faults)
    assert answers() == ["re: one", "re: two", "re: three", "re: four"]


async def test_the_first_message_of_a_channel_is_answered_once_although_the_bot_was_away(world, opened):
    fake = world.fake

    def answers():
        return fake.texts(world.room, world.bot.user)

    fake.say(world.room, world.ann, f"<@{world.bot.id}> long ago", mentions=[world.bot.user])
    async with await opened() as runtime:
        await noted(runtime, world)
    fake.say(world.room, world.ann, f"<@{world.bot.id}> first", mentions=[world.bot.user])
    for _ in range(2):
        async with await opened():
            fake.say(world.dm, world.ann, "hello")
            await fake.until(lambda: len(answers()) == 1 and fake.texts(world.dm, world.bot.user)[-1:] == ["re: hello"])
    assert [one.rpartition(": ")[2] for one in answers()] == ["first"]


async def noted(runtime, world):
    """Where the account stands is durable: something that comes in shows that the positions were loaded."""
    thread = world.fake.add_thread(world.room, "elsewhere")
    world.fake.say(thread, world.ann, f"<@{world.bot.id}> there?", mentions=[world.bot.user])
    await world.fake.until(lambda: bool(world.fake.texts(thread, world.bot.user)))


async def test_an_answer_in_a_thread_stays_in_the_thread(world, opened):
    thread = world.fake.add_thread(world.room, "plans")
    async with await opened():
        world.fake.say(thread, world.ann, f"<@{world.bot.id}> hello", mentions=[world.bot.user])
        await world.fake.until(lambda: bool(world.fake.texts(thread, world.bot.user)))
    [answer] = world.fake.texts(thread, world.bot.user)
    assert answer == f"re: Ann (discord:{world.ann['id']}): hello"
    assert world.fake.texts(world.room, world.bot.user) == []
