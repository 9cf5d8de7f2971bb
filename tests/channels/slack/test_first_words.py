"""The first message of a conversation is read back even when it was sent while the channel was not running."""

from dataclasses import replace

import pytest

from holdfast.channels.receiving import LEAST_MS, OVERLAP_MS, WHOLE
from holdfast.channels.slack import history
from holdfast.channels.slack.reading import READS_MAX
from holdfast.kernel.errors import StoreUnavailable
from holdfast.kernel.ids import AgentName
from holdfast.runtime.app import open_runtime
from holdfast.tools.toolbox import ToolBox
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.policy import AccessPolicy, Door
from tests.channels.slack.kit import running, slept, tasks_of
from tests.platforms.slack import Fault
from tests.support.fakes import ScriptedModel, policy
from tests.support.pace import Later

FAILS = [
    Fault("users.conversations", status=429, error="ratelimited", headers={"Retry-After": "7"}),
    Fault("users.conversations", status=503, body=""),
    Fault("users.conversations", body="[]"),
    Fault("conversations.history", status=429, error="ratelimited", headers={"Retry-After": "7"}),
    Fault("conversations.history", error="internal_error", times=3),
]


async def start(world, clock=None):
    """The account has been there before."""
    async with running(world.slack, world.bot, world.mailbox, clock):
        await world.mailbox.until(lambda: WHOLE in world.mailbox.marks)


def unheard(world, room, *texts, thread=None):
    return [world.slack.say(room, world.ada, text, thread=thread, deliver=False) for text in texts]


def noted(world):
    return [position for conversation, position in world.mailbox.notes if conversation == WHOLE]


def asked(world, method="conversations.history"):
    return [params for name, params in world.slack.requests if name == method]


async def test_what_was_said_first_while_the_process_was_away_is_read_back(world):
    rooms = [world.room, world.dm, *(world.slack.room(world.bot, kind=kind) for kind in ("group", "mpim"))]
    await start(world)
    said = [(room, *unheard(world, room, "first", "second")) for room in rooms]
    (new,) = unheard(world, world.room, "a thread begins")
    unheard(world, world.room, "a reply", thread=new)
    async with running(world.slack, world.bot, world.mailbox):
        await world.mailbox.until(lambda: len(world.mailbox.taken) == 10)
    for room, first, second in said:
        assert [one.event_id for one in world.mailbox.taken if one.chat == room][:2] == [first, second]
    assert world.mailbox.texts(world.room)[2:] == ["a thread begins", "a reply"]
    assert [one.thread for one in world.mailbox.taken if one.text == "a reply"] == [new]
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.say(world.dm, world.ada, "later")
        await world.mailbox.until_texts("first", "second", "later", chat=world.dm)
    assert len(world.mailbox.taken) == 11


async def test_the_first_start_ever_takes_nothing_old_and_neither_does_the_next(world):
    (thread,) = unheard(world, world.room, "long ago")
    unheard(world, world.room, "an old reply", thread=thread)
    unheard(world, world.dm, "long ago")
    await start(world)
    assert asked(world, "users.conversations") == []
    unheard(world, world.room, "first")
    async with running(world.slack, world.bot, world.mailbox):
        await world.mailbox.until_texts("first")
        world.slack.say(world.dm, world.ada, "now")
        await world.mailbox.until_texts("first", "now")


async def test_a_channel_is_read_where_only_one_of_its_threads_ever_was(world):
    (thread,) = unheard(world, world.room, "not for us")
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.say(world.room, world.ada, "help", thread=thread)
        await world.mailbox.until_texts("help")
    unheard(world, world.room, "more", thread=thread)
    unheard(world, world.room, "first in the channel")
    async with running(world.slack, world.bot, world.mailbox):
        await world.mailbox.until_texts("help", "more", "first in the channel")
    assert world.mailbox.clashes == []


async def test_what_comes_in_waits_behind_the_first_words(world):
    """Taken first it would be the mark of the conversation, and a crash then would lose them for ever."""
    await start(world)
    unheard(world, world.dm, "first")
    world.slack.faults = [Fault("users.conversations", status=503, body="", times=1_000_000)]
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.say(world.dm, world.ada, "second")
        await world.mailbox.until_texts("first", "second")
        world.slack.faults.clear()


async def surveyed(world, clock):
    """Everybody was asked since the last connecting, and the time was noted."""
    before = len(noted(world))
    clock.ahead_ms += LEAST_MS
    world.slack.drop(world.bot)
    await world.mailbox.until(lambda: len(noted(world)) > before)


async def test_first_words_are_read_back_after_a_lost_connection_though_all_were_asked_before(world):
    clock = Later()
    await start(world, clock)
    async with running(world.slack, world.bot, world.mailbox, clock):
        await surveyed(world, clock)
        world.slack.drop(world.bot)
        unheard(world, world.dm, "first")
        await world.mailbox.until_texts("first")


