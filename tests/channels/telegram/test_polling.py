"""Polling acknowledges an update only when it was taken. Nothing that Telegram keeps for the bot is dropped or skipped,
and nothing that cannot be read stands in the way of what comes after it."""

import asyncio
import json
import logging

import aiohttp
import pytest

from holdfast.kernel.errors import ChannelFailed, InvalidName, InvariantBroken, StoreFull, StoreUnavailable
from tests.channels.telegram.kit import rig
from tests.platforms.telegram import Drop, Page, Refuse


@pytest.fixture
def chat(server, bot):
    return server.private(bot, server.user("Bob"))


@pytest.fixture
def say(server, chat):
    user = server.user("Bob")
    return lambda text: server.say(chat, user, text)


async def test_an_update_is_confirmed_only_after_it_was_taken(ada, say):
    ada.ear.gate = asyncio.Event()
    say("first")
    say("second")
    async with ada.running():
        await ada.server.until(lambda: ada.bot.called("getUpdates"))
        for _ in range(20):  # the channel would act by itself now
            await asyncio.sleep(0)
        assert [update["message"]["text"] for update in ada.bot.pending] == ["first", "second"]
        assert not any("offset" in form for form in ada.bot.called("getUpdates"))
        ada.ear.gate.set()
        await ada.server.until(lambda: not ada.bot.pending)
    assert ada.ear.texts == ["first", "second"]
    assert [form["offset"] for form in ada.bot.called("getUpdates") if "offset" in form][-1:] == [
        str(ada.bot.confirmed[-1] + 1)
    ]


@pytest.mark.parametrize("error", [StoreUnavailable, StoreFull, InvariantBroken])
async def test_what_could_not_be_taken_comes_again_with_all_that_is_behind_it(ada, say, error):
    """Whether time, the operator or a new release mends it: only what its sender would have to correct is let go."""
    for text in ("one", "two", "three"):
        say(text)
    ada.ear.raises.extend([None, error("the disk is away")])
    with pytest.raises(error):
        await ada.channel.run(ada.ear)
    assert len(ada.bot.pending) == 3
    async with ada.running():
        await ada.server.until(lambda: not ada.bot.pending)
    assert ada.ear.texts == ["one", "one", "two", "three"]  # the intake knows the first one again by its id
    assert ada.ear.taken[0].event_id == ada.ear.taken[1].event_id


async def test_a_message_that_no_retry_can_mend_does_not_block_the_others(ada, say):
    ada.ear.raises.append(InvalidName("the chat has a control character"))
    say("hopeless")
    say("fine")
    async with ada.running():
        await ada.server.until(lambda: not ada.bot.pending)
    assert ada.ear.texts == ["fine"]


async def test_nothing_that_waited_is_dropped_at_start(ada, say):
    """Neither by polling nor by taking a webhook away."""
    ada.bot.webhook = {"url": "https://elsewhere.example/hook"}
    say("while you were away")
    async with ada.running():
        await ada.ear.until(lambda: ada.ear.taken)
    assert ada.ear.texts == ["while you were away"]
    assert [form["drop_pending_updates"] for form in ada.bot.called("deleteWebhook")] == ["false"]


async def test_only_the_kinds_of_updates_that_are_read_are_asked_for(ada):
    async with ada.running():
        await ada.server.until(lambda: ada.bot.waiting)
    kinds = ["message", "edited_message", "channel_post", "edited_channel_post"]
    assert json.loads(ada.bot.called("getUpdates")[0]["allowed_updates"]) == kinds


async def test_updates_that_come_doubled_and_out_of_order_are_taken_once_and_in_order(ada, say):
    ada.bot.arrange = lambda batch: [*reversed(batch), *batch]
    for number in range(5):
        say(str(number))
    async with ada.running():
        await ada.server.until(lambda: not ada.bot.pending)
    assert ada.ear.texts == ["0", "1", "2", "3", "4"]


