"""The first message of a conversation is found even when it was sent while the channel was not running."""

from holdfast.channels.receiving import LEAST_MS, OVERLAP_MS, WHOLE
from holdfast.kernel.errors import StoreUnavailable
from tests.channels.discord.kit import running, tasks_of
from tests.platforms.discord import Fault
from tests.support.pace import Later


def asked(world, room):
    return world.fake.requests.count(f"GET /channels/{room.id}/messages")


async def start(world, clock=None):
    """The account has been there before."""
    async with running(world.fake, world.bot, world.mailbox, clock):
        await world.mailbox.until(lambda: WHOLE in world.mailbox.positions)


def noted(mailbox):
    return [position for conversation, position in mailbox.notes if conversation == WHOLE]


async def test_what_was_said_first_while_the_process_was_away_is_fetched(world):
    thread = world.fake.add_thread(world.room, "plans")
    await start(world)
    world.fake.say(world.room, world.ann, "in a channel")
    world.fake.say(thread, world.ann, "in a thread")
    new = world.fake.add_thread(world.room, "new plans")
    world.fake.say(new, world.ann, "in a new thread")
    async with running(world.fake, world.bot, world.mailbox):
        await world.mailbox.has(3)
    assert sorted(world.mailbox.texts()) == ["in a channel", "in a new thread", "in a thread"]
    assert [one.thread for one in world.mailbox.taken if one.text == "in a new thread"] == [new.id]
    async with running(world.fake, world.bot, world.mailbox):
        world.fake.say(world.room, world.ann, "later")
        await world.mailbox.has(4)
    assert len(world.mailbox.taken) == 4


async def test_the_first_start_ever_takes_nothing_old_and_neither_does_the_next(world):
    world.fake.say(world.room, world.ann, "long ago")
    await start(world)
    other = world.fake.add_channel(world.guild, "other")
    world.fake.say(other, world.ann, "first")
    async with running(world.fake, world.bot, world.mailbox):
        await world.mailbox.has(1)
        world.fake.say(world.room, world.ann, "now")
        await world.mailbox.has(2)
    assert world.mailbox.texts() == ["first", "now"]


async def test_a_conversation_of_two_is_read_back_when_it_is_heard_again(world):
    """Discord lists none to a bot; what was missed there comes before what is said next."""
    await start(world)
    world.fake.say(world.dm, world.ann, "anybody there?")
    async with running(world.fake, world.bot, world.mailbox):
        world.fake.say(world.dm, world.ann, "hello?")
        await world.mailbox.has(2)
    assert world.mailbox.texts() == ["anybody there?", "hello?"]


async def test_a_live_message_waits_for_the_first_words(world):
    await start(world)
    world.fake.say(world.room, world.ann, "first")
    world.mailbox.open.clear()
    async with running(world.fake, world.bot, world.mailbox):
        world.fake.say(world.room, world.ann, "second")
        await world.mailbox.until(lambda: world.mailbox.offered > 0)
        world.mailbox.open.set()
        await world.mailbox.has(2)
    assert world.mailbox.texts() == ["first", "second"]


async def test_a_room_where_nothing_is_new_or_that_is_closed_costs_no_request(world):
    hidden = world.fake.add_channel(world.guild, "hidden")
    quiet = world.fake.add_channel(world.guild, "quiet")
    world.fake.say(quiet, world.ann, "long ago")
    await start(world)
    hidden.is_hidden = True
    world.fake.say(hidden, world.ann, "among themselves")
    world.fake.say(world.room, world.ann, "first")
    async with running(world.fake, world.bot, world.mailbox):
        await world.mailbox.has(1)
    assert (asked(world, hidden), asked(world, quiet)) == (0, 0)


async def test_a_limit_of_the_rate_or_an_error_delays_what_was_missed_and_loses_nothing(world):
    await start(world)
    world.fake.say(world.room, world.ann, "first")
    where = f"GET /channels/{world.room.id}/messages"
    world.fake.limit(where, 0.01)
    world.fake.limit(where, 40.0)  # longer than discord.py waits by itself
    world.fake.faults.extend([Fault(where, status=400)] * 2)
    async with running(world.fake, world.bot, world.mailbox) as channel:
        await world.mailbox.has(1)
        assert 40_000 in tasks_of(channel).pauses_ms
    assert world.mailbox.texts() == ["first"]