async def test_what_comes_in_after_a_lost_connection_waits_behind_the_first_words_too(world):
    clock = Later()
    await start(world, clock)
    async with running(world.slack, world.bot, world.mailbox, clock):
        await surveyed(world, clock)
        world.slack.faults = [Fault("users.conversations", status=503, body="", times=1_000_000)]
        connects = world.bot.connects
        world.slack.drop(world.bot)
        unheard(world, world.dm, "first")
        await world.slack.until(lambda: world.bot.connects > connects)
        world.slack.say(world.dm, world.ada, "second")
        await world.mailbox.until_texts("first", "second")
        world.slack.faults.clear()


@pytest.mark.parametrize("fault", FAILS, ids=lambda fault: f"{fault.on} {fault.error or fault.status}")
async def test_asking_is_tried_until_it_works(world, fault):
    await start(world)
    unheard(world, world.dm, "first")
    world.slack.faults = [Fault(**vars(fault))]
    async with running(world.slack, world.bot, world.mailbox) as channel:
        await world.mailbox.until_texts("first")
        assert ("Retry-After" in fault.headers) == (7_000 in slept(channel))


async def test_what_cannot_be_read_now_is_found_by_the_next_process(world):
    """The time up to which everything was heard does not move past it."""
    clock = Later()
    await start(world, clock)
    unheard(world, world.dm, "first")
    clock.ahead_ms = 2 * OVERLAP_MS
    world.slack.faults = [Fault("conversations.history", status=503, body="", times=1_000_000)]
    async with running(world.slack, world.bot, world.mailbox, clock) as channel:
        await world.slack.until(lambda: len(asked(world)) > 2)
        await tasks_of(channel).minute()
    assert len(noted(world)) == 1
    world.slack.faults.clear()
    async with running(world.slack, world.bot, world.mailbox, clock):
        await world.mailbox.until_texts("first")
        await world.mailbox.until(lambda: len(noted(world)) == 2)


async def test_what_the_store_could_not_take_is_found_by_the_next_process(world):
    clock = Later()
    await start(world, clock)
    clock.ahead_ms = 2 * OVERLAP_MS
    world.mailbox.shut(world.dm)
    async with running(world.slack, world.bot, world.mailbox, clock) as channel:
        world.slack.say(world.dm, world.ada, "first")
        await world.mailbox.until(lambda: world.mailbox.asked)
        await tasks_of(channel).minute()
    world.mailbox.open(world.dm)
    async with running(world.slack, world.bot, world.mailbox, clock):
        await world.mailbox.until_texts("first")


async def test_the_time_does_not_move_past_what_waits_for_the_store(world):
    clock = Later()
    await start(world, clock)
    clock.ahead_ms = LEAST_MS
    async with running(world.slack, world.bot, world.mailbox, clock) as channel:
        await world.mailbox.until(lambda: len(noted(world)) == 2)  # everybody was asked
        world.mailbox.shut(world.dm)
        world.slack.say(world.dm, world.ada, "first")
        await world.mailbox.until(lambda: world.mailbox.asked)
        clock.ahead_ms += LEAST_MS
        for _ in range(20):
            await tasks_of(channel).minute()
        assert len(noted(world)) == 2
        world.mailbox.open(world.dm)
        await world.slack.until(lambda: not world.bot.sent)
        for _ in range(20):  # the lane is empty by then
            await tasks_of(channel).minute()
        assert len(noted(world)) == 3


async def test_many_conversations_are_listed_in_pages_and_few_are_asked_at_once(world, monkeypatch):
    monkeypatch.setattr(history, "PAGE", 7)
    rooms = [world.slack.room(world.bot) for _ in range(30)]
    await start(world)
    for room in rooms:
        unheard(world, room, "first")
    world.slack.faults = [Fault("conversations.history", stall=True, times=1_000_000)]
    async with running(world.slack, world.bot, world.mailbox):
        await world.slack.until(lambda: len(asked(world)) == READS_MAX)
        world.slack.say(world.room, world.bot.user, "no news")
        await world.slack.until(lambda: world.bot.acknowledged)
        assert len(asked(world)) == READS_MAX
    world.slack.faults.clear()
    async with running(world.slack, world.bot, world.mailbox):
        await world.mailbox.until(lambda: len(world.mailbox.taken) == 30)


async def test_conversations_that_wait_for_the_store_hold_up_no_others_after_a_lost_connection(world):
    """Each has a message that cannot be kept, and its reading back waits behind that since the connection before."""
    await start(world)
    busy = [world.slack.room(world.bot) for _ in range(READS_MAX)]
    async with running(world.slack, world.bot, world.mailbox):
        for room in busy:
            world.mailbox.shut(room)
            world.slack.say(room, world.ada, "held up")
        await world.mailbox.until(lambda: len(world.mailbox.asked) == READS_MAX)
        for connects in (3, 4):
            listed = len(asked(world, "users.conversations"))
            world.slack.drop(world.bot)
            await world.slack.until(lambda connects=connects: world.bot.connects == connects)
            await world.slack.until(lambda listed=listed: len(asked(world, "users.conversations")) == listed + 4)
        late = world.slack.room(world.bot)
        unheard(world, late, "first")
        world.slack.drop(world.bot)
        await world.mailbox.until_texts("first", chat=late)
        for room in busy:
            world.mailbox.open(room)
        await world.mailbox.until(lambda: len(world.mailbox.taken) == READS_MAX + 1)


