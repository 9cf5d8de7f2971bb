"""Messages that were sent while the channel was not running are read back in order, before later messages."""

import asyncio

import pytest

from holdfast.channels.slack import history, reading
from holdfast.kernel.errors import StoreUnavailable
from tests.channels.slack.kit import running, slept
from tests.platforms.slack import Fault

REFUSED_ONCE = [
    Fault("conversations.history", status=429, error="ratelimited", headers={"Retry-After": "7"}),
    Fault("conversations.history", status=503, body="<html>", content_type="text/html"),
    Fault("conversations.history", cut=True, times=2),
    Fault("conversations.history", error="fatal_error"),
    Fault("conversations.history", body='{"ok": tr'),
    Fault("conversations.history", body="ok", content_type="text/plain"),
    Fault("conversations.history", body="[]"),
]


async def known(world, *rooms):
    """Channels in which a message was received before."""
    for room in rooms:
        world.slack.say(room, world.ada, "before")
    await world.mailbox.until(lambda: len(world.mailbox.taken) == len(rooms))
    await world.slack.until(lambda: not world.bot.sent)


def say_unheard(world, room, *texts, thread=None):
    return [world.slack.say(room, world.ada, text, thread=thread, deliver=False) for text in texts]


def asked_for(world, room):
    return [params for method, params in world.slack.requests if params.get("channel") == room and "history" in method]


async def test_what_was_missed_is_read_back_after_a_lost_connection(world):
    async with running(world.slack, world.bot, world.mailbox):
        await known(world, world.dm)
        world.slack.drop(world.bot)
        say_unheard(world, world.dm, "one", "two", "three")
        await world.mailbox.until_texts("before", "one", "two", "three")
    assert world.mailbox.story[0::2] == ["connected", "connected"]
    assert world.mailbox.story[1].startswith("disconnected: ")


async def test_what_was_missed_is_read_back_after_a_restart(world):
    async with running(world.slack, world.bot, world.mailbox):
        await known(world, world.dm, world.room)
    say_unheard(world, world.dm, "to you")
    say_unheard(world, world.room, "to all")
    async with running(world.slack, world.bot, world.mailbox):
        await world.mailbox.until_texts("before", "to you", chat=world.dm)
        await world.mailbox.until_texts("before", "to all", chat=world.room)


async def test_many_pages_are_read_back_oldest_first(world, monkeypatch):
    monkeypatch.setattr(history, "PAGE", 7)
    async with running(world.slack, world.bot, world.mailbox):
        await known(world, world.dm)
    say_unheard(world, world.dm, *map(str, range(30)))
    async with running(world.slack, world.bot, world.mailbox):
        await world.mailbox.until_texts("before", *map(str, range(30)))


async def test_no_more_readings_back_wait_than_there_is_room_for(world, monkeypatch):
    rooms = [world.slack.room(world.bot) for _ in range(6)]
    async with running(world.slack, world.bot, world.mailbox):
        await known(world, *rooms)
    monkeypatch.setattr(reading, "WAITING_MAX", 2)
    world.slack.requests.clear()
    world.slack.faults = [Fault("conversations.history", stall=True, times=1_000_000)]
    async with running(world.slack, world.bot, world.mailbox):
        await world.slack.until(lambda: sum(len(asked_for(world, room)) for room in rooms) >= 2)
        for _ in range(200):
            await asyncio.sleep(0)  # a third would be asked for by now; should it be late, the test only shows less
        assert sum(len(asked_for(world, room)) for room in rooms) == 2


async def test_what_comes_in_meanwhile_waits_behind_what_was_missed(world):
    async with running(world.slack, world.bot, world.mailbox):
        await known(world, world.dm)
    say_unheard(world, world.dm, "missed")
    world.slack.faults = [Fault("conversations.history", status=503, body="", times=1_000_000)]
    async with running(world.slack, world.bot, world.mailbox):
        acknowledged = len(world.bot.acknowledged)
        world.slack.say(world.dm, world.ada, "live")
        world.slack.say(world.room, world.bot.user, "no news")  # one socket: once this is heard, the other has come in
        await world.slack.until(lambda: len(world.bot.acknowledged) > acknowledged)
        world.slack.faults.clear()
        await world.mailbox.until_texts("before", "missed", "live", chat=world.dm)


