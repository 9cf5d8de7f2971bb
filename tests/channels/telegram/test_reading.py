"""An update says the same to every reader: who spoke, where, to whom, and under an id that is the same when it comes
again. The updates are made by the fake Telegram, as it would send them."""

import pytest

from holdfast.channels.telegram.reading import read_update
from holdfast.channels.telegram.wire import BotAccount
from holdfast.inbox.chat_message import MessageChange
from tests.platforms.telegram import FakeTelegram, User, units

ROBOT = User(1087968824, "Group", "GroupAnonymousBot", is_bot=True)


@pytest.fixture
def world():
    return FakeTelegram()


@pytest.fixture
def ada(world):
    return world.bot("AdaBot")


@pytest.fixture
def bob(world):
    return world.user("Bob")


@pytest.fixture
def group(world, ada):
    return world.group(ada, topics=[9])


def read(bot):
    """What the newest update means to its bot."""
    return read_update(bot.pending[-1], BotAccount(bot.id, bot.username))


def heard(bot):
    message = read(bot).message
    assert message is not None
    return message


# --- who and where -------------------------------------------------------------------------------


def test_a_private_message(world, ada, bob):
    said = world.say(world.private(ada, bob), bob, "hello")
    message = heard(ada)
    assert (message.account, message.chat, message.chat_type) == (f"telegram:{ada.id}", str(bob.id), "dm")
    assert (message.sender, message.sender_name, message.human) == (str(bob.id), "Bob", True)
    assert (message.event_id, message.text, message.addressed) == (str(said["message_id"]), "hello", True)
    assert (message.thread, message.change, message.position) == (None, MessageChange.NEW, None)


@pytest.mark.parametrize(("type", "kind"), [("group", "group"), ("supergroup", "group"), ("channel", "channel")])
def test_chat_types(world, ada, bob, type, kind):
    world.say(world.group(ada, type=type), bob, "hello")
    assert heard(ada).chat_type == kind


def test_a_topic_is_a_thread_and_a_reply_is_none(world, ada, bob, group):
    world.say(group, bob, "in a topic", thread=9)
    assert heard(ada).thread == "9"
    world.say(group, bob, "a reply", message_thread_id=4)  # as Telegram marks chains of replies
    assert heard(ada).thread is None


def test_who_speaks_as_a_chat_is_that_chat_and_no_robot(world, ada, group):
    """An anonymous admin is shown under a robot that all groups share."""
    world.say(group, ROBOT, "@AdaBot hi", sender_chat=group.shown())
    message = heard(ada)
    assert (message.sender, message.sender_name, message.human) == (str(group.id), "Crew", True)


def test_a_post_of_a_channel_has_the_channel_as_its_sender(world, ada):
    channel = world.group(ada, type="channel", title="News")
    world.say(channel, None, "@AdaBot look", kind="channel_post", sender_chat=channel.shown())
    message = heard(ada)
    assert (message.sender, message.sender_name, message.human) == (str(channel.id), "News", False)
    assert message.addressed


def test_another_bot_is_not_human(world, ada, group):
    world.say(group, world.user("Robo", is_bot=True), "beep")
    assert not heard(ada).human


# --- to whom -------------------------------------------------------------------------------------

ADDRESSED = [
    ("hello everybody", False, "hello everybody"),
    ("@AdaBot hello", True, "hello"),
    ("@adabot, hello", True, "hello"),
    ("@ADABOT: hello", True, "hello"),
    ("hello @AdaBot!", True, "hello @AdaBot!"),
    ("😀😀 @AdaBot hello", True, "😀😀 @AdaBot hello"),
    ("👩‍👩‍👧‍👦 @EveBot hello", False, "👩‍👩‍👧‍👦 @EveBot hello"),
    ("@AdaBot", True, "@AdaBot"),
    ("@AdaBotty hello", False, "@AdaBotty hello"),
    ("@EveBot hello", False, "@EveBot hello"),
    ("/new", True, "/new"),
    ("/new@AdaBot", True, "/new"),
    ("/NEW@adabot now 😀", True, "/NEW now 😀"),
    ("/new@EveBot", False, "/new@EveBot"),
    ("/new@EveBot for @AdaBot", False, "/new@EveBot for @AdaBot"),
    ("@AdaBot /new", True, "/new"),
    ("type /new to begin", False, "type /new to begin"),
]


@pytest.mark.parametrize("case", ADDRESSED, ids=lambda case: case[0])
def test_what_is_said_to_the_bot_in_a_group(world, ada, bob, group, case):
    text, addressed, words = case
    world.say(group, bob, text)
    message = heard(ada)
    assert (message.addressed, message.text) == (addressed, words)


