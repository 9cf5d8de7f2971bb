"""The promise: a channel that cannot go on says why in a sentence without secrets, and one that can goes on."""

import asyncio
import logging

import pytest

from holdfast.channels.slack import SlackChannel, connection
from holdfast.channels.slack.chat_queue import ChatQueues
from holdfast.kernel.errors import ChannelFailed
from tests.channels.slack.kit import Mailbox, channel_of, running, setup_of, slept
from tests.platforms.slack import Fault
from tests.support.connections import open_sockets
from tests.support.pace import WAIT_S, HastyTasks
from tests.support.patience import within


async def failure_of(channel):
    try:
        with pytest.raises(ChannelFailed) as failed:
            await channel.run(Mailbox())
    finally:
        await channel.close()
    return str(failed.value)


async def test_a_bot_token_that_is_not_taken_ends_the_run(world):
    channel = SlackChannel(setup_of({}), "xoxb-no", world.slack.api_url, app_token=world.bot.app_token)
    sentence = await failure_of(channel)
    assert "bot token (invalid_auth)" in sentence
    assert "xoxb-no" not in sentence


async def test_an_app_token_that_is_not_taken_ends_the_run(world):
    channel = SlackChannel(setup_of({}), world.bot.token, world.slack.api_url, app_token="xapp-no")
    sentence = await failure_of(channel)
    assert "app-level token (invalid_auth)" in sentence
    assert "xapp-no" not in sentence


async def test_a_token_that_is_revoked_later_ends_the_run(world):
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.faults = [Fault("apps.connections.open", error="token_revoked", times=9)]
        world.slack.drop(world.bot)
        await world.mailbox.until(lambda: len(world.mailbox.story) == 2)
    channel = channel_of(world.slack, world.bot)
    assert "token_revoked" in await failure_of(channel)


@pytest.mark.parametrize(
    "fault",
    [
        Fault("auth.test", status=503, body=""),
        Fault("auth.test", cut=True),
        Fault("auth.test", body="<html>", content_type="text/html"),
        Fault("auth.test", body='{"ok": true}'),
    ],
)
async def test_a_slack_that_does_not_say_who_we_are_ends_the_run(world, fault):
    world.slack.faults = [Fault(**vars(fault))]
    assert (await failure_of(channel_of(world.slack, world.bot))).startswith("slack: ")


async def test_a_refused_connection_ends_the_run_with_a_sentence(world):
    await world.slack.__aexit__()
    assert "could not be reached" in await failure_of(channel_of(world.slack, world.bot))


@pytest.mark.parametrize(
    "fault",
    [
        Fault("apps.connections.open", status=429, error="ratelimited", headers={"Retry-After": "20"}),
        Fault("apps.connections.open", status=500, body=""),
        Fault("apps.connections.open", cut=True),
    ],
)
async def test_a_connection_that_cannot_be_made_is_tried_again(world, fault):
    world.slack.faults = [Fault(**vars(fault)), Fault(**vars(fault))]
    async with running(world.slack, world.bot, world.mailbox) as channel:
        assert ("Retry-After" in fault.headers) == (20_000 in slept(channel))
        world.slack.say(world.dm, world.ada, "hello")
        await world.mailbox.until_texts("hello")


async def test_a_ticket_that_is_not_taken_is_replaced_by_another(world, monkeypatch):
    monkeypatch.setattr(connection, "OPEN_S", 0.05)
    body = f'{{"ok": true, "url": "ws://127.0.0.1:{world.slack.port}/link?ticket=used"}}'
    world.slack.faults = [Fault("apps.connections.open", body=body)]
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.say(world.dm, world.ada, "hello")
        await world.mailbox.until_texts("hello")


async def test_a_socket_whose_closing_is_cut_off_leaves_no_connection(world, monkeypatch):
    monkeypatch.setattr(connection, "CLOSE_S", 0)
    async with running(world.slack, world.bot, Mailbox()):
        assert open_sockets()
    assert open_sockets() == []


async def test_frames_that_are_no_json_end_the_connection_and_not_the_run(world):
    async with running(world.slack, world.bot, world.mailbox):
        world.bot.pipes[0].frames.put_nowait("{nonsense")
        await world.slack.until(lambda: world.bot.connects == 2)
        world.slack.say(world.dm, world.ada, "hello")
        await world.mailbox.until_texts("hello")


async def test_a_fault_of_ours_ends_the_run_and_acknowledges_nothing(world, monkeypatch):
    async def receive(message):
        raise ZeroDivisionError

    monkeypatch.setattr(world.mailbox, "receive", receive)
    channel = channel_of(world.slack, world.bot)
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["exception"]))
    run = asyncio.ensure_future(channel.run(world.mailbox))
    await world.slack.until(lambda: world.bot.pipes)
    world.slack.say(world.dm, world.ada, "hello")
    with pytest.raises(ChannelFailed, match="bug in Holdfast"):
        await run
    await channel.close()
    assert world.bot.acknowledged == []


async def test_no_message_waits_for_a_slot_behind_a_bug():
    """The run ends after its next step; waiting for a free slot that never comes, it would not end."""
    fails = asyncio.Event()

    async def work():
        await fails.wait()
        raise ZeroDivisionError

    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    queues = ChatQueues(HastyTasks(), lambda: None, waiting_max=1)
    await queues.put("D1", work)
    waiting = [asyncio.ensure_future(queues.put("D1", work)) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    fails.set()
    async with within(WAIT_S):
        await asyncio.gather(*waiting)
    assert queues.is_broken


async def test_room_that_becomes_free_is_one_piece_of_works_however_many_wait():
    ends = [asyncio.Event() for _ in range(3)]
    queues = ChatQueues(HastyTasks(), lambda: None, waiting_max=1)

    async def put(n):
        async def work():
            await ends[n].wait()

        await queues.put(f"D{n}", work)

    await put(0)
    waiting = [asyncio.ensure_future(put(n)) for n in (1, 2)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert [task.done() for task in waiting] == [False, False]
    ends[0].set()
    async with within(WAIT_S):
        await waiting[0]
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting[1].done()
    ends[1].set()
    async with within(WAIT_S):
        await waiting[1]
    await queues.close()


async def test_closing_waits_until_what_was_cancelled_has_ended():
    """A message that is being kept in that moment must not be kept by a run that is over."""
    begun, story = asyncio.Event(), []

    async def work():
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            for _ in range(20):
                await asyncio.sleep(0)
            story.append("ended")

    queues = ChatQueues(HastyTasks(), lambda: None, waiting_max=1)
    await queues.put("D1", work)
    await begun.wait()
    await queues.close()
    assert story == ["ended"]


async def test_neither_words_nor_tokens_are_in_the_log(world, caplog):
    caplog.set_level(logging.DEBUG)
    logging.getLogger("websockets").setLevel(logging.DEBUG)
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.say(world.dm, world.ada, "between us")
        await world.mailbox.until_texts("between us")
        world.slack.drop(world.bot)
        await world.slack.until(lambda: world.bot.connects == 2)
    for secret in ("between us", world.bot.token, world.bot.app_token, "ticket-"):
        assert secret not in caplog.text