async def test_events_of_a_connection_are_taken_though_it_was_lost_before_they_were_read(world):
    """The first words of a conversation are in no history that would be read back."""
    world.mailbox.marks_gate = asyncio.Event()
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.say(world.dm, world.ada, "first words ever")
        world.slack.say(world.dm, world.ada, "and more")
        await world.mailbox.until(lambda: world.mailbox.story == ["connected"])
        world.slack.ask_reconnect(world.bot)
        await world.slack.until(lambda: not world.bot.pipes)
        for _ in range(100):
            await asyncio.sleep(0)  # the frames come in; should one be late, the test only shows less
        world.mailbox.marks_gate.set()
        await world.mailbox.until_texts("first words ever", "and more")


async def test_replies_are_read_back_in_threads_old_and_new(world):
    async with running(world.slack, world.bot, world.mailbox):
        await known(world, world.room)
        old = world.slack.say(world.room, world.ada, "old thread")
        world.slack.say(world.room, world.ada, "old reply", thread=old)
        await world.mailbox.until(lambda: len(world.mailbox.taken) == 3)
    say_unheard(world, world.room, "missed old", thread=old)
    (new,) = say_unheard(world, world.room, "new thread")
    say_unheard(world, world.room, "missed new", thread=new)
    async with running(world.slack, world.bot, world.mailbox):
        await world.mailbox.until(lambda: len(world.mailbox.taken) == 6)
    assert world.mailbox.texts()[3:] == ["missed old", "new thread", "missed new"]
    assert [one.thread for one in world.mailbox.taken[3:]] == [old, None, new]


async def test_a_thread_is_read_back_where_only_the_thread_was_ever_read(world):
    (first,) = say_unheard(world, world.room, "not for us")
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.say(world.room, world.ada, f"<@{world.bot.user}> help", thread=first)
        await world.mailbox.until_texts("help")
    say_unheard(world, world.room, "missed", thread=first)
    async with running(world.slack, world.bot, world.mailbox):
        await world.mailbox.until_texts("help", "missed")
    assert world.mailbox.clashes == []


async def test_a_conversation_never_read_before_starts_with_what_comes_in(world):
    say_unheard(world, world.room, "long ago")
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.say(world.room, world.ada, "now")
        await world.mailbox.until_texts("now")


async def test_an_event_that_overtook_another_does_not_hide_it(world):
    """The later one moved the mark; the earlier one was never acknowledged, and the process died."""
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.hold(world.bot)
        world.slack.say(world.dm, world.ada, "earlier")
        world.slack.say(world.dm, world.ada, "later")
        world.slack.release(world.bot, lambda held: held[1:])
        await world.mailbox.until_texts("later")
    async with running(world.slack, world.bot, world.mailbox):
        await world.mailbox.until_texts("later", "earlier")


async def test_a_reply_that_was_overtaken_in_its_thread_is_read_back(world):
    async with running(world.slack, world.bot, world.mailbox):
        thread = world.slack.say(world.room, world.ada, "thread")
        await world.mailbox.until_texts("thread")
        world.slack.hold(world.bot)
        for text in ("earlier", "later"):
            world.slack.say(world.room, world.ada, text, thread=thread)
        world.slack.release(world.bot, lambda held: held[1:])
        await world.mailbox.until_texts("thread", "later")
    async with running(world.slack, world.bot, world.mailbox):
        await world.mailbox.until_texts("thread", "later", "earlier")


async def test_new_replies_of_a_thread_that_was_never_read_are_read_back_and_older_ones_are_not(world, monkeypatch):
    """The thread began before the newest mark, and within a day of it."""
    monkeypatch.setattr(history, "OVERLAP", 0)
    (thread,) = say_unheard(world, world.room, "not for us")
    say_unheard(world, world.room, "nor this", thread=thread)
    async with running(world.slack, world.bot, world.mailbox):
        await known(world, world.room)
    say_unheard(world, world.room, "missed", thread=thread)
    async with running(world.slack, world.bot, world.mailbox):
        await world.mailbox.until_texts("before", "missed")


async def test_a_thread_that_was_deleted_does_not_hide_what_else_was_missed(world):
    async with running(world.slack, world.bot, world.mailbox):
        thread = world.slack.say(world.room, world.ada, "thread")
        world.slack.say(world.room, world.ada, "reply", thread=thread)
        await world.mailbox.until_texts("thread", "reply")
    say_unheard(world, world.room, "missed")
    world.slack.faults = [Fault("conversations.replies", error="thread_not_found", times=1_000_000)]
    async with running(world.slack, world.bot, world.mailbox):
        await world.mailbox.until_texts("thread", "reply", "missed")


def test_marks_are_put_back_to_where_they_were_and_never_forward():
    put_back, late = history.earlier_of, 9_000_000_000
    assert put_back({None: late, "t1": late, "t2": late}, {None: 7, "t1": 5}, None) == {None: 7, "t1": 5, "t2": 7}
    assert put_back({None: 3}, {None: 7}, None) == {None: 3}
    assert put_back({None: late}, {}, None) == {None: late}
    assert put_back({None: late}, {}, 5) == {None: 5 + history.OVERLAP}, "nothing up to there is read"


