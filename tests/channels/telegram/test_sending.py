"""The outcome of a send states only what is certain. A message that may have been posted is never reported as unsent,
and a refused one is never retried.
"""

import asyncio
import json
import logging
import threading

import httpx
import pytest

from holdfast.channels.telegram import bot_api
from holdfast.channels.telegram.answers import ANSWERS
from holdfast.channels.telegram.bot_api import translated
from holdfast.channels.telegram.wire import BotApiErrorKind
from holdfast.kernel.errors import ChannelFailed, StoreUnavailable
from holdfast.kernel.vendor_error import Meaning, answer_to
from holdfast.outbox.post import Declined, Doubtful, NotSent, Sent
from tests.channels.telegram.kit import post, rig
from tests.platforms.telegram import Drop, Hold, Page, Rate, Refuse
from tests.support.fakes import soon
from tests.support.loop_time import timed_out
from tests.support.settled import logged, reply_reason, says


@pytest.fixture
def chat(server, bot):
    return server.group(bot, topics=[9])


async def test_a_piece_is_posted_as_plain_text_and_its_id_is_the_receipt(ada, chat):
    text = "*not bold* <b>nor this</b> 😀\n\n  https://example.org"
    outcome = await ada.channel.send(post(chat, text))
    assert outcome == Sent(str(chat.posted()[0]["message_id"]))
    assert chat.texts() == [text]
    assert set(ada.bot.called("sendMessage")[0]) == {"chat_id", "text"}  # no markup, and the usual preview of links


async def test_a_piece_goes_to_its_topic_as_an_answer(ada, chat):
    await ada.channel.send(post(chat, thread="9", in_reply_to="41"))
    await ada.channel.send(post(chat, in_reply_to="42.edit.7"))
    await ada.channel.send(post(chat, in_reply_to="not ours"))
    first, second, third = chat.posted()
    assert (first["message_thread_id"], first["quotes"]["message_id"]) == (9, 41)
    assert second["quotes"] == {"message_id": 42, "allow_sending_without_reply": True}
    assert "quotes" not in third


async def test_a_text_with_half_a_character_is_sent_all_the_same(ada, chat):
    assert isinstance(await ada.channel.send(post(chat, "half \ud83d")), Sent)
    assert chat.texts() == ["half �"]