async def test_a_type_that_the_app_may_not_list_is_passed_over_and_read_when_it_is_heard(world, caplog):
    world.bot.may_list.remove("im")
    await start(world)
    unheard(world, world.dm, "first")
    unheard(world, world.room, "in the channel")
    async with running(world.slack, world.bot, world.mailbox):
        await world.mailbox.until_texts("in the channel")
        world.slack.say(world.dm, world.ada, "second")
        await world.mailbox.until_texts("first", "second", chat=world.dm)
    assert "channel.skipped" in [record.msg for record in caplog.records]


async def test_a_conversation_that_could_not_be_listed_is_read_back_at_its_first_event(world):
    clock = Later()
    await start(world, clock)
    unheard(world, world.dm, "first")
    clock.ahead_ms = 2 * OVERLAP_MS
    world.slack.faults = [Fault("users.conversations", error="missing_scope", times=1_000_000)]
    async with running(world.slack, world.bot, world.mailbox, clock):
        await world.mailbox.until(lambda: len(noted(world)) == 2)  # the time has moved past it
        world.slack.drop(world.bot)
        await world.slack.until(lambda: world.bot.connects == 3)
        world.slack.say(world.dm, world.ada, "second")
        await world.mailbox.until_texts("first", "second", chat=world.dm)


async def test_a_channel_that_could_not_be_listed_begins_at_the_account_watermark(world):
    """The bot may have been invited since: unlike a conversation of two, what was said before may not be for it."""
    clock = Later()
    await start(world, clock)
    unheard(world, world.room, "before the bot came")
    clock.ahead_ms = 2 * OVERLAP_MS
    world.slack.faults = [Fault("users.conversations", error="missing_scope", times=1_000_000)]
    async with running(world.slack, world.bot, world.mailbox, clock):
        await world.mailbox.until(lambda: len(noted(world)) == 2)
        world.slack.drop(world.bot)
        await world.slack.until(lambda: world.bot.connects == 3)
        world.slack.say(world.room, world.ada, "welcome")
        await world.slack.until(lambda: not world.bot.sent and world.bot.acknowledged)
        await world.mailbox.until_texts("welcome")


async def test_writes_are_few_however_much_is_said(world):
    clock = Later()
    async with running(world.slack, world.bot, world.mailbox, clock) as channel:
        for n in range(50):
            world.slack.say(world.dm, world.ada, f"{n}")
        await world.mailbox.until(lambda: len(world.mailbox.taken) == 50)
        await world.slack.until(lambda: not world.bot.sent)
        await tasks_of(channel).minute()  # too soon after the start
        assert len(noted(world)) == 1
        clock.ahead_ms += LEAST_MS
        await tasks_of(channel).minute()
        await tasks_of(channel).minute()
        assert len(noted(world)) == 2
        for connects in range(2, 6):
            world.slack.drop(world.bot)
            await world.slack.until(lambda connects=connects: world.bot.connects == connects)
    assert len(noted(world)) == 2


async def test_a_store_that_cannot_note_the_first_start_is_asked_again(world, monkeypatch):
    note_read, fails = world.mailbox.note_read, [StoreUnavailable("no")]

    async def fail_once(*args):
        if fails:
            raise fails.pop()
        await note_read(*args)

    monkeypatch.setattr(world.mailbox, "note_read", fail_once)
    await start(world)
    unheard(world, world.dm, "first")
    async with running(world.slack, world.bot, world.mailbox):
        await world.mailbox.until_texts("first")


async def test_the_first_private_message_is_answered_once_although_the_bot_was_away(world, tmp_path, monkeypatch):
    slack = world.slack
    monkeypatch.setenv("BOT", world.bot.token)
    monkeypatch.setenv("APP", world.bot.app_token)
    table = {"slack": {"token_env": "BOT", "app_token_env": "APP", "api_url": slack.api_url}}
    model = ScriptedModel()
    access = AccessPolicy(door=Door.OPEN, group_door=Door.OPEN)
    chosen = replace(policy(), access=access, memory={}, channels=table)
    agent = Agent(policy=chosen, model=model, summariser=model, tools=ToolBox())
    other = slack.room(world.bot, kind="im")

    async def exchange(text):
        agents = Agents(None, {AgentName("ada"): agent})
        async with await open_runtime(tmp_path / "data", agents=agents, connect=tmp_path):
            await slack.until(lambda: world.bot.pipes)
            slack.say(other, world.ada, text)
            await slack.until(lambda: slack.posts(other) and slack.posts(other)[-1]["text"] == f"re: {text}")
            await slack.until(lambda: text == "one" or slack.posts(world.dm))

    await exchange("one")
    unheard(world, world.dm, "first")
    await exchange("two")
    await exchange("three")
    assert [post["text"] for post in slack.posts(world.dm)] == ["re: first"]