STRANGE = [
    {"message": 5},
    {"message": {"message_id": "seven", "chat": {"id": 1, "type": "private"}, "text": "a secret of Bob"}},
    {"message": {"message_id": 7, "text": "a secret of Bob"}},
    {"message": {"message_id": 7, "chat": {"id": 1, "type": "private"}, "text": ["a secret of Bob"]}},
    {"message": {"message_id": 7, "chat": {"id": 1, "type": "private"}, "text": "a secret of Bob"}},  # without a sender
    {"message": {"message_id": 7, "chat": {"id": 1, "type": "planet"}, "from": {"id": 2}, "text": "a secret of Bob"}},
    {"brand_new_kind": {"text": "a secret of Bob"}},
    {},
]


@pytest.mark.parametrize("update", STRANGE, ids=str)
async def test_an_update_that_cannot_be_read_does_not_block_the_stream(ada, say, update, caplog):
    caplog.set_level(logging.INFO, logger="holdfast")
    strange = ada.bot.push(update)
    say("fine")
    async with ada.running():
        await ada.server.until(lambda: not ada.bot.pending)
    assert ada.ear.texts == ["fine"]
    skipped = [record for record in caplog.records if record.getMessage() == "channel.skipped"]
    assert [record.fields["update"] for record in skipped] == [strange["update_id"]]
    assert "secret" not in caplog.text + str([vars(record) for record in caplog.records])


async def test_lone_surrogates_are_replaced_and_the_message_is_kept(ada, server, chat):
    server.say(chat, server.user("Bob"), text="", caption="half \ud83d of a face", caption_entities=[])
    async with ada.running():
        await ada.ear.until(lambda: ada.ear.taken)
    assert ada.ear.texts == ["half � of a face"]


async def test_updates_without_ids_are_not_asked_for_in_a_circle(ada, say):
    strange = [[{"message": {}}, "nonsense"]]
    ada.bot.arrange = lambda batch: strange.pop() if strange else batch
    say("fine")
    async with ada.running():
        await ada.ear.until(lambda: ada.ear.taken)
    assert ada.ear.line == [("down", "Telegram's updates have no ids"), ("up", "@AdaBot, polling")]


async def test_after_an_answered_poll_the_offset_is_forgotten(ada, say):
    """After a quiet week Telegram begins with another id, which may be smaller: an old offset would confirm it."""

    def quiet(bot, method):
        if method != "getupdates" or len(bot.called(method)) != 2:
            return None
        bot.confirm(int(bot.called(method)[1]["offset"]))
        bot._next_update = -500
        say("after it")
        return Page(200, '{"ok": true, "result": []}')

    ada.server.fault_for = quiet
    say("before the quiet week")
    async with ada.running():
        await ada.ear.until(lambda: len(ada.ear.taken) == 2)
    assert ada.ear.texts == ["before the quiet week", "after it"]


# --- the line ------------------------------------------------------------------------------------


async def test_a_second_process_that_polls_the_token_is_named_and_nothing_is_lost(ada, say):
    async with ada.running():
        # The first poll returns at once; the other process must meet the one that waits.
        await ada.server.until(lambda: len(ada.bot.called("getUpdates")) > 1 and ada.bot.waiting)
        async with aiohttp.ClientSession() as session:
            url = f"{ada.server.url}/bot{ada.bot.token}/getUpdates"
            async with session.post(url, data={"timeout": "20"}) as other:
                said = await other.text()  # it is ended by the channel's next poll
        assert "terminated by other getUpdates request" in said
        say("still here")
        await ada.ear.until(lambda: ada.ear.taken)
    what = "another process polls with this bot's token; stop one of them, or give each its own bot"
    assert ("down", what) in ada.ear.line
    assert ada.ear.line[-1] == ("up", "@AdaBot, polling")
    assert 15_000 <= max(ada.tasks.slept_ms) <= 30_000  # slow on purpose
    assert ada.ear.texts == ["still here"]


