"""Messages on Discord arrive once and in order, each with its sender, its chat and its addressee."""

from holdfast.channels.discord.reading import AT_ONCE_MAX
from holdfast.inbox.chat_message import ATTACHMENT_BYTES_MAX, MessageChange
from tests.channels.discord.kit import Mailbox, running
from tests.platforms.discord import Fault


async def test_a_private_message_is_for_the_bot(world):
    async with running(world.fake, world.bot, world.mailbox):
        said = world.fake.say(world.dm, world.ann, "my cat is called Byron")
        await world.mailbox.has(1)
    [message] = world.mailbox.taken
    assert (message.account, message.event_id) == (f"discord:{world.bot.id}", said["id"])
    assert (message.chat, message.chat_type, message.thread) == (world.dm.id, "dm", None)
    assert (message.sender, message.sender_name, message.human) == (world.ann["id"], "Ann", True)
    assert (message.text, message.addressed, message.change) == ("my cat is called Byron", True, MessageChange.NEW)
    assert message.position == int(said["id"])


async def test_talk_in_a_guild_is_for_the_bot_when_it_is_called(world):
    bot, role = world.bot, world.guild.bots[world.bot.id]
    async with running(world.fake, bot, world.mailbox):
        world.fake.say(world.room, world.ann, "nobody in particular")
        world.fake.say(world.room, world.ann, f"<@{bot.id}>, hello", mentions=[bot.user])
        world.fake.say(world.room, world.ann, f" <@!{bot.id}> and <@{bot.id}>", mentions=[bot.user])
        world.fake.say(world.room, world.ann, f"<@&{role}> to the role", mention_roles=[role])
        own = world.fake.say(world.room, bot.user, "the bot's own words")
        world.fake.say(world.room, world.ann, "an answer to it", reply_to=own)
        await world.mailbox.has(5)
    assert [(one.text, one.addressed) for one in world.mailbox.taken] == [
        ("nobody in particular", False),
        ("hello", True),
        (f"and <@{bot.id}>", True),
        ("to the role", True),
        ("an answer to it", True),
    ]
    assert {(one.chat, one.chat_type, one.thread) for one in world.mailbox.taken} == {(world.room.id, "group", None)}


async def test_a_thread_is_a_part_of_its_parents_chat(world):
    before = world.fake.add_thread(world.room, "older than the connection")
    async with running(world.fake, world.bot, world.mailbox):
        world.fake.say(before, world.ann, "one")
        after = world.fake.add_thread(world.room, "younger")
        world.fake.say(after, world.ann, "two")
        await world.mailbox.has(2)
    places = {(one.text, one.chat, one.thread) for one in world.mailbox.taken}
    assert places == {("one", world.room.id, before.id), ("two", world.room.id, after.id)}


async def test_a_thread_that_discord_did_not_announce_is_asked_for(world):
    async with running(world.fake, world.bot, world.mailbox):
        world.fake.hold()
        hidden = world.fake.add_thread(world.room, "unannounced")
        world.fake.release(lambda events: [])
        world.fake.say(hidden, world.ann, "over here")
        await world.mailbox.has(1)
    assert (world.mailbox.taken[0].chat, world.mailbox.taken[0].thread) == (world.room.id, hidden.id)


async def test_bots_and_webhooks_are_not_human(world):
    other = world.fake.add_user("Bob the bot", is_bot=True)
    hook = world.fake.add_user("Hook")
    async with running(world.fake, world.bot, world.mailbox):
        world.fake.say(world.room, other, "beep")
        world.fake.say(world.room, hook, "deployed", webhook_id=hook["id"])
        world.fake.say(world.room, world.ann, "hm", type=7)  # a report that somebody joined
        world.fake.say(world.room, world.ann, "hello")
        await world.mailbox.has(3)
    assert [(one.text, one.human) for one in world.mailbox.taken] == [
        ("beep", False),
        ("deployed", False),
        ("hello", True),
    ]


async def test_edits_and_deletions_are_events_of_their_own(world):
    async with running(world.fake, world.bot, world.mailbox):
        first = world.fake.say(world.room, world.ann, "at noon")
        second = world.fake.say(world.room, world.ann, "or at one")
        world.fake.preview(first)
        world.fake.edit(first, "at two")
        world.fake.delete(first, second)
        await world.mailbox.has(5)
    _, _, edit, *gone = world.mailbox.taken
    assert (edit.change, edit.of, edit.text, edit.position) == (MessageChange.EDITED, first["id"], "at two", None)
    assert edit.event_id.startswith(f"{first['id']}.edit.")
    assert [(one.change, one.of, one.event_id) for one in gone] == [
        (MessageChange.DELETED, said["id"], f"{said['id']}.delete") for said in (first, second)
    ]
    assert {one.sender for one in gone} == {world.ann["id"]}


async def test_duplicates_and_late_events_are_taken_once_each(world):
    async with running(world.fake, world.bot, world.mailbox):
        world.fake.say(world.dm, world.ann, "one", times=2)
        world.fake.hold()
        world.fake.say(world.dm, world.ann, "two")
        world.fake.say(world.dm, world.ann, "three")
        world.fake.release(lambda events: events[::-1])
        world.fake.say(world.dm, world.ann, "four")
        await world.mailbox.has(4)
    assert world.mailbox.texts() == ["one", "three", "two", "four"]
    assert world.mailbox.offered == 5


