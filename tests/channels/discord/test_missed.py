"""Discord redelivers nothing: missed messages are fetched in order, before later messages are taken."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import discord
import pytest

from holdfast.channels.discord.mapping import GuildChannel
from holdfast.channels.discord.reading import DiscordEvent, DiscordReader
from holdfast.channels.receiving import WHOLE
from holdfast.inbox.channel import ChannelSetup
from holdfast.inbox.chat_message import ChatMessage, MessageChange
from holdfast.kernel.errors import EmptyMessage, InvariantBroken, StoreFull, StoreUnavailable
from holdfast.kernel.ids import AgentName
from holdfast.kernel.machine import SystemClock, SystemEntropy
from tests.channels.discord.kit import Mailbox, running
from tests.platforms.discord import Fault
from tests.support.fakes import soon
from tests.support.pace import HastyTasks


def reading_of(mailbox, history):
    """The streams of an account whose channel 7 is read by `history`."""

    async def translate(event):
        n = event.message_id
        return ChatMessage(account="discord:1", chat="7", sender="2", event_id=str(n), position=n)

    setup = ChannelSetup(
        name="discord",
        agent=AgentName("ada"),
        settings={},
        environment={},
        folder=Path(),
        clock=SystemClock(),
        entropy=SystemEntropy(),
        tasks=HastyTasks(),
    )
    return DiscordReader(setup, "discord:1", mailbox, translate, history, has_checked_all=lambda: True)


def message(n):
    return SimpleNamespace(id=n, attachments=[])


async def test_what_was_said_while_the_process_was_away_is_fetched_oldest_first(world):
    thread = world.fake.add_thread(world.room, "plans")
    async with running(world.fake, world.bot, world.mailbox):
        for room in (world.dm, world.room, thread):
            world.fake.say(room, world.ann, "before")
        await world.mailbox.has(3)
    for n in range(250):
        world.fake.say(world.dm, world.ann, f"missed {n}")
    world.fake.say(world.room, world.ann, "missed in the channel")
    world.fake.say(thread, world.ann, "missed in the thread")
    async with running(world.fake, world.bot, world.mailbox):
        world.fake.say(world.dm, world.ann, "after")
        await world.mailbox.has(256)
    assert world.mailbox.texts(world.dm) == ["before", *[f"missed {n}" for n in range(250)], "after"]
    assert [one.text for one in world.mailbox.taken if one.thread is None and one.chat == world.room.id] == [
        "before",
        "missed in the channel",
    ]
    assert world.mailbox.texts(thread) == ["before", "missed in the thread"]
    assert {one.chat_type for one in world.mailbox.taken if one.chat == world.dm.id} == {"dm"}


async def test_a_conversation_never_seen_begins_now(world):
    world.fake.say(world.dm, world.ann, "long ago")
    async with running(world.fake, world.bot, world.mailbox):
        world.fake.say(world.dm, world.ann, "hello")
        await world.mailbox.has(1)
    assert world.mailbox.texts() == ["hello"]
    assert not [line for line in world.fake.requests if "messages" in line]


async def test_a_session_that_discord_forgot_is_made_up_for(world):
    async with running(world.fake, world.bot, world.mailbox):
        world.fake.say(world.dm, world.ann, "one")
        await world.mailbox.has(1)
        world.fake.forget_sessions()
        world.fake.say(world.dm, world.ann, "two")  # no session has this
        await world.fake.until(lambda: world.bot.identified == 2)
        world.fake.say(world.dm, world.ann, "three")
        await world.mailbox.has(3)
    assert world.mailbox.texts() == ["one", "two", "three"]
    assert len(world.mailbox.ups) == 2
    assert len(world.mailbox.downs) >= 1


async def test_a_resumed_session_brings_what_was_missed_and_gaps_are_fetched(world):
    for break_it in (world.fake.drop, world.fake.ask_reconnect, lambda: world.fake.drop(code=4000)):
        mailbox, resumed = Mailbox(), world.bot.resumed
        async with running(world.fake, world.bot, mailbox):
            world.fake.say(world.dm, world.ann, "one")
            await mailbox.has(1)
            break_it()
            world.fake.say(world.dm, world.ann, "two")
            world.fake.say(world.dm, world.ann, "three", deliver=False)  # which Discord forgets to send
            await mailbox.has(3)
        assert mailbox.texts() == ["one", "two", "three"]
        assert world.bot.resumed == resumed + 1


async def test_a_store_that_is_away_loses_nothing_and_keeps_the_order(world):
    async with running(world.fake, world.bot, world.mailbox):
        world.fake.say(world.dm, world.ann, "one")
        await world.mailbox.has(1)
        world.mailbox.errors.extend([StoreUnavailable("away")] * 5)
        first = world.fake.say(world.dm, world.ann, "two")
        world.fake.edit(first, "two, edited")
        world.fake.say(world.dm, world.ann, "three")
        await world.mailbox.has(4)
    new = [one.event_id for one in world.mailbox.taken if one.change is MessageChange.NEW]
    assert new == sorted(new)
    assert len(new) == 3
    assert [one.of for one in world.mailbox.taken if one.change is MessageChange.EDITED] == [first["id"]]


@pytest.mark.parametrize("error", [StoreUnavailable, StoreFull, InvariantBroken])
async def test_the_first_message_of_a_conversation_survives_a_store_that_is_away(world, error):
    """Whether time, the operator or a new release mends it: only what its sender would have to correct is let go."""
    world.mailbox.errors.extend([error("away")] * 3)
    async with running(world.fake, world.bot, world.mailbox):
        world.fake.say(world.dm, world.ann, "hello")
        world.fake.say(world.dm, world.ann, "anybody there?")
        await world.mailbox.has(2)
    assert world.mailbox.texts() == ["hello", "anybody there?"]


async def test_an_edit_and_a_deletion_wait_for_the_store_too(world):
    async with running(world.fake, world.bot, world.mailbox):
        said = world.fake.say(world.dm, world.ann, "at noon")
        await world.mailbox.has(1)
        world.mailbox.errors.extend([StoreUnavailable("away")] * 3)
        world.fake.edit(said, "at one")
        await world.mailbox.has(2)
        world.mailbox.errors.extend([StoreUnavailable("away")] * 3)
        world.fake.delete(said)
        await world.mailbox.has(3)
    assert [one.change for one in world.mailbox.taken] == [
        MessageChange.NEW,
        MessageChange.EDITED,
        MessageChange.DELETED,
    ]


async def test_positions_are_asked_for_until_the_store_answers(world):
    world.mailbox.positions[world.dm.id] = (int(world.fake.new_id()), "x")
    world.mailbox.read_errors.extend([StoreUnavailable("away")] * 3)
    world.fake.say(world.dm, world.ann, "missed")
    async with running(world.fake, world.bot, world.mailbox):
        await world.mailbox.has(1)
    assert world.mailbox.texts() == ["missed"]


async def test_a_live_message_waits_for_those_that_were_missed(world):
    """Taken first it would move the position past them, and a crash then would lose them for ever."""
    world.mailbox.positions[world.dm.id] = (int(world.fake.new_id()), "x")
    world.fake.say(world.dm, world.ann, "missed")
    world.mailbox.open.clear()
    async with running(world.fake, world.bot, world.mailbox):
        world.fake.say(world.dm, world.ann, "live")
        await world.mailbox.until(lambda: world.mailbox.offered == 1)
        world.mailbox.open.set()
        await world.mailbox.has(2)
    assert world.mailbox.texts() == ["missed", "live"]


async def test_a_flood_is_bounded_and_what_did_not_fit_is_fetched(world, monkeypatch):
    monkeypatch.setattr("holdfast.channels.discord.reading.QUEUE_MAX", 5)
    world.mailbox.open.clear()
    async with running(world.fake, world.bot, world.mailbox):
        for n in range(40):
            world.fake.say(world.dm, world.ann, f"{n}")
        world.fake.say(world.room, world.ann, "elsewhere")
        await world.mailbox.until(lambda: world.mailbox.offered == 2)  # behind the flood on the same connection
        world.mailbox.open.set()
        await world.mailbox.has(41)
    assert world.mailbox.texts(world.dm) == [f"{n}" for n in range(40)]


async def test_a_flood_that_comes_all_at_once_in_a_new_conversation_is_fetched_as_well(monkeypatch):
    """Nothing has run between the first message and the one that did not fit."""
    monkeypatch.setattr("holdfast.channels.discord.reading.QUEUE_MAX", 5)
    mailbox, fetched_after = Mailbox(), []

    async def history(channel_id, after):
        fetched_after.append(after)
        for n in range(after + 1, 140):
            yield message(n)

    reading = reading_of(mailbox, history)
    reading.connected()
    for n in range(100, 140):
        reading.offer(DiscordEvent(change=MessageChange.NEW, channel_id=7, message_id=n))
    await mailbox.has(40)
    await reading.close()
    assert [one.position for one in mailbox.taken] == list(range(100, 140))
    assert fetched_after == [99]


async def test_a_channel_that_is_gone_or_slow_holds_up_no_other(world):
    here = int(world.fake.new_id())
    closed = world.fake.add_channel(world.fake.add_guild("Elsewhere"), "closed to the bot")
    world.mailbox.positions = {
        "77": (1, "1"),
        closed.id: (1, "1"),
        f"{world.room.id}/78": (1, "1"),
        world.dm.id: (here, "x"),
    }
    world.fake.say(world.dm, world.ann, "missed")
    world.fake.faults.append(Fault(f"GET /channels/{world.dm.id}/messages", status=503))
    async with running(world.fake, world.bot, world.mailbox):
        await world.mailbox.has(1)
    assert world.mailbox.texts() == ["missed"]


async def test_an_event_that_will_never_be_taken_is_passed_over(world):
    world.mailbox.errors.append(EmptyMessage("nothing to read"))
    async with running(world.fake, world.bot, world.mailbox):
        world.fake.say(world.dm, world.ann, "bad")
        world.fake.say(world.dm, world.ann, "good")
        await world.mailbox.has(1)
    assert world.mailbox.texts() == ["good"]


async def test_a_fault_of_ours_is_logged_and_holds_up_no_other_conversation(world, caplog):
    world.mailbox.errors.extend([ZeroDivisionError("a bug")] * 2)
    async with running(world.fake, world.bot, world.mailbox):
        world.fake.say(world.dm, world.ann, "one")
        world.fake.say(world.dm, world.ann, "two")
        await world.mailbox.has(2)
    assert world.mailbox.texts() == ["one", "two"]
    assert [record.exc_info is not None for record in caplog.records if record.msg == "channel.behind"] == [True, True]


async def test_what_is_not_taken_when_the_channel_stops_is_fetched_by_the_next(world):
    async with running(world.fake, world.bot, world.mailbox):
        world.fake.say(world.dm, world.ann, "one")
        await world.mailbox.has(1)
        world.mailbox.open.clear()
        world.fake.say(world.dm, world.ann, "two")
        await world.mailbox.until(lambda: world.mailbox.offered == 2)
    world.mailbox.open.set()
    await asyncio.sleep(0)
    async with running(world.fake, world.bot, world.mailbox):
        await world.mailbox.has(2)
    assert world.mailbox.texts() == ["one", "two"]


async def test_what_was_said_in_a_guild_that_was_away_is_fetched_when_it_is_back(world):
    async with running(world.fake, world.bot, world.mailbox):
        world.fake.say(world.room, world.ann, "before")
        await world.mailbox.has(1)
        world.fake.take_away(world.guild)
        world.fake.say(world.room, world.ann, "unheard", deliver=False)
        world.fake.bring_back(world.guild)
        await world.mailbox.has(2)
        world.fake.say(world.room, world.ann, "after")
        await world.mailbox.has(3)
    assert world.mailbox.texts() == ["before", "unheard", "after"]


async def test_a_room_that_could_not_be_read_while_its_guild_was_away_is_read_when_it_is_back(world):
    async with running(world.fake, world.bot, world.mailbox):
        world.fake.say(world.room, world.ann, "before")
        await world.mailbox.has(1)
    world.guild.is_away = True
    world.fake.say(world.room, world.ann, "unheard", deliver=False)
    question = f"GET /channels/{world.room.id}/messages"
    world.fake.faults.append(Fault(question, status=403))
    async with running(world.fake, world.bot, world.mailbox):
        await world.fake.until(lambda: question in world.fake.requests)
        world.fake.bring_back(world.guild)
        await world.mailbox.has(2)
    assert world.mailbox.texts() == ["before", "unheard"]


async def test_a_refusal_does_not_answer_a_question_that_was_asked_after_it():
    mailbox, asked, refused = Mailbox(), asyncio.Event(), asyncio.Event()

    async def history(channel_id, after):
        if not asked.is_set():
            asked.set()
            await refused.wait()
            raise discord.Forbidden(Mock(status=403, reason="away"), "away")
        yield message(9)

    mailbox.positions = {"7": (5, "5"), WHOLE: (1, "1")}
    reading = reading_of(mailbox, history)
    reading.connected()
    await asked.wait()
    reading.check([GuildChannel(7, 9, lambda: True)])
    await asyncio.sleep(0)  # it has looked
    refused.set()
    await mailbox.has(1)
    await reading.close()
    assert [one.event_id for one in mailbox.taken] == ["9"]


@pytest.mark.parametrize("failures", [1, 3])
async def test_a_message_that_was_fetched_while_the_store_was_away_is_fetched_again(world, failures):
    """It is in no queue: a position that had moved past it would lose it for ever."""
    world.mailbox.positions[world.dm.id] = (int(world.fake.new_id()), "x")
    world.fake.say(world.dm, world.ann, "missed")
    world.fake.say(world.dm, world.ann, "missed too")
    world.mailbox.errors.extend([StoreUnavailable("away")] * failures)
    async with running(world.fake, world.bot, world.mailbox):
        await world.mailbox.has(2)
    assert world.mailbox.texts() == ["missed", "missed too"]


async def test_an_edit_of_a_message_that_was_missed_does_not_stand_for_it(world):
    async with running(world.fake, world.bot, world.mailbox):
        world.fake.say(world.dm, world.ann, "one")
        await world.mailbox.has(1)
        missed = world.fake.say(world.dm, world.ann, "two", deliver=False)
        world.fake.edit(missed, "two, edited")
        await world.mailbox.has(2)
        world.fake.drop()
        await world.mailbox.has(3)
    assert [(one.change, one.text) for one in world.mailbox.taken[1:]] == [
        (MessageChange.EDITED, "two, edited"),
        (MessageChange.NEW, "two, edited"),
    ]


async def test_what_is_said_after_a_fetch_has_looked_is_fetched_by_the_next():
    mailbox, looked, go_on = Mailbox(), asyncio.Event(), asyncio.Event()

    async def history(channel_id, after):
        for n in range(after + 1, 10 if looked.is_set() else 9):
            yield message(n)
        looked.set()
        await go_on.wait()

    mailbox.positions = {"7": (5, "5"), WHOLE: (1, "1")}
    reading = reading_of(mailbox, history)
    reading.connected()
    await looked.wait()
    reading.check([GuildChannel(7, 9, lambda: True)])  # the ninth was said behind the last page
    await asyncio.sleep(0)
    go_on.set()
    await mailbox.has(4)
    await reading.close()
    assert [one.position for one in mailbox.taken] == [6, 7, 8, 9]


async def test_a_message_that_comes_late_is_taken_late_and_nothing_is_fetched_twice():
    mailbox, fetches = Mailbox(), asyncio.Queue[int]()

    async def history(channel_id, after):
        fetches.put_nowait(after)
        for n in range(after + 1, 9):
            yield message(n)

    mailbox.positions = {"7": (8, "8"), WHOLE: (1, "1")}
    reading = reading_of(mailbox, history)
    reading.connected()
    for n in (9, 4):
        reading.offer(DiscordEvent(change=MessageChange.NEW, channel_id=7, message_id=n))
    await mailbox.has(2)
    reading.connected()
    assert [await soon(fetches.get()), await soon(fetches.get())] == [8, 9]
    await reading.close()
    assert [one.position for one in mailbox.taken] == [9, 4]


async def test_a_stream_that_has_work_is_kept_however_many_channels_there_are(monkeypatch):
    """A second stream of the same channel would take its messages beside the first."""
    monkeypatch.setattr("holdfast.channels.discord.reading.STREAMS_MAX", 2)
    mailbox = Mailbox()

    async def history(channel_id, after):
        for n in range(0):
            yield message(n)

    mailbox.open.clear()
    reading = reading_of(mailbox, history)
    reading.connected()
    for channel_id, n in ((7, 1), (8, 2), (9, 3), (7, 4), (10, 5), (7, 6)):
        reading.offer(DiscordEvent(change=MessageChange.NEW, channel_id=channel_id, message_id=n))
    await mailbox.until(lambda: mailbox.offered >= 4)
    for _ in range(20):
        await asyncio.sleep(0)
    assert mailbox.offered == 4, "one of each channel"
    mailbox.open.set()
    await mailbox.has(6)
    await reading.close()
    assert [one.position for one in mailbox.taken if one.position in {1, 4, 6}] == [1, 4, 6]
