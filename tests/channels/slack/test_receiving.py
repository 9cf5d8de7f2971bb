"""A message on Slack is taken once and in order, and acknowledged only when it is durable."""

import asyncio

import pytest

from holdfast.channels.slack import reading, users
from holdfast.inbox.channel import IntakeOutcome
from holdfast.inbox.chat_message import MessageChange
from holdfast.kernel.errors import InvalidName, InvariantBroken, StoreFull, StoreUnavailable
from tests.channels.slack.kit import running
from tests.platforms.slack import Fault


async def test_a_direct_message_says_who_spoke_where_and_what(world):
    async with running(world.slack, world.bot, world.mailbox):
        ts = world.slack.say(world.dm, world.ada, "hello &amp; good morning")
        await world.mailbox.until(lambda: world.mailbox.taken)
    (message,) = world.mailbox.taken
    assert message.account == f"slack:T1.{world.bot.user}"
    assert (message.event_id, message.chat, message.chat_type, message.thread) == (ts, world.dm, "dm", None)
    assert (message.sender, message.sender_name) == (f"T1.{world.ada}", "Ada")
    assert (message.text, message.addressed, message.human) == ("hello & good morning", True, True)
    assert message.position == int(ts.replace(".", ""))
    assert message.change is MessageChange.NEW


@pytest.mark.parametrize("is_mention_first", [False, True])
async def test_a_mention_is_one_message_though_slack_tells_it_twice(world, is_mention_first):
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.hold(world.bot)
        world.slack.say(world.room, world.ada, f"<@{world.bot.user}> what is up?")
        world.slack.release(world.bot, (lambda held: held[::-1]) if is_mention_first else list)
        await world.slack.until(lambda: len(world.bot.acknowledged) == 2)
    (message,) = world.mailbox.taken
    assert (message.text, message.addressed, message.chat_type) == ("what is up?", True, "group")
    assert world.mailbox.clashes == []


async def test_two_channels_may_have_a_message_of_the_same_time(world, monkeypatch):
    """A `ts` is unique in its channel, not in the workspace."""
    async with running(world.slack, world.bot, world.mailbox):
        ts = world.slack.say(world.dm, world.ada, "to you alone")
        await world.slack.until(lambda: len(world.bot.acknowledged) == 1)  # the first is taken
        monkeypatch.setattr(world.slack, "_ts", lambda: ts)
        assert world.slack.say(world.room, world.ada, "to all") == ts
        await world.mailbox.until_texts("to all", chat=world.room)
    assert [(one.event_id, one.position) for one in world.mailbox.taken] == [(ts, int(ts.replace(".", "")))] * 2


async def test_talk_among_others_is_heard_but_not_addressed(world):
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.say(world.room, world.ada, "lunch?")
        await world.mailbox.until_texts("lunch?")
    assert not world.mailbox.taken[0].addressed


@pytest.mark.parametrize("kind", ["channel", "group", "mpim"])
async def test_every_kind_of_channel_with_several_people_is_a_group(world, kind):
    room = world.slack.room(world.bot, kind=kind)
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.say(room, world.ada, "hi")
        await world.mailbox.until_texts("hi")
    assert world.mailbox.taken[0].chat_type == "group"


async def test_its_own_words_are_no_news_and_another_bots_are_not_a_humans(world):
    other = world.slack.bot("other")
    room = world.slack.room(world.bot, other)
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.say(room, world.bot.user, "mine", bot_id=world.bot.bot_id, app_id=world.bot.app)
        world.slack.say(room, other.user, "theirs", bot_id=other.bot_id, app_id=other.app)
        world.slack.say(room, other.user, "old style", subtype="bot_message", bot_id="B99", username="cron")
        await world.mailbox.until_texts("theirs", "old style")
    assert [one.human for one in world.mailbox.taken] == [False, False]
    assert world.mailbox.taken[1].sender_name == "cron"


async def test_a_reply_is_in_its_thread_and_the_message_that_began_it_is_not(world):
    async with running(world.slack, world.bot, world.mailbox):
        first = world.slack.say(world.room, world.ada, "who is in?")
        world.slack.say(world.room, world.ada, "I am", thread=first)
        world.slack.say(world.room, world.ada, "and all hear it", thread=first, subtype="thread_broadcast")
        await world.mailbox.until_texts("who is in?", "I am", "and all hear it")
    assert [one.thread for one in world.mailbox.taken] == [None, first, first]


