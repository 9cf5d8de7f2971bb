"""A reply on Telegram grows in one message, and an edit says what is certain about it."""

import pytest

from holdfast.kernel.errors import ConfigInvalid
from holdfast.outbox.draft import MARK
from holdfast.outbox.post import Declined, Doubtful, NotSent, Sent
from tests.channels.telegram.kit import post, rig
from tests.platforms.telegram import Drop, Page, Rate, Refuse
from tests.support.drafts import HALF, WHOLE, delivered, streaming
from tests.support.fakes import Gate


@pytest.fixture
def bob(server):
    return server.user("Bob")


@pytest.fixture
def chat(server, bot, bob):
    return server.private(bot, bob)


@pytest.fixture
def opened(tmp_path, server, bot, monkeypatch):
    monkeypatch.setenv("TOKEN", bot.token)

    def run(gate, **settings):
        return streaming(tmp_path, "telegram", gate, token_env="TOKEN", api_url=server.url, **settings)

    return run


async def test_a_reply_grows_in_one_message(server, bot, bob, chat, opened):
    gate = Gate()
    async with await opened(gate) as runtime:
        said = server.say(chat, bob, "hello")
        await server.until(chat.texts)
        assert chat.texts() == [f"{HALF}{MARK}"]
        gate.open()
        row = await delivered(runtime)
    assert chat.texts() == [WHOLE]
    [answer] = chat.posted()
    assert (answer["quotes"]["message_id"], row.receipt) == (said["message_id"], str(answer["message_id"]))
    assert (row.state, row.draft, len(bot.called("sendMessage"))) == ("delivered", "replaced", 1)


async def test_a_final_edit_whose_answer_was_lost_is_repeated_and_one_message_stands(server, bot, bob, chat, opened):
    """Telegram refuses the second: the message is not modified. That is proof that the first arrived."""
    gate = Gate()
    async with await opened(gate) as runtime:
        server.say(chat, bob, "hello")
        await server.until(chat.texts)
        bot.fail("editMessageText", Drop(after=True))
        gate.open()
        row = await delivered(runtime)
    assert chat.texts() == [WHOLE]
    assert (row.state, row.draft, row.possible_duplicate) == ("delivered", "replaced", False)
    assert len(bot.called("editMessageText")) == 2


async def test_a_draft_whose_answer_was_lost_is_shown_as_unknown(server, bot, bob, chat, opened):
    gate = Gate()
    bot.fail("sendMessage", Page(504, after=True))
    async with await opened(gate) as runtime:
        server.say(chat, bob, "hello")
        await server.until(chat.texts)
        gate.open()
        row = await delivered(runtime)
    assert chat.texts() == [f"{HALF}{MARK}", WHOLE]
    assert (row.state, row.draft, row.possible_duplicate) == ("delivered", "unknown", False)


async def test_nothing_is_drafted_unless_the_operator_says_so(server, bot, bob, chat, opened):
    gate = Gate()
    async with await opened(gate, stream=False) as runtime:
        server.say(chat, bob, "hello")
        await gate.arrival()
        gate.open()
        await delivered(runtime)
    assert (chat.texts(), bot.called("editMessageText")) == ([WHOLE], [])


async def test_the_setting_is_off_by_default_and_takes_yes_or_no_only(server, bot, ada):
    assert not ada.channel.capabilities.drafts
    async with rig(server, bot, stream=True) as made:
        assert made.channel.capabilities.drafts
    with pytest.raises(ConfigInvalid, match=r"telegram.stream is 'yes': it must be true or false"):
        async with rig(server, bot, stream="yes"):
            pass


# --- what an edit proves ---------------------------------------------------------------------------

FATES = [
    (Refuse(400, "Bad Request: message is not modified: it is exactly the same"), Sent),
    (Refuse(400, "Bad Request: message to edit not found"), Declined),
    (Refuse(400, "Bad Request: message can't be edited"), Declined),
    (Refuse(403, "Forbidden: bot was blocked by the user"), Declined),
    (Refuse(429, "Too Many Requests", retry_after=7), NotSent),
    (Refuse(401, "Unauthorized"), NotSent),
    (Page(502), Doubtful),
    (Drop(after=True), Doubtful),
]


@pytest.mark.parametrize(("fault", "kind"), FATES, ids=str)
async def test_each_failure_of_an_edit_says_what_it_proves(ada, chat, fault, kind):
    sent = await ada.channel.send(post(chat))
    ada.bot.fail("editMessageText", fault)
    outcome = await ada.channel.edit(post(chat).address, sent.receipt, "other words")
    assert isinstance(outcome, kind)
    assert len(ada.bot.called("editMessageText")) == 1


async def test_an_edit_is_plain_text_and_may_be_repeated(ada, chat):
    sent = await ada.channel.send(post(chat))
    for _ in range(2):
        assert await ada.channel.edit(post(chat).address, sent.receipt, "*so* \ud83d") == sent
    assert chat.texts() == ["*so* �"]
    assert set(ada.bot.called("editMessageText")[0]) == {"chat_id", "message_id", "text"}


async def test_an_edit_is_limited_as_a_message_is(ada, server, chat):
    server.rate = Rate(1, per_s=3600)
    sent = await ada.channel.send(post(chat))
    outcome = await ada.channel.edit(post(chat).address, sent.receipt, "more")
    assert (type(outcome), outcome.retry_after_ms) == (NotSent, 3_600_000)


async def test_a_message_of_a_chat_that_moved_is_not_edited(ada, server):
    """Its number is another message's there."""
    old = server.group(ada.bot, type="group")
    for _ in range(2):
        sent = await ada.channel.send(post(old))
    new = server.migrate(old)
    assert isinstance(await ada.channel.edit(post(old).address, sent.receipt, "more"), Declined)
    assert isinstance(await ada.channel.send(post(old, "again")), NotSent)
    assert isinstance(await ada.channel.send(post(old, "again")), Sent)
    assert isinstance(await ada.channel.edit(post(old).address, sent.receipt, "more"), Declined)
    assert (new.texts(), str(new.posted()[0]["message_id"])) == (["again"], sent.receipt)


async def test_a_message_is_retracted_once_and_is_gone(ada, chat):
    sent = await ada.channel.send(post(chat))
    for _ in range(2):
        assert await ada.channel.retract(post(chat).address, sent.receipt) == sent
    assert chat.texts() == []
    assert isinstance(await ada.channel.edit(post(chat).address, sent.receipt, "more"), Declined)
    assert isinstance(await ada.channel.edit(post(chat).address, "no number", "more"), Declined)


async def test_edits_keep_to_the_pace_that_telegram_asks_for(ada):
    """Twenty messages a minute in a group and thirty a second in all, edits included."""
    able = ada.channel.capabilities
    assert able.group_edit_interval_ms * 20 > 60_000
    assert able.account_edit_interval_ms * 30 >= 1_000
