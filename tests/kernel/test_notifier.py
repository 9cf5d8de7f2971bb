"""A notification that came before the wait counts, and a reader that is too slow gets an error, never a gap."""

import asyncio

import pytest

from holdfast.kernel import notifier as notifiers
from holdfast.kernel.notifier import DELTA, Event, Feed, FeedOverrun, Notifier, Topic, Woken
from tests.support.loop_time import put_forward
from tests.support.patience import within

SOON_MS = 60_000  # far beyond what a passing test waits
AT_ONCE_MS = 0


def event(name: str = "turn.delta", *, mailbox: str = "mbx_1", messages: tuple[str, ...] = ("msg_1",)) -> Event:
    return Event(name=name, mailbox=mailbox, messages=messages)


async def drain(feed: Feed) -> list[Event]:
    """What the feed holds now."""
    found = []
    while (one := await feed.next_within(AT_ONCE_MS)) is not None:
        found.append(one)
    return found


# --- wake-ups ----------------------------------------------------------------------------------------------------


async def test_a_wake_up_before_the_wait_counts():
    bell = Notifier()
    bell.wake(Topic.MAIL)
    assert await bell.wait(Topic.MAIL, timeout_ms=SOON_MS)


async def test_a_wake_up_counts_once():
    bell = Notifier()
    bell.wake(Topic.MAIL)
    bell.wake(Topic.MAIL)
    assert await bell.wait(Topic.MAIL, timeout_ms=SOON_MS)
    assert not await bell.wait(Topic.MAIL, timeout_ms=AT_ONCE_MS)


async def test_a_wake_up_ends_a_wait():
    bell = Notifier()
    waiting = asyncio.create_task(bell.wait(Topic.COMPRESS, timeout_ms=SOON_MS))
    await asyncio.sleep(0)
    bell.wake(Topic.COMPRESS)
    assert await waiting


async def test_topics_do_not_wake_each_other():
    bell = Notifier()
    for topic in Topic:
        if topic is not Topic.MAIL:
            bell.wake(topic)
    assert not await bell.wait(Topic.MAIL, timeout_ms=AT_ONCE_MS)


async def test_a_wake_up_that_comes_with_the_timeout_is_kept_for_the_next_wait():
    bell = Notifier()
    assert not await bell.wait(Topic.MAIL, timeout_ms=AT_ONCE_MS)
    bell.wake(Topic.MAIL)
    assert await bell.wait(Topic.MAIL, timeout_ms=SOON_MS)


async def test_before_the_first_look_anything_may_be_due():
    bell = Notifier()
    assert bell.take(Topic.MAIL).anything
    assert not bell.take(Topic.MAIL).anything


async def test_keys_of_wake_ups_are_taken_once_and_in_order():
    bell = Notifier()
    bell.take(Topic.REPLY)
    for key in ("b", "a", "b"):
        bell.wake(Topic.REPLY, key)
    woken = bell.take(Topic.REPLY)
    assert (woken.anything, woken.keys) == (False, ("b", "a"))
    assert bell.take(Topic.REPLY).keys == ()


async def test_more_keys_than_are_kept_are_anything(monkeypatch):
    monkeypatch.setattr(notifiers, "KEYS_MAX", 2)
    bell = Notifier()
    bell.take(Topic.REPLY)
    for key in range(9):
        bell.wake(Topic.REPLY, key)
    woken = bell.take(Topic.REPLY)
    assert woken.anything
    assert len(woken.keys) == 2


async def test_a_nudge_ends_a_wait_and_announces_nothing():
    bell = Notifier()
    bell.take(Topic.REPLY)
    bell.nudge(Topic.REPLY)
    assert await bell.wait(Topic.REPLY, timeout_ms=SOON_MS)
    assert bell.take(Topic.REPLY) == Woken(anything=False, keys=())


async def test_work_that_is_due_later_is_announced_then():
    bell = Notifier()
    bell.take(Topic.REPLY)
    bell.wake_in(Topic.REPLY, 5_000, "a")
    assert bell.take(Topic.REPLY).keys == ()
    put_forward(5)
    assert await bell.wait(Topic.REPLY, timeout_ms=SOON_MS)
    assert bell.take(Topic.REPLY).keys == ("a",)
    bell.wake_in(Topic.REPLY, 0, "b")
    assert bell.take(Topic.REPLY).keys == ("b",)


# --- feeds -------------------------------------------------------------------------------------------------------