def test_an_address_that_only_looks_like_a_mention_is_none(world, ada, bob, group):
    world.say(group, bob, "mail me at bob@AdaBot.example", entities=[])
    assert not heard(ada).addressed


def test_a_caption_is_read_like_a_text(world, ada, bob, group):
    world.hand_over(group, bob, "photo", b"jpeg", caption="🖼️ @AdaBot what is this?")
    message = heard(ada)
    assert (message.addressed, message.text) == (True, "🖼️ @AdaBot what is this?")


def test_a_mention_by_name_is_one_when_it_is_the_bot(world, ada, bob, group):
    """People without a user name are mentioned by a link to their id."""
    text = "😀 Ada, hello"
    link = {"type": "text_mention", "offset": 3, "length": 3}
    world.say(group, bob, text, entities=[{**link, "user": {"id": ada.id, "is_bot": True, "first_name": "Ada"}}])
    assert heard(ada).addressed
    world.say(group, bob, text, entities=[{**link, "user": bob.shown()}])
    assert not heard(ada).addressed


def test_an_answer_to_the_bot_is_said_to_it(world, ada, bob, group):
    mine = {"message_id": 3, "chat": group.shown(), "from": User(ada.id, "Ada", "AdaBot", is_bot=True).shown()}
    world.say(group, bob, "and then?", reply_to=mine)
    assert heard(ada).addressed
    world.say(group, bob, "and then?", reply_to={**mine, "from": bob.shown()})
    assert not heard(ada).addressed


def test_in_a_topic_that_the_bot_opened_not_everything_is_said_to_it(world, ada, bob, group):
    opening = {"message_id": 9, "chat": group.shown(), "from": User(ada.id, "Ada", "AdaBot", is_bot=True).shown()}
    world.say(group, bob, "just talk", thread=9, reply_to=opening)
    assert not heard(ada).addressed


@pytest.mark.parametrize(
    "entity", [{"offset": -5, "length": 3}, {"offset": 0, "length": 999}, {"offset": 900, "length": 1}]
)
def test_entities_beyond_the_text_do_no_harm(world, ada, bob, group, entity):
    world.say(group, bob, "hello", entities=[{"type": "mention", **entity}, {"type": "bot_command", **entity}])
    assert heard(ada).text == "hello"


# --- events --------------------------------------------------------------------------------------


def test_an_edit_names_what_it_edits_and_two_edits_in_a_second_are_two(world, ada, bob, group):
    said = world.say(group, bob, "helo")
    world.edit(group, said, "hello")
    first = heard(ada)
    assert heard(ada) == first  # the same whenever it comes
    world.edit(group, said, "hello!")
    second = heard(ada)
    assert (first.change, first.of, first.text) == (MessageChange.EDITED, str(said["message_id"]), "hello")
    assert len({first.event_id, second.event_id, first.of}) == 3


def test_an_edited_post_of_a_channel_is_an_edit(world, ada):
    channel = world.group(ada, type="channel")
    said = world.say(channel, None, "helo", kind="channel_post", sender_chat=channel.shown())
    world.edit(channel, said, "hello", kind="edited_channel_post")
    assert heard(ada).change is MessageChange.EDITED


def test_a_migration_is_told_by_both_chats_in_the_same_words(world, ada):
    old = world.group(ada, type="group")
    new = world.migrate(old)
    moves = [read_update(raw, BotAccount(ada.id, "AdaBot")).moved for raw in ada.pending]
    assert moves == [(str(old.id), str(new.id))] * 2


@pytest.mark.parametrize(
    "fields", [{"new_chat_members": []}, {"pinned_message": {"message_id": 1}}, {"group_chat_created": True}]
)
def test_what_holds_nothing_to_read_is_nothing(world, ada, bob, group, fields):
    world.say(group, bob, **fields)
    assert (read(ada).message, read(ada).moved) == (None, None)
    assert read(ada).skipped


def test_what_has_no_words_is_put_into_words(world, ada, bob, group):
    world.say(group, bob, location={"latitude": 52.5, "longitude": 13.4})
    assert heard(ada).text == "[location: 52.5, 13.4]"
    world.say(group, bob, contact={"first_name": "Eve", "phone_number": "+1"})
    assert heard(ada).text == "[contact: Eve +1]"
    world.hand_over(group, bob, "sticker", b"webp", emoji="😀")
    assert heard(ada).text == "😀"


def test_lengths_are_counted_as_telegram_counts():
    from holdfast.channels.telegram.channel import CAPABILITIES

    for text in ("", "abc", "😀", "👩‍👩‍👧‍👦", "e\u0301"):
        assert CAPABILITIES.text_length(text) == units(text)
