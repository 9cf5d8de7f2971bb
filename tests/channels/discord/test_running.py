"""A channel that cannot go on says why and what to do, without its token; one that is stopped leaves nothing behind."""

import asyncio
import threading
from dataclasses import replace

import pytest
from discord.gateway import KeepAliveHandler

from holdfast.channels.discord import make_discord
from holdfast.channels.discord.session import CLOSE_S
from holdfast.kernel.errors import ChannelFailed
from holdfast.kernel.machine import AsyncTasks
from tests.channels.discord.kit import Mailbox, running, setup_of
from tests.platforms.discord import FakeDiscord, Fault
from tests.support.connections import still_open
from tests.support.loop_time import put_forward


def heartbeats() -> list[KeepAliveHandler]:
    threads = [one for one in threading.enumerate() if isinstance(one, KeepAliveHandler)]
    return [one for one in threads if not one._stop_ev.is_set()]


async def failure(fake: FakeDiscord, bot) -> str:
    with pytest.raises(ChannelFailed) as caught:
        await make_discord(setup_of(fake, bot)).run(Mailbox())
    assert bot.token not in f"{caught.value!r} {caught.value.__cause__!r}"
    assert heartbeats() == []
    return str(caught.value)


async def test_a_wrong_token_is_named_as_what_it_is(world):
    world.fake.bots.clear()
    assert "rejects the token" in await failure(world.fake, world.bot)


async def test_a_token_that_the_gateway_refuses_is_named_as_well(world):
    original = world.fake._identify
    world.fake._identify = lambda pipe, data: original(pipe, {**data, "token": "withdrawn"})
    assert "rejects the token" in await failure(world.fake, world.bot)


async def test_a_missing_intent_says_where_to_switch_it_on(world):
    world.bot.content_allowed = False
    assert "Message Content Intent" in await failure(world.fake, world.bot)


@pytest.mark.parametrize("on", ["/users/@me", "/gateway/bot", "/gateway/"])
async def test_a_discord_that_is_down_ends_the_run(world, on):
    world.fake.faults.append(Fault(on, status=503))
    assert "cannot be reached" in await failure(world.fake, world.bot)


async def test_what_is_not_discord_ends_the_run(world):
    world.fake.faults.append(Fault("/users/@me", status=200, body="<html>", content_type="text/html"))
    assert "not Discord's API" in await failure(world.fake, world.bot)


async def test_a_refused_connection_ends_the_run(world):
    await world.fake._runner.cleanup()
    assert "cannot be reached" in await failure(world.fake, world.bot)


async def test_heartbeats_are_sent_and_answered():
    async with FakeDiscord(heartbeat_ms=20) as fake:
        async with running(fake, fake.add_bot("Ada"), Mailbox()):
            await fake.until(lambda: fake.beats >= 5)
        assert heartbeats() == []


async def test_stopping_leaves_no_thread_no_session_and_no_connection(world):
    async with running(world.fake, world.bot, world.mailbox):
        assert len(heartbeats()) == 1
    assert heartbeats() == []
    await world.fake.until(lambda: not world.fake.is_connected(world.bot))


class Sleepers(AsyncTasks):
    async def sleep(self, delay_ms: float) -> None:
        await asyncio.Event().wait()


async def test_stopping_between_hello_and_identify_leaves_no_thread(world):
    """discord.py has started the heartbeat of a connection then that it does not know yet."""
    channel = make_discord(replace(setup_of(world.fake, world.bot), tasks=Sleepers()))
    task = asyncio.get_running_loop().create_task(channel.run(world.mailbox))
    await world.mailbox.until(lambda: bool(world.mailbox.ups))
    beats = world.fake.beats
    world.fake.forget_sessions()
    await world.fake.until(lambda: world.fake.beats > beats)
    assert len(heartbeats()) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert heartbeats() == []
    assert still_open() == []


async def test_a_gateway_that_never_says_goodbye_is_left_in_time(world):
    world.fake.says_goodbye = False

    async def run_out_of_time():
        await world.fake.until(lambda: world.fake.goodbyes)
        put_forward(CLOSE_S)

    async with asyncio.TaskGroup() as tasks, running(world.fake, world.bot, world.mailbox):
        assert len(heartbeats()) == 1
        tasks.create_task(run_out_of_time())
    assert heartbeats() == []
    assert still_open() == []


async def test_a_gateway_whose_time_to_close_is_over_before_it_is_told_is_left_as_well(world, monkeypatch):
    """The time may be over before anything was sent, as on a machine with much to do: nothing stays open."""
    monkeypatch.setattr("holdfast.channels.discord.session.CLOSE_S", 0.0)
    world.fake.says_goodbye = False
    async with running(world.fake, world.bot, world.mailbox):
        assert len(heartbeats()) == 1
    assert heartbeats() == []
    assert still_open() == []


async def test_a_channel_may_run_again_after_it_failed(world):
    channel = make_discord(setup_of(world.fake, world.bot))
    world.fake.faults.append(Fault("/gateway/bot", status=503))
    with pytest.raises(ChannelFailed):
        await channel.run(world.mailbox)
    task = asyncio.get_running_loop().create_task(channel.run(world.mailbox))
    await world.mailbox.until(lambda: bool(world.mailbox.ups))
    world.fake.say(world.dm, world.ann, "hello")
    await world.mailbox.has(1)
    world.fake.drop(code=4004)
    with pytest.raises(ChannelFailed, match="token"):
        await task