async def test_two_channels_on_one_token_take_everything_between_them(server, bot, say):
    async with rig(server, bot) as one, rig(server, bot) as two, one.running(), two.running():
        await server.until(lambda: any("another process polls" in why for _, why in one.ear.line + two.ear.line))
        for number in range(20):
            say(str(number))
        await server.until(lambda: not bot.pending)
    assert {*one.ear.texts, *two.ear.texts} == {str(number) for number in range(20)}


async def test_a_webhook_that_somebody_sets_meanwhile_is_taken_away(ada, say):
    async with ada.running():
        await ada.server.until(lambda: ada.bot.waiting)
        ada.bot.webhook = {"url": "https://elsewhere.example/hook"}
        say("one")
        await ada.server.until(lambda: len(ada.bot.called("deleteWebhook")) == 2)
        say("two")
        await ada.ear.until(lambda: len(ada.ear.taken) >= 2)
    assert any("a webhook is set" in reason for _, reason in ada.ear.line)
    assert ada.ear.texts[-1] == "two"


@pytest.mark.parametrize("refusal", [Refuse(401, "Unauthorized"), Refuse(404, "Not Found")], ids=str)
async def test_a_wrong_token_is_said_without_the_token(ada, refusal):
    ada.bot.fail("getMe", refusal)
    with pytest.raises(
        ChannelFailed, match=r"does not accept the bot's token; check the value of token_env \(TOKEN\)"
    ) as seen:
        await ada.channel.run(ada.ear)
    assert ada.bot.token not in str(seen.value)
    assert seen.value.__cause__ is None
    assert seen.value.__context__ is None or ada.bot.token not in str(seen.value.__context__)


async def test_a_token_that_is_revoked_while_polling_ends_the_channel(ada, server):
    async with ada.running() as task:
        await server.until(lambda: ada.bot.waiting)
        ada.bot.fail("getUpdates", Refuse(401, "Unauthorized"))
        ada.bot.push({})
        with pytest.raises(ChannelFailed):
            await task


async def test_an_outage_is_waited_out_with_growing_delays(ada, server, say):
    async with ada.running():
        await server.until(lambda: ada.bot.waiting)
        await server.stop()
        await ada.ear.until(lambda: ("up", "@AdaBot, polling") in ada.ear.line and len(ada.tasks.slept_ms) >= 12)
        say("said in the dark")
        await server.start(server.port)
        await ada.ear.until(lambda: ada.ear.taken)
    assert ada.ear.line[-1] == ("up", "@AdaBot, polling")
    assert ada.tasks.slept_ms[0] <= 1_000
    assert 30_000 <= ada.tasks.slept_ms[10] <= 60_000
    assert len(set(ada.tasks.slept_ms)) > 10  # with chance in them
    assert all(ada.bot.token not in reason for _, reason in ada.ear.line)


HALF = '{"ok": true, "result": [{"update_id": 1'
FAULTS = [
    Page(502),
    Page(200),
    Page(200, HALF),
    Page(200, '{"ok": true, "result": "nonsense"}'),
    Page(200, "[]"),
    Page(500, '{"ok": false}'),
    Page(307, ""),
    Refuse(500, "Internal Server Error: restart"),
    Refuse(418, "I'm a teapot"),
    Refuse(429, "Too Many Requests", retry_after=7),
    Drop(after=False),
    Drop(after=True),
]


@pytest.mark.parametrize("method", ["getMe", "deleteWebhook", "getUpdates"])
@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_a_call_that_fails_is_repeated_and_nothing_is_lost(ada, say, method, fault):
    ada.bot.fail(method, fault)
    say("hello")
    async with ada.running():
        await ada.server.until(lambda: not ada.bot.pending)
    assert ada.ear.texts == ["hello"]
    assert len(ada.tasks.slept_ms) == 1
    if isinstance(fault, Refuse) and fault.retry_after:
        assert ada.tasks.slept_ms == [7_000]