async def test_what_cannot_be_read_now_is_found_by_the_next_process(world):
    """The time up to which everything was heard does not move past it."""
    clock = Later()
    await start(world, clock)
    world.fake.say(world.room, world.ann, "first")
    world.fake.faults.extend([Fault(f"GET /channels/{world.room.id}/messages", status=400)] * 1_000_000)
    clock.ahead_ms = 2 * OVERLAP_MS
    async with running(world.fake, world.bot, world.mailbox, clock) as channel:
        await world.fake.until(lambda: asked(world, world.room) > 1)
        await tasks_of(channel).minute()
    assert len(noted(world.mailbox)) == 1
    world.fake.faults.clear()
    async with running(world.fake, world.bot, world.mailbox, clock) as channel:
        await world.mailbox.has(1)
        await tasks_of(channel).minute()
    assert world.mailbox.texts() == ["first"]
    assert len(noted(world.mailbox)) == 2


async def test_what_the_store_could_not_take_is_found_by_the_next_process(world):
    clock = Later()
    await start(world, clock)
    clock.ahead_ms = 2 * OVERLAP_MS
    world.mailbox.open.clear()
    async with running(world.fake, world.bot, world.mailbox, clock) as channel:
        world.fake.say(world.room, world.ann, "first")
        await world.mailbox.until(lambda: world.mailbox.offered > 0)
        await tasks_of(channel).minute()
    world.mailbox.open.set()
    async with running(world.fake, world.bot, world.mailbox, clock):
        await world.mailbox.has(1)
    assert world.mailbox.texts() == ["first"]


async def test_a_guild_that_is_away_is_looked_through_when_it_is_back(world):
    clock = Later()
    await start(world, clock)
    world.fake.say(world.room, world.ann, "first")
    world.guild.is_away = True
    clock.ahead_ms = 2 * OVERLAP_MS
    async with running(world.fake, world.bot, world.mailbox, clock) as channel:
        world.fake.say(world.dm, world.ann, "hello")
        await world.mailbox.has(1)
        for _ in range(20):  # all other work has ended by then
            await tasks_of(channel).minute()
        assert len(noted(world.mailbox)) == 1
        world.fake.bring_back(world.guild)
        await world.mailbox.has(2)
        for _ in range(20):
            await tasks_of(channel).minute()
    assert world.mailbox.texts() == ["hello", "first"]
    assert len(noted(world.mailbox)) == 2


async def test_writes_are_few_however_much_is_said(world):
    clock = Later()
    async with running(world.fake, world.bot, world.mailbox, clock) as channel:
        for n in range(100):
            world.fake.say(world.room, world.ann, f"{n}")
        await world.mailbox.has(100)
        await tasks_of(channel).minute()  # too soon after the start
        assert len(noted(world.mailbox)) == 1
        clock.ahead_ms += LEAST_MS
        await tasks_of(channel).minute()
        await tasks_of(channel).minute()
        assert len(noted(world.mailbox)) == 2
        world.fake.drop()
        clock.ahead_ms += LEAST_MS
        await tasks_of(channel).minute()
    assert len(noted(world.mailbox)) <= 3


async def test_nothing_is_noted_while_the_connection_is_gone(world):
    clock = Later()
    async with running(world.fake, world.bot, world.mailbox, clock) as channel:
        await world.mailbox.until(lambda: WHOLE in world.mailbox.positions)
        world.fake.faults.extend([Fault("GET /gateway/", status=503)] * 100)
        world.fake.drop()
        await world.mailbox.until(lambda: bool(world.mailbox.downs))
        clock.ahead_ms += 2 * OVERLAP_MS
        tasks_of(channel).minutes.release()
    world.fake.faults.clear()
    assert len(noted(world.mailbox)) == 1
    world.fake.say(world.room, world.ann, "first")
    async with running(world.fake, world.bot, world.mailbox, clock):
        await world.mailbox.has(1)


async def test_a_store_that_is_away_at_the_first_start_is_asked_again(world):
    world.mailbox.read_errors.extend([StoreUnavailable("away")] * 2)
    await start(world)
    world.fake.say(world.room, world.ann, "first")
    async with running(world.fake, world.bot, world.mailbox):
        await world.mailbox.has(1)


async def test_where_reading_is_not_allowed_what_is_heard_is_taken_all_the_same(world):
    await start(world)
    world.fake.faults.extend([Fault(f"GET /channels/{world.dm.id}/messages", status=403)] * 5)
    async with running(world.fake, world.bot, world.mailbox):
        world.fake.say(world.dm, world.ann, "hello")
        await world.mailbox.has(1)
    assert world.mailbox.texts() == ["hello"]