async def test_the_longest_text_is_taken_and_one_unit_more_is_declined(ada, chat):
    limit = ada.channel.capabilities.text_chars_max
    longest = "😀" * (limit // 2)
    assert ada.channel.capabilities.text_length(longest) == limit
    assert isinstance(await ada.channel.send(post(chat, longest)), Sent)
    assert isinstance(await ada.channel.send(post(chat, longest + "x")), Declined)


# --- what a failure proves -------------------------------------------------------------------------

FATES = [
    (Refuse(400, "Bad Request: chat not found"), Declined, 0),
    (Refuse(403, "Forbidden: bot was kicked from the group chat"), Declined, 0),
    (Refuse(413, "Request Entity Too Large"), Declined, 0),
    (Refuse(401, "Unauthorized"), NotSent, 0),
    (Refuse(404, "Not Found"), NotSent, 0),
    (Refuse(418, "I'm a teapot"), NotSent, 0),
    (Refuse(500, "Internal Server Error"), Doubtful, 0),
    (Page(502), Doubtful, 0),
    (Page(504, after=True), Doubtful, 1),
    (Page(200, "<html>maintenance</html>"), Doubtful, 0),
    (Page(200, '{"ok": tr', after=True), Doubtful, 1),
    (Page(302, ""), Doubtful, 0),
    (Page(500, '{"ok": false}'), Doubtful, 0),
    (Drop(after=False), Doubtful, 0),
    (Drop(after=True), Doubtful, 1),
]


@pytest.mark.parametrize(("fault", "kind", "landed"), FATES, ids=str)
async def test_each_failure_says_what_it_proves(ada, chat, fault, kind, landed):
    ada.bot.fail("sendMessage", fault)
    outcome = await ada.channel.send(post(chat))
    assert isinstance(outcome, kind)
    assert len(chat.texts()) == landed
    assert len(ada.bot.called("sendMessage")) == 1  # nothing is repeated behind our back
    assert ada.bot.token not in outcome.reason


@pytest.mark.parametrize("after", [False, True])
async def test_a_kept_connection_that_is_cut_proves_nothing(ada, chat, after):
    assert isinstance(await ada.channel.send(post(chat, "first")), Sent)  # the connection is open now
    ada.bot.fail("sendMessage", Drop(after=after))
    assert isinstance(await ada.channel.send(post(chat, "second")), Doubtful)


async def test_a_refused_connection_proves_that_nothing_left(ada, chat):
    await ada.server.stop()
    outcome = await ada.channel.send(post(chat))
    await ada.server.start(ada.server.port)
    assert outcome == NotSent("Telegram cannot be reached (ConnectError)")


async def test_an_answer_that_does_not_come_leaves_doubt(ada, chat):
    held = Hold(asyncio.Event())
    ada.bot.fail("sendMessage", held)
    sending = ada.channel.send(post(chat))
    assert isinstance(await timed_out(sending, after=soon(held.reached.wait()), limit_s=bot_api.CALL_S), Doubtful)
    held.gate.set()


PROOFS = [
    (httpx.ConnectError("https://api.telegram.org/bot1:TOKEN/x"), BotApiErrorKind.UNREACHABLE),
    (httpx.ConnectTimeout("no answer of https://api.telegram.org/bot1:TOKEN/x"), BotApiErrorKind.UNREACHABLE),
    (httpx.PoolTimeout("bot1:TOKEN"), BotApiErrorKind.UNREACHABLE),
    (httpx.RemoteProtocolError("Server disconnected without sending a response."), BotApiErrorKind.LOST),
    (httpx.ReadTimeout("bot1:TOKEN"), BotApiErrorKind.LOST),
    (httpx.WriteError("reset"), BotApiErrorKind.LOST),
    (httpx.ReadError("closing"), BotApiErrorKind.LOST),
    (httpx.DecodingError("half"), BotApiErrorKind.LOST),
    (TimeoutError(), BotApiErrorKind.LOST),
    (ConnectionResetError(), BotApiErrorKind.LOST),
]


@pytest.mark.parametrize(("error", "kind"), PROOFS, ids=lambda case: type(case).__name__)
def test_only_an_error_of_connecting_proves_that_nothing_left(error, kind):
    failure = translated(error)
    assert failure.kind is kind
    assert "TOKEN" not in failure.reason


async def test_blocked_gone_and_topicless_chats_decline(ada, server, chat):
    chat.blocked_by.add(ada.bot.id)
    blocked = await ada.channel.send(post(chat))
    chat.blocked_by.clear()
    gone = await ada.channel.send(post("-999"))
    topic = await ada.channel.send(post(chat, thread="77"))
    strange = await ada.channel.send(post("the harbour"))
    assert [type(outcome) for outcome in (blocked, gone, topic, strange)] == [Declined] * 4
    assert blocked.vendor.extract == "Forbidden: bot was blocked by the user"
    assert "thread not found" in topic.vendor.extract
    assert chat.texts() == []  # nor beside the topic, where others would read it


async def test_a_limit_says_how_long_and_whether_it_is_the_whole_bots(ada, server, chat):
    other = server.group(ada.bot)
    server.rate = Rate(1, per_s=3600)
    for place in (chat, other):
        await ada.channel.send(post(place))
    first = await ada.channel.send(post(chat))
    again = await ada.channel.send(post(chat))
    second = await ada.channel.send(post(other))
    assert first.retry_after_ms == 3_600_000
    assert [outcome.whole_account for outcome in (first, again, second)] == [False, False, True]
    ada.clock.ms += 3_700_000
    assert (await ada.channel.send(post(chat))).whole_account is False  # the others' time is over


# --- a chat that moved -----------------------------------------------------------------------------


async def test_a_reply_to_a_group_that_moved_follows_it(ada, server):
    old = server.group(ada.bot, type="group")
    async with ada.running():
        await server.until(lambda: ada.bot.waiting)
        new = server.migrate(old)
        await ada.ear.until(lambda: len(ada.ear.moves) == 2)
        moved = (str(old.id), str(new.id), "group")
        assert ada.ear.moves == [moved, moved]
        outcome = await ada.channel.send(post(old, in_reply_to="3"))
        assert outcome == NotSent("the group became a supergroup; the next attempt goes there")
        assert ada.ear.moves == [moved] * 3
        assert isinstance(await ada.channel.send(post(old, in_reply_to="3")), Sent)
    assert (old.texts(), new.texts()) == ([], ["hello"])
    assert "quotes" not in new.posted()[0]  # the number would be another message's there
    await ada.channel.typing(post(old).address)
    assert ada.bot.called("sendChatAction")[0]["chat_id"] == str(new.id)


async def test_a_move_that_cannot_be_recorded_does_not_stop_the_reply(ada, server):
    old = server.group(ada.bot, type="group")
    new = server.migrate(old)
    ada.channel._intake = ada.ear
    ada.ear.raises.append(StoreUnavailable("the disk is away"))
    assert isinstance(await ada.channel.send(post(old)), NotSent)
    assert isinstance(await ada.channel.send(post(old)), Sent)
    assert new.texts() == ["hello"]


# --- typing and closing ----------------------------------------------------------------------------


async def test_typing_is_shown_in_the_topic_and_raises_nothing(ada, chat):
    await ada.channel.typing(post(chat).address)  # before there is a connection
    await ada.channel.send(post(chat))
    ada.bot.fail("sendChatAction", Page(502), Drop(after=True), Refuse(403, "Forbidden"))
    for _ in range(4):
        await ada.channel.typing(post(chat, thread="9").address)
    await ada.channel.typing(post("the harbour").address)
    form = ada.bot.called("sendChatAction")[-1]
    assert form == {"chat_id": str(chat.id), "message_thread_id": "9", "action": "typing"}


async def test_a_post_before_the_library_is_loaded_is_unsent_and_not_uncertain(ada, chat, monkeypatch):
    """It takes seconds on a slow machine; a piece that waited for it would be uncertain after every crash there."""
    loaded, load = threading.Event(), ada.channel._load
    monkeypatch.setattr(ada.channel, "_load", lambda: loaded.wait() and load())
    async with ada.running():
        await asyncio.sleep(0)  # it begins to load
        outcome = await ada.channel.send(post(chat))
        assert (type(outcome), outcome.whole_account) == (NotSent, True)
        loaded.set()
        await ada.server.until(lambda: ada.bot.waiting)
        assert isinstance(await ada.channel.send(post(chat)), Sent)


async def test_a_closed_channel_sends_and_receives_nothing(ada, chat):
    await ada.channel.send(post(chat))
    await ada.channel.close()
    await ada.channel.close()
    assert await ada.channel.send(post(chat)) == NotSent("the channel is closed")
    await ada.channel.typing(post(chat).address)
    with pytest.raises(ChannelFailed):
        await ada.channel.run(ada.ear)
    assert chat.texts() == ["hello"]


async def test_closing_ends_what_is_under_way(ada, chat):
    """A piece that is being sent when the channel closes is uncertain, and closing does not wait for it."""
    hold = Hold(asyncio.Event())
    ada.bot.fail("sendMessage", hold)
    sending = asyncio.create_task(ada.channel.send(post(chat)))
    await hold.reached.wait()
    await ada.channel.close()
    assert isinstance(await sending, Doubtful)
    hold.gate.set()


async def test_many_bots_on_one_platform_do_not_hear_each_other(server):
    """In private each bot has its own chat with a person, under the same id: the person's."""
    user = server.user("Bob")
    bots = [server.bot(f"Bot{number}") for number in range(5)]
    for bot in bots:
        server.say(server.private(bot, user), user, f"for {bot.username}")
    for bot in bots:
        async with rig(server, bot) as one, one.running():
            await server.until(lambda bot=bot: not bot.pending)
            await one.channel.send(post(server.private(bot, user), f"from {bot.username}"))
            assert one.ear.texts == [f"for {bot.username}"]
            assert server.private(bot, user).texts() == [f"from {bot.username}"]
    assert json.dumps([chat.texts() for chat in server.chats.values()]) == "[]"


KINDS = {Meaning.DECLINED: Declined, Meaning.NOT_SENT: NotSent, Meaning.DOUBTFUL: Doubtful}


def decided(answer):
    """The first and the last error of each range that the row decides, from any server."""
    for own in (True, False) if answer.own is None else (answer.own,):
        for some in answer.statuses:
            found = [status for status in some if status >= 300 and answer_to(ANSWERS, status, own=own) is answer]
            yield from ((status, own, answer) for status in (sorted({found[0], found[-1]}) if found else ()))


ROWS = [row for answer in ANSWERS for row in decided(answer)]


@pytest.mark.parametrize("body", ['{"ok": false}', '{"error": "no"}', "<html></html>", "[]"])
@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_each_answer_means_what_its_row_says(ada, chat, row, body):
    status, own, answer = row
    wait = ', "parameters": {"retry_after": 3}' if status == 429 else ""
    verdict = f'{{"ok": false, "error_code": {status}, "description": "no"{wait}}}'
    ada.bot.fail("sendMessage", Page(status, verdict if own else body))
    outcome = await ada.channel.send(post(chat))
    assert type(outcome) is KINDS[answer.meaning]
    assert chat.texts() == []


# --- what an operator is told ----------------------------------------------------------------------


async def test_the_reason_of_a_refusal_has_status_code_and_request_id(ada, chat, caplog):
    """Telegram's own answers have no request id; a Bot API server behind a proxy may."""
    caplog.set_level(logging.INFO)
    sent = "my cat is called Byron and he bites"
    said = f"Bad Request: {sent} at {ada.bot.token} is not acceptable"
    ada.bot.fail("sendMessage", Refuse(400, said, headers={"X-Request-Id": "req-7"}))
    reason = await reply_reason(ada.channel, post(chat, sent))
    says(
        reason,
        logged(caplog, "reply.settled"),
        ids={"status": 400, "request_id": "req-7", "vendor_error": "400"},
        extract="is not acceptable",
        hidden=("Byron", ada.bot.token),
    )


async def test_the_page_of_a_gateway_keeps_its_status(ada, chat, caplog):
    caplog.set_level(logging.INFO)
    ada.bot.fail("sendMessage", Page(502))
    reason = await reply_reason(ada.channel, post(chat))
    says(reason, logged(caplog, "reply.settled"), ids={"status": 502}, extract="Bad Gateway", hidden=("hello",))


async def test_the_token_is_in_no_log_of_any_library(ada, chat, caplog):
    """Every URL of the Bot API holds it, and httpx's own client would log each URL."""
    caplog.set_level(logging.DEBUG)
    assert isinstance(await ada.channel.send(post(chat)), Sent)
    assert "httpcore" in {record.name.partition(".")[0] for record in caplog.records}
    assert ada.bot.token not in "".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)


async def test_a_proxy_of_the_environment_does_not_see_the_token(ada, chat, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert isinstance(await ada.channel.send(post(chat)), Sent)