async def test_bots_in_one_guild_each_take_what_they_see(world):
    fake = world.fake
    eve, boxes = fake.add_bot("Eve"), {"ada": world.mailbox, "eve": Mailbox()}
    world.guild.bots[eve.id] = fake.new_id()
    secret = fake.open_dm(eve, world.ann)
    async with running(fake, world.bot, boxes["ada"]), running(fake, eve, boxes["eve"]):
        fake.say(world.room, world.ann, f"<@{eve.id}> hi", mentions=[eve.user])
        fake.say(world.dm, world.ann, "for Ada")
        fake.say(secret, world.ann, "for Eve")
        await boxes["ada"].has(2)
        await boxes["eve"].has(2)
    assert sorted(boxes["ada"].texts()) == [f"<@{eve.id}> hi", "for Ada"]
    assert sorted(boxes["eve"].texts()) == ["for Eve", "hi"]
    assert {one.account for one in boxes["eve"].taken} == {f"discord:{eve.id}"}


# --- what comes with a message -----------------------------------------------------------------------


async def test_attachments_are_fetched_from_discord_alone(world):
    fake = world.fake
    files = [
        fake.attach("notes.txt", b"a cat"),
        fake.attach("huge.bin", b"x", size=ATTACHMENT_BYTES_MAX + 1),
        fake.attach("elsewhere.txt", b"x", url="http://169.254.169.254/latest/meta-data"),
        fake.attach("disguised.txt", b"x", url=f"{fake.origin}@evil.example/x"),
        fake.attach("moved.txt", b"x"),
    ]
    fake.faults.append(Fault("/moved.txt", status=302, headers={"Location": "http://169.254.169.254/"}))
    async with running(fake, world.bot, world.mailbox):
        fake.say(world.dm, world.ann, "", attachments=files)
        await world.mailbox.has(1)
    [message] = world.mailbox.taken
    assert [(one.name, one.body) for one in message.attachments] == [
        ("notes.txt", b"a cat"),
        ("huge.bin", None),
        ("elsewhere.txt", None),
        ("disguised.txt", None),
        ("moved.txt", None),
    ]
    assert message.attachments[0].media_type == "text/plain"
    assert message.attachments[1].size == ATTACHMENT_BYTES_MAX + 1


async def test_more_files_than_are_kept_are_named_and_not_fetched(world, monkeypatch):
    monkeypatch.setattr("holdfast.channels.discord.session.ATTACHMENTS_MAX", 1)
    async with running(world.fake, world.bot, world.mailbox):
        files = [world.fake.attach(f"{n}.txt", b"x") for n in range(3)]
        world.fake.say(world.dm, world.ann, "look", attachments=files)
        await world.mailbox.has(1)
    kept = [(one.name, one.body) for one in world.mailbox.taken[0].attachments]
    assert kept == [("0.txt", b"x"), ("1.txt", None), ("2.txt", None)]


async def test_few_files_are_in_memory_however_many_channels_bring_some(world):
    fake, mailbox = world.fake, world.mailbox
    rooms = [fake.add_channel(world.guild, f"room {n}") for n in range(AT_ONCE_MAX + 3)]
    others = [fake.add_channel(world.guild, f"other {n}") for n in range(20)]
    async with running(fake, world.bot, mailbox):
        mailbox.open.clear()
        for room in rooms:
            fake.say(room, world.ann, "look", attachments=[fake.attach("a.txt", b"x")])
        for n, other in enumerate(others):  # a download would have happened by then
            fake.say(other, world.ann, "words")
            await mailbox.until(lambda: mailbox.offered > n)  # noqa: B023 - awaited here
        await mailbox.until(lambda: mailbox.offered >= len(others) + AT_ONCE_MAX)
        fake.say(world.dm, world.ann, "words")
        await mailbox.until(lambda: mailbox.offered > len(others) + AT_ONCE_MAX)
        assert mailbox.offered == len(others) + AT_ONCE_MAX + 1
        mailbox.open.set()
        await mailbox.has(len(rooms) + len(others) + 1)


async def test_a_file_that_is_larger_than_it_claims_is_left(world, monkeypatch):
    monkeypatch.setattr("holdfast.channels.discord.session.ATTACHMENT_BYTES_MAX", 1000)
    async with running(world.fake, world.bot, world.mailbox):
        world.fake.say(world.dm, world.ann, "look", attachments=[world.fake.attach("a.txt", b"x" * 1001, size=10)])
        await world.mailbox.has(1)
    assert world.mailbox.taken[0].attachments[0].body is None


async def test_the_content_intent_is_asked_for(world):
    async with running(world.fake, world.bot, world.mailbox):
        world.fake.say(world.room, world.ann, "visible only with the intent")
        await world.mailbox.has(1)
    assert world.mailbox.texts() == ["visible only with the intent"]