async def test_a_feed_hears_what_it_asked_for():
    bell = Notifier()
    feeds = {
        "all": bell.subscribe(),
        "mailbox": bell.subscribe(mailbox="mbx_1"),
        "message": bell.subscribe(message="msg_2"),
        "name": bell.subscribe(name="turn.opened"),
        "both": bell.subscribe(mailbox="mbx_2", name="turn.opened"),
    }
    published = [
        event("turn.opened", messages=("msg_1", "msg_2")),
        event("turn.delta", mailbox="mbx_2", messages=("msg_3",)),
        event("turn.opened", mailbox="mbx_2", messages=("msg_2",)),
        Event(name="compress.done", session="ses_1"),
    ]
    for one in published:
        bell.publish(one)
    heard = {name: [published.index(one) for one in await drain(feed)] for name, feed in feeds.items()}
    assert heard == {"all": [0, 1, 2, 3], "mailbox": [0], "message": [0, 2], "name": [0, 2], "both": [2]}


async def test_a_feed_begins_when_it_is_made_and_not_when_it_is_read():
    bell = Notifier()
    bell.publish(event("before"))
    feed = bell.subscribe()
    bell.publish(event("after"))
    assert [one.name for one in await drain(feed)] == ["after"]


async def test_events_are_read_in_the_order_in_which_they_were_published():
    bell = Notifier()
    feed = bell.subscribe()
    for n in range(100):
        bell.publish(event(str(n)))
    assert [(await anext(feed)).name for _ in range(100)] == [str(n) for n in range(100)]


async def test_a_reader_that_waits_is_woken():
    bell = Notifier()
    feed = bell.subscribe(message="msg_1")
    reading = asyncio.create_task(feed.next_within(SOON_MS))
    await asyncio.sleep(0)
    bell.publish(event("turn.answered"))
    assert await reading == event("turn.answered")


async def test_nothing_in_time_is_none():
    assert await Notifier().subscribe().next_within(AT_ONCE_MS) is None


async def test_a_slow_reader_gets_all_that_was_kept_and_then_an_error_instead_of_a_gap(monkeypatch):
    monkeypatch.setattr(notifiers, "FEED_EVENTS_MAX", 3)
    bell = Notifier()
    slow, quick = bell.subscribe(), bell.subscribe()
    for n in range(5):
        bell.publish(event(str(n)))
        assert (await anext(quick)).name == str(n)
    assert [(await anext(slow)).name for _ in range(3)] == ["0", "1", "2"]
    with pytest.raises(FeedOverrun, match="more than 3 events"):
        await anext(slow)
    with pytest.raises(FeedOverrun):
        await slow.next_within(SOON_MS)


async def test_a_waiting_reader_learns_of_the_overrun(monkeypatch):
    monkeypatch.setattr(notifiers, "FEED_EVENTS_MAX", 0)
    bell = Notifier()
    feed = bell.subscribe()
    reading = asyncio.create_task(feed.next_within(SOON_MS))
    await asyncio.sleep(0)
    bell.publish(event())
    with pytest.raises(FeedOverrun):
        await reading


async def test_a_closed_feed_hears_nothing_more_and_is_forgotten():
    bell = Notifier()
    feed, other = bell.subscribe(message="msg_1"), bell.subscribe(message="msg_1")
    feed.close()
    feed.close()
    bell.publish(event())
    assert await drain(feed) == []
    assert len(await drain(other)) == 1
    other.close()
    assert bell._feeds == {}


async def test_closing_a_feed_releases_every_waiter():
    bell = Notifier()
    feed = bell.subscribe()
    waiting = asyncio.create_task(feed.next_within(SOON_MS))
    await asyncio.sleep(0)
    feed.close()
    async with within(SOON_MS / 10_000):
        assert await waiting is None


# --- deltas ----------------------------------------------------------------------------------------


def delta(message="m"):
    return Event(name=DELTA, mailbox="box", messages=(message,), text="piece")


def test_a_delta_without_a_subscriber_is_not_wanted():
    notifier = Notifier()
    heard: list[Event] = []
    notifier.tap(heard.append)
    notifier.listen("box", heard.append)
    notifier.subscribe(message="m", deltas=False)
    notifier.subscribe(message="another")
    notifier.subscribe(name="turn.answered")
    assert not notifier.wants_deltas("box", ("m",))
    notifier.publish(delta())
    assert heard == []


@pytest.mark.parametrize("of", [{"message": "m"}, {"mailbox": "box"}, {}, {"name": DELTA}], ids=str)
async def test_a_delta_reaches_those_who_asked_for_deltas(of):
    notifier = Notifier()
    heard: list[Event] = []
    feed = notifier.subscribe(**of)
    assert notifier.wants_deltas("box", ("m",))
    notifier.publish(delta())
    assert (await feed.__anext__()).text == "piece"
    feed.close()
    assert not notifier.wants_deltas("box", ("m",))
    notifier.tap(heard.append, deltas=True)
    assert notifier.wants_deltas("box", ("m",))
    notifier.publish(delta())
    assert [event.name for event in heard] == [DELTA]
