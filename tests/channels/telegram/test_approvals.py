"""In a Telegram group the person who asked for a tool call approves it with the command that the question names."""

from holdfast.channels.telegram import make_telegram
from holdfast.inbox.channel import ChannelSetup
from holdfast.kernel.ids import AgentName
from holdfast.kernel.machine import AsyncTasks, SystemClock, SystemEntropy
from tests.support.approving import Till, asked_in, hasty, start


async def test_a_plain_answer_in_a_group_decides_what_waits_there(server, bot, tmp_path, monkeypatch):
    till, chat, bob = Till(), server.group(bot), server.user("Bob")
    setup = ChannelSetup(
        name="telegram",
        agent=AgentName("main"),
        settings={"token_env": "TOKEN", "api_url": server.url},
        environment={"TOKEN": bot.token},
        folder=tmp_path,
        clock=SystemClock(),
        entropy=SystemEntropy(),
        tasks=AsyncTasks(),
    )
    channel = make_telegram(setup)
    channel.capabilities = hasty(channel.capabilities)
    process = await start(tmp_path, "telegram", channel, till)
    async with process:
        server.say(chat, bob, f"@{bot.username} pay him")
        await server.until(lambda: len(chat.texts()) == 1)
        approval = asked_in(chat.texts())
        server.say(chat, bob, f"/approve {approval}")
        await server.until(lambda: len(chat.texts()) == 3)
    await channel.close()
    assert chat.texts()[1:] == [f"Approved: pay ({approval}) runs once.", "all done"]
    assert till.paid == [3]
