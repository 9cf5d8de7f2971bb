"""With the whole runtime, a message on Telegram is answered there once, also when the process dies."""

from dataclasses import replace

import pytest

from holdfast.channels.telegram import make_telegram
from holdfast.inbox.channel import ChannelSetup
from holdfast.inbox.channels import Channels
from holdfast.kernel.ids import AgentName
from holdfast.kernel.machine import AsyncTasks, SystemClock, SystemEntropy
from holdfast.turns.policy import AccessPolicy, Door
from tests.support.fakes import Process, ScriptedModel, agents, policy

OPEN = AccessPolicy(door=Door.OPEN, group_door=Door.OPEN)


@pytest.fixture
def chat(server, bot):
    return server.private(bot, server.user("Bob"))


async def start(folder, server, bot):
    setup = ChannelSetup(
        name="telegram",
        agent=AgentName("main"),
        settings={"token_env": "TOKEN", "api_url": server.url},
        environment={"TOKEN": bot.token},
        folder=folder,
        clock=SystemClock(),
        entropy=SystemEntropy(),
        tasks=AsyncTasks(),
    )
    channel = make_telegram(setup)
    who = agents(ScriptedModel(), replace(policy(), access=OPEN))
    channels = Channels({(AgentName("main"), "telegram"): channel})
    return channel, await Process.start(folder, who, channels=channels)


async def test_a_message_is_answered_in_its_chat(tmp_path, server, bot, chat):
    said = server.say(chat, server.user("Bob"), "hello")
    channel, process = await start(tmp_path, server, bot)
    async with process:
        await server.until(chat.texts)
        await server.until(lambda: not bot.pending)
    await channel.close()
    [answer] = chat.posted()
    assert answer["quotes"]["message_id"] == said["message_id"]


async def test_what_was_taken_and_not_confirmed_before_a_crash_is_answered_once(tmp_path, server, bot, chat):
    """Telegram sends it again to the next process, which knows it. An answer leaves only when the one before it is
    settled, so the first is settled when the second is seen; the second may be uncertain and be resent (D26)."""
    bob = server.user("Bob")
    first = server.say(chat, bob, "first")
    again = dict(bot.pending[0])
    channel, process = await start(tmp_path, server, bot)
    await server.until(chat.texts)
    server.say(chat, bob, "second")
    await server.until(lambda: len(chat.texts()) == 2)
    await process.kill()
    await channel.close()
    bot.pending.insert(0, again)  # as if never confirmed
    third = server.say(chat, bob, "third")
    channel, process = await start(tmp_path, server, bot)
    async with process:
        await server.until(lambda: not bot.pending and quoted(chat).count(third["message_id"]))
    await channel.close()
    assert quoted(chat).count(first["message_id"]) == 1


def quoted(chat):
    """The messages that were answered."""
    return [answer["quotes"]["message_id"] for answer in chat.posted() if "quotes" in answer]