async def test_an_edit_and_a_deletion_are_events_of_their_own(world):
    async with running(world.slack, world.bot, world.mailbox):
        ts = world.slack.say(world.dm, world.ada, "helo")
        world.slack.edit(world.dm, ts, "hello")
        edited = world.slack.rooms[world.dm].messages[ts]["edited"]["ts"]
        world.slack.delete(world.dm, ts)
        await world.mailbox.until_texts("helo", "hello", "")
    _, edit, deletion = world.mailbox.taken
    assert (edit.change, edit.of, edit.event_id) == (MessageChange.EDITED, ts, f"{ts}.edit.{edited}")
    assert (deletion.change, deletion.of, deletion.event_id) == (MessageChange.DELETED, ts, f"{ts}.delete")
    assert {edit.sender, deletion.sender} == {f"T1.{world.ada}"}


async def test_a_link_preview_is_no_edit(world):
    async with running(world.slack, world.bot, world.mailbox):
        ts = world.slack.say(world.dm, world.ada, "look")
        world.slack.edit(world.dm, ts, "look", by_author=False)
        await world.slack.until(lambda: len(world.bot.acknowledged) == 2)
    assert world.mailbox.texts() == ["look"]


async def test_the_first_message_of_a_thread_can_be_deleted_while_replies_remain(world):
    async with running(world.slack, world.bot, world.mailbox):
        ts = world.slack.say(world.room, world.ada, "first")
        before = world.slack.rooms[world.room].messages[ts]
        grave = {"type": "message", "subtype": "tombstone", "user": "USLACKBOT", "ts": ts, "text": "gone"}
        change = {"subtype": "message_changed", "message": grave, "previous_message": before}
        world.slack._tell(world.room, change)
        await world.mailbox.until_texts("first", "")
    assert world.mailbox.taken[1].event_id == f"{ts}.delete"


TEXTS = [
    ("<@U7ADA> said it", "@Grace said it"),
    ("<@U404> said it", "@U404 said it"),
    ("see <#C1|general> and <#C2>", "see #general and #C2"),
    ("<https://example.org/a?b=1&amp;c=2>", "https://example.org/a?b=1&c=2"),
    ("<https://example.org|the page>", "the page (https://example.org)"),
    ("<http://example.org|example.org>", "http://example.org"),
    ("<mailto:a@example.org|a@example.org>", "a@example.org"),
    ("<!here> <!subteam^S1|@crew> <!date^1^{date}|yesterday>", "@here @crew yesterday"),
    ("1 &lt; 2 &amp;&amp; &amp;lt; stays", "1 < 2 && &lt; stays"),
]


@pytest.mark.parametrize(("raw", "shown"), TEXTS)
async def test_text_reads_as_people_see_it(world, raw, shown):
    world.slack.person("Grace", "U7ADA")
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.say(world.dm, world.ada, raw)
        await world.mailbox.until_texts(shown)


async def test_joins_and_topics_are_acknowledged_and_not_taken(world):
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.say(world.room, world.ada, "Ada has joined", subtype="channel_join")
        world.slack._deliver(world.bot, {"type": "reaction_added", "user": world.ada})
        world.slack._deliver(world.bot, {"type": "message", "channel": world.room, "ts": ["?"], "text": 7})
        await world.slack.until(lambda: len(world.bot.acknowledged) == 3)
    assert world.mailbox.asked == []


async def test_a_name_is_asked_for_once_and_never_needed(world):
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.say(world.dm, world.ada, "one")
        world.slack.say(world.dm, world.ada, "two")
        world.slack.say(world.dm, "U404", "three")
        await world.mailbox.until_texts("one", "two", "three")
    assert [one.sender_name for one in world.mailbox.taken] == ["Ada", "Ada", ""]
    assert [params["user"] for method, params in world.slack.requests if method == "users.info"] == [world.ada, "U404"]


async def test_a_name_that_never_comes_does_not_hold_up_a_message(world, monkeypatch):
    monkeypatch.setattr(users, "ASK_S", 0.05)
    world.slack.faults = [Fault("users.info", stall=True)]
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.say(world.dm, world.ada, "hello")
        await world.mailbox.until_texts("hello")


async def test_nothing_is_acknowledged_before_it_is_durable(world):
    world.mailbox.shut(world.dm)
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.say(world.dm, world.ada, "slow")
        await world.mailbox.until(lambda: world.mailbox.asked)
        world.slack.say(world.room, world.ada, "quick")  # one socket: an earlier acknowledgement would come first
        await world.slack.until(lambda: world.bot.acknowledged)
        (open_envelope,) = world.bot.sent.values()
        assert open_envelope.payload["event"]["text"] == "slow"
        world.mailbox.open(world.dm)
        await world.slack.until(lambda: not world.bot.sent)
    assert world.mailbox.texts() == ["quick", "slow"]