async def test_a_message_that_could_not_be_stored_when_the_connection_was_lost_is_stored_later(world):
    async with running(world.slack, world.bot, world.mailbox):
        world.mailbox.shut(world.dm)
        world.mailbox.errors = [StoreUnavailable("no")]
        world.slack.say(world.dm, world.ada, "first words ever")
        await world.mailbox.until(lambda: world.mailbox.asked)
        world.slack.drop(world.bot)
        await world.slack.until(lambda: world.bot.connects == 2)
        world.mailbox.open(world.dm)
        await world.mailbox.until_texts("first words ever")


async def test_a_process_that_died_before_keeping_a_message_reads_it_back(world):
    async with running(world.slack, world.bot, world.mailbox):
        await known(world, world.dm)
        world.mailbox.shut(world.dm)
        world.slack.say(world.dm, world.ada, "lost?")
        await world.mailbox.until(lambda: world.mailbox.asked[-1].text == "lost?")
    world.mailbox.open(world.dm)
    assert world.mailbox.texts() == ["before"]
    async with running(world.slack, world.bot, world.mailbox):
        await world.mailbox.until_texts("before", "lost?")


@pytest.mark.parametrize("fault", REFUSED_ONCE, ids=lambda fault: fault.error or fault.body or "cut")
async def test_reading_back_is_tried_until_it_works(world, fault):
    async with running(world.slack, world.bot, world.mailbox):
        await known(world, world.dm)
    say_unheard(world, world.dm, "missed")
    world.slack.faults = [Fault(**vars(fault))]
    async with running(world.slack, world.bot, world.mailbox) as channel:
        await world.mailbox.until_texts("before", "missed")
        assert ("Retry-After" in fault.headers) == (7_000 in slept(channel))


async def test_a_room_that_is_closed_to_the_bot_holds_up_no_other(world):
    async with running(world.slack, world.bot, world.mailbox):
        await known(world, world.room, world.dm)
    say_unheard(world, world.dm, "missed")
    world.slack.rooms[world.room].bots.remove(world.bot)
    world.slack.requests.clear()
    async with running(world.slack, world.bot, world.mailbox):
        await world.mailbox.until_texts("before", "missed", chat=world.dm)
        await world.slack.until(lambda: asked_for(world, world.room))
        world.slack.rooms[world.room].bots.append(world.bot)
        world.slack.say(world.room, world.ada, "back again")
        await world.mailbox.until_texts("before", "back again", chat=world.room)
    assert len(asked_for(world, world.room)) == 1, "a refusal is not asked about again"


@pytest.mark.parametrize("reason", ["warning", "refresh_requested", "too_many_websockets"])
async def test_slack_may_ask_for_another_connection_at_any_time(world, reason):
    async with running(world.slack, world.bot, world.mailbox):
        await known(world, world.dm)
        world.slack.ask_reconnect(world.bot, reason)
        say_unheard(world, world.dm, "meanwhile")
        await world.mailbox.until_texts("before", "meanwhile")
        await world.slack.until(lambda: world.bot.connects == 2)
        world.slack.say(world.dm, world.ada, "after")
        await world.mailbox.until_texts("before", "meanwhile", "after")
    assert f"disconnected: Slack asked to reconnect ({reason})" in world.mailbox.story


async def test_a_connection_that_falls_again_and_again_loses_nothing(world):
    said = []
    async with running(world.slack, world.bot, world.mailbox):
        await known(world, world.dm)
        for n in range(10):
            connects = world.bot.connects
            said += [f"{n} live", f"{n} missed"]
            world.slack.say(world.dm, world.ada, f"{n} live")
            world.slack.drop(world.bot)
            say_unheard(world, world.dm, f"{n} missed")
            await world.slack.until(lambda connects=connects: world.bot.connects > connects)
        await world.mailbox.until_texts("before", *said)


async def test_a_store_that_is_away_when_slack_is_back_is_asked_again(world):
    async with running(world.slack, world.bot, world.mailbox):
        await known(world, world.dm)
    say_unheard(world, world.dm, "missed")
    world.mailbox.mark_errors = [StoreUnavailable("no"), StoreUnavailable("no")]
    async with running(world.slack, world.bot, world.mailbox):
        await world.mailbox.until_texts("before", "missed")
    assert "disconnected: the read positions could not be loaded: store_unavailable" in world.mailbox.story