@pytest.mark.parametrize("error", [StoreUnavailable, StoreFull, InvariantBroken])
async def test_what_cannot_be_made_durable_waits_at_the_head_of_its_conversation(world, error):
    """Whether time, the operator or a new release mends it: only what its sender would have to correct is let go."""
    world.mailbox.errors = [error("no"), error("no"), error("no")]
    async with running(world.slack, world.bot, world.mailbox):
        for text in ("one", "two", "three"):
            world.slack.say(world.dm, world.ada, text)
        await world.slack.until(lambda: len(world.bot.acknowledged) == 3)
    assert world.mailbox.texts() == ["one", "two", "three"]
    assert [one.text for one in world.mailbox.asked] == ["one", "one", "one", "one", "two", "three"]


async def test_an_event_that_cannot_be_accepted_delays_no_other(world):
    world.mailbox.errors = [InvalidName("the sender is no name")]
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.say(world.dm, world.ada, "one")
        world.slack.say(world.dm, world.ada, "two")
        await world.slack.until(lambda: len(world.bot.acknowledged) == 2)
    assert world.mailbox.texts() == ["two"]


async def test_what_slack_sends_again_is_acknowledged_and_not_doubled(world):
    world.mailbox.shut(world.dm)
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.say(world.dm, world.ada, "once")
        await world.mailbox.until(lambda: world.mailbox.asked)
        world.slack.redeliver(world.bot)
        world.mailbox.open(world.dm)
        await world.slack.until(lambda: len(world.bot.acknowledged) == 2)
    assert world.mailbox.texts() == ["once"]


async def test_what_was_taken_lately_is_not_asked_about_again_and_what_was_long_ago_is(world, monkeypatch):
    """What is remembered has a limit, and the oldest goes first; the intake knows the rest."""
    monkeypatch.setattr(reading, "TAKEN_MAX", 2)
    async with running(world.slack, world.bot, world.mailbox):
        for text in ("one", "two", "three"):
            world.slack.say(world.dm, world.ada, text)
        await world.slack.until(lambda: len(world.bot.acknowledged) == 3)
        first, _, last = list(world.slack.rooms[world.dm].messages.values())
        for n, message in enumerate((last, first), 4):
            world.slack._announce(world.slack.rooms[world.dm], message)
            await world.slack.until(lambda n=n: len(world.bot.acknowledged) == n)
    assert [one.text for one in world.mailbox.asked] == ["one", "two", "three", "one"]
    assert world.mailbox.texts() == ["one", "two", "three"]


async def test_a_restarted_process_takes_the_same_event_as_a_duplicate(world):
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.say(world.dm, world.ada, "once")
        await world.slack.until(lambda: world.bot.acknowledged)
    async with running(world.slack, world.bot, world.mailbox):
        message = next(iter(world.slack.rooms[world.dm].messages.values()))
        world.slack._announce(world.slack.rooms[world.dm], message)
        await world.slack.until(lambda: len(world.bot.acknowledged) == 2)
    assert (world.mailbox.texts(), world.mailbox.verdicts) == (["once"], [IntakeOutcome.TAKEN, IntakeOutcome.DUPLICATE])


async def test_doubled_and_reordered_events_are_each_taken_once(world):
    world.bot.doubled = True
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.hold(world.bot)
        for n in range(5):
            world.slack.say(world.dm, world.ada, str(n))
        world.slack.release(world.bot, lambda held: held[::-1])
        await world.slack.until(lambda: len(world.bot.acknowledged) == 10)
    assert sorted(world.mailbox.texts()) == ["0", "1", "2", "3", "4"]


async def test_bots_on_one_slack_hear_only_their_own_rooms(world):
    other = world.slack.bot("other")
    theirs = world.slack.room(other, kind="im")
    both = world.slack.room(world.bot, other)
    more = type(world.mailbox)()
    async with running(world.slack, world.bot, world.mailbox), running(world.slack, other, more):
        world.slack.say(world.dm, world.ada, "to muse")
        world.slack.say(theirs, world.ada, "to other")
        world.slack.say(both, world.ada, "to both")
        await world.mailbox.until(lambda: len(world.mailbox.taken) == 2)
        await more.until(lambda: len(more.taken) == 2)
    assert (sorted(world.mailbox.texts()), sorted(more.texts())) == (["to both", "to muse"], ["to both", "to other"])


async def test_ending_leaves_no_connection_and_no_task(world):
    before = asyncio.all_tasks()
    world.mailbox.shut(world.dm)
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.say(world.dm, world.ada, "unfinished")
        await world.mailbox.until(lambda: world.mailbox.asked)
        assert _ours(before)
    await world.slack.until(lambda: not world.bot.pipes)
    assert (_ours(before), world.bot.acknowledged, world.mailbox.taken) == (set(), [], [])


def _ours(before):
    """The new tasks whose coroutine is Holdfast's or its client's; the fake server and the clone may have any path."""
    files = {task: task.get_coro().cr_code.co_filename for task in asyncio.all_tasks() - before}
    return {task for task, file in files.items() if "/src/holdfast/" in file or "/websockets/" in file}
