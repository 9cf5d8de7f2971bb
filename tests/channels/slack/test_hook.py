"""The promise: over HTTP nothing unsigned is read, and Slack hears 200 only when what it told is durable."""

import asyncio
import hashlib
import hmac
import json
import logging
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest

from holdfast.channels.receiving import WHOLE
from holdfast.channels.slack import SlackChannel, history, reading
from holdfast.channels.slack.webhook import AGE_MS_MAX, READ_BACK_MS, SIGNATURE, TIMESTAMP, check_signature
from holdfast.inbox.channel import WebhookRequest
from holdfast.kernel.errors import BadSignature, ChannelFailed, InvalidName, StoreUnavailable
from holdfast.kernel.ids import Instant
from holdfast.kernel.machine import SystemClock
from tests.channels.slack.kit import channel_of, setup_of
from tests.platforms.slack import Fault

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
NOW_S = 1_700_000_000
AGE_S = AGE_MS_MAX // 1000
NONSENSE = b"\xff not even JSON"


class Hands:
    """A clock that the test moves."""

    def __init__(self):
        self.ms = NOW_S * 1000

    def now(self):
        return Instant(self.ms)


class Gate(asyncio.Event):
    """Tells when somebody stands there."""

    def __init__(self):
        super().__init__()
        self.reached = asyncio.Event()

    async def wait(self):
        self.reached.set()
        return await super().wait()


def headers_of(body, at=NOW_S, secret=SECRET):
    """As Slack signs; the example of its documentation, below, says so."""
    signature = hmac.new(secret.encode(), f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
    return {SIGNATURE: f"v0={signature}", TIMESTAMP: str(at)}


@dataclass
class Desk:
    """A channel over HTTP, and Slack's side of it."""

    world: Any  # that of conftest.py
    channel: SlackChannel
    clock: Hands

    async def call(self, body, headers=None):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        at = self.clock.ms // 1000
        request = WebhookRequest(headers=headers_of(body, at) if headers is None else headers, body=body)
        return await self.channel.hook(request, self.world.mailbox)

    def said(self, text, room=None, **more):
        """What Slack would post about it."""
        self.world.slack.hold(self.world.bot)
        self.world.slack.say(room or self.world.dm, self.world.ada, text, **more)
        return self.world.bot.held[0].payload

    async def say(self, text, room=None):
        return (await self.call(self.said(text, room))).status

    @asynccontextmanager
    async def running(self):
        mailbox = self.world.mailbox
        stories = len(mailbox.story)
        task = asyncio.ensure_future(self.channel.run(mailbox))
        task.add_done_callback(lambda _: mailbox.changed.set())
        try:
            await mailbox.until(lambda: len(mailbox.story) > stories or task.done())
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, ChannelFailed):
                await task


@asynccontextmanager
async def desk_of(world):
    clock = Hands()
    setup = replace(setup_of({}), clock=clock)
    channel = SlackChannel(setup, world.bot.token, world.slack.api_url, signing_secret=SECRET)
    try:
        yield Desk(world, channel, clock)
    finally:
        await channel.close()


@pytest.fixture
async def idle(world):
    async with desk_of(world) as desk:
        yield desk


@pytest.fixture
async def desk(idle):
    async with idle.running():
        yield idle


# --- signatures ------------------------------------------------------------------------------------


def test_the_example_of_slacks_documentation_is_taken():
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    signature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    assert headers_of(body, 1_531_420_618)[SIGNATURE] == signature
    request = WebhookRequest(headers={SIGNATURE: signature, TIMESTAMP: "1531420618"}, body=body)
    check_signature(request, SECRET, Instant(1_531_420_618_000))


GOOD = headers_of(NONSENSE)
HEX = GOOD[SIGNATURE].removeprefix("v0=")
BAD = {
    "nothing": {},
    "no signature": {TIMESTAMP: GOOD[TIMESTAMP]},
    "no time": {SIGNATURE: GOOD[SIGNATURE]},
    "blank": {SIGNATURE: "", TIMESTAMP: ""},
    "stale": headers_of(NONSENSE, NOW_S - AGE_S - 1),
    "from the future": headers_of(NONSENSE, NOW_S + AGE_S + 1),
    "another body": headers_of(NONSENSE + b" "),
    "another time": {**GOOD, TIMESTAMP: str(NOW_S + 1)},
    "a time with a zero before it": {**GOOD, TIMESTAMP: f"0{NOW_S}"},
    "another secret": headers_of(NONSENSE, secret=SECRET[:-1]),
    "no secret": headers_of(NONSENSE, secret=""),
    "another version": {**GOOD, SIGNATURE: f"v1={HEX}"},
    "no version": {**GOOD, SIGNATURE: HEX},
    "capitals": {**GOOD, SIGNATURE: f"v0={HEX.upper()}"},
    "half of it": {**GOOD, SIGNATURE: GOOD[SIGNATURE][:35]},
    "a line after it": {**GOOD, SIGNATURE: f"{GOOD[SIGNATURE]}\n"},
    "two signatures": {**GOOD, SIGNATURE: f"{GOOD[SIGNATURE]}, {GOOD[SIGNATURE]}"},
    "two times": {**GOOD, TIMESTAMP: f"{NOW_S}, {NOW_S}"},
    "no ASCII": {**GOOD, SIGNATURE: "v0=é\udcff"},
    **{f"the time {odd!a}": headers_of(NONSENSE, odd) for odd in ("now", "-5", "1.7e9", f" {NOW_S}", "1" * 5000)},
    "digits of another script": {**GOOD, TIMESTAMP: "\N{FULLWIDTH DIGIT ONE}" * 10},
}


@pytest.mark.parametrize("headers", BAD.values(), ids=BAD.keys())
async def test_a_request_that_is_not_signed_for_now_is_not_read(desk, headers):
    with pytest.raises(BadSignature) as refused:
        await desk.call(NONSENSE, headers)
    assert SECRET not in str(refused.value)
    assert HEX not in str(refused.value)


async def test_a_signed_request_of_somebody_else_changes_nothing(desk):
    body = json.dumps(desk.said("let me in")).encode()
    with pytest.raises(BadSignature):
        await desk.call(body, headers_of(body, secret="another"))
    assert desk.world.mailbox.asked == []


@pytest.mark.parametrize("apart_s", [-AGE_S, 0, AGE_S])
async def test_clocks_may_be_five_minutes_apart(desk, apart_s):
    body = json.dumps(desk.said("hello")).encode()
    assert (await desk.call(body, headers_of(body, NOW_S + apart_s))).status == 200
    assert desk.world.mailbox.texts() == ["hello"]


async def test_in_socket_mode_nothing_that_is_posted_is_read(world):
    channel = channel_of(world.slack, world.bot)
    for secret in ("", SECRET):
        with pytest.raises(BadSignature):
            await channel.hook(WebhookRequest(headers=headers_of(b"{}", secret=secret), body=b"{}"), world.mailbox)


# --- what is asked ---------------------------------------------------------------------------------

DEEP, HUGE = b"[" * 100_000, b'{"type": ' + b"9" * 5000 + b"}"


@pytest.mark.parametrize(
    "body", [b"", b"{", NONSENSE, b"[]", b"5", b"null", DEEP, HUGE], ids=lambda body: ascii(body[:9])
)
async def test_what_is_no_json_object_is_answered_400(desk, body):
    assert (await desk.call(body)).status == 400


async def test_the_challenge_is_answered_even_before_the_channel_runs(idle):
    answer = await idle.call({"type": "url_verification", "token": "x", "challenge": "3eZbrw1aB10"})
    assert (answer.status, answer.body, answer.media_type) == (200, b"3eZbrw1aB10", "text/plain")


@pytest.mark.parametrize("challenge", [None, 5, "", {}, "\ud800"])
async def test_a_challenge_that_is_none_is_answered_400(idle, challenge):
    assert (await idle.call({"type": "url_verification", "challenge": challenge})).status == 400


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"type": "app_rate_limited", "minute_rate_limited": 1},
        {"type": ["event_callback"]},
        {"type": "event_callback"},
        {"type": "event_callback", "event": 5},
        {"type": "event_callback", "event": {"type": "team_join"}},
        {"type": "event_callback", "event": {"type": "message", "channel": 5, "ts": "x", "user": "U1"}},
    ],
    ids=str,
)
async def test_what_no_agent_could_read_is_not_asked_for_again(desk, told):
    assert (await desk.call(told)).status == 200
    assert desk.world.mailbox.asked == []


# --- durable before 200 ----------------------------------------------------------------------------


async def test_the_answer_waits_until_the_message_is_durable(desk):
    mailbox = desk.world.mailbox
    mailbox.shut(desk.world.dm)
    calling = asyncio.ensure_future(desk.say("one"))
    await mailbox.until(lambda: mailbox.asked)
    for _ in range(20):  # an answer without a cause would arrive now
        await asyncio.sleep(0)
    assert not calling.done()
    mailbox.open(desk.world.dm)
    assert await calling == 200
    (message,) = mailbox.taken
    assert (message.sender, message.text, message.chat) == (f"T1.{desk.world.ada}", "one", desk.world.dm)


async def test_what_could_not_be_kept_is_answered_503_and_kept_later_in_its_place(desk):
    mailbox = desk.world.mailbox
    mailbox.errors = [StoreUnavailable("the disk is away")] * 3
    first = desk.said("one")
    assert (await desk.call(first)).status == 503
    assert await desk.say("two") == 200
    assert (await desk.call(first)).status == 200
    assert mailbox.texts() == ["one", "two"]


async def test_what_will_never_be_kept_holds_up_nothing(desk):
    desk.world.mailbox.errors = [InvalidName("no such name")]
    assert [await desk.say("one"), await desk.say("two")] == [200, 200]
    assert desk.world.mailbox.texts() == ["two"]


async def test_a_message_that_takes_too_long_is_answered_503_and_others_wait_behind_it(desk, monkeypatch):
    mailbox, dm = desk.world.mailbox, desk.world.dm
    mailbox.shut(dm)
    monkeypatch.setattr(reading, "DELIVER_S", 0)
    told = [desk.said("one"), desk.said("two")]
    assert [(await desk.call(one)).status for one in [*told, *told]] == [503] * 4
    mailbox.open(dm)
    await mailbox.until_texts("one", "two")
    monkeypatch.undo()
    assert [(await desk.call(one)).status for one in told] == [200, 200]
    assert mailbox.texts() == ["one", "two"]


async def test_a_slow_conversation_holds_up_no_other(desk):
    mailbox = desk.world.mailbox
    mailbox.shut(desk.world.room)
    slow = asyncio.ensure_future(desk.say("slow", desk.world.room))
    await mailbox.until(lambda: mailbox.asked)
    assert await desk.say("quick") == 200
    mailbox.open(desk.world.room)
    assert await slow == 200


async def test_messages_of_one_conversation_are_taken_in_the_order_in_which_they_came(desk):
    told = [desk.said(str(n)) for n in range(20)]
    answers = await asyncio.gather(*(desk.call(one) for one in told))
    assert {answer.status for answer in answers} == {200}
    assert desk.world.mailbox.texts() == [str(n) for n in range(20)]


async def test_what_slack_sends_again_is_taken_once_also_by_the_next_process(world):
    async with desk_of(world) as desk, desk.running():
        told = desk.said("hello")
        assert [(await desk.call(told)).status for _ in range(3)] == [200] * 3
    async with desk_of(world) as desk, desk.running():
        assert (await desk.call(told)).status == 200
    assert world.mailbox.texts() == ["hello"]


async def test_a_mention_is_one_message_though_slack_tells_it_twice(desk):
    desk.said(f"<@{desk.world.bot.user}> what is up?", desk.world.room)
    for envelope in desk.world.bot.held:
        assert (await desk.call(envelope.payload)).status == 200
    assert desk.world.mailbox.texts() == ["what is up?"]
    assert desk.world.mailbox.clashes == []


# --- coming up, and staying up ---------------------------------------------------------------------


async def test_before_the_channel_runs_and_after_events_are_sent_back(idle):
    assert await idle.say("early") == 503
    async with idle.running():
        pass
    assert await idle.say("late") == 503
    assert idle.world.mailbox.asked == []


async def test_what_was_missed_comes_before_what_is_told_now(world):
    async with desk_of(world) as desk, desk.running():
        assert await desk.say("before") == 200
    desk.said("missed")
    gate = world.mailbox.marks_gate = Gate()
    async with desk_of(world) as desk:
        run = asyncio.ensure_future(desk.channel.run(world.mailbox))
        await gate.reached.wait()
        assert await desk.say("now, too early") == 503  # it would move the mark past what was missed
        gate.set()
        await world.mailbox.until_texts("before", "missed", "now, too early")
        assert await desk.say("now") == 200
        run.cancel()
        with suppress(asyncio.CancelledError):
            await run
    assert world.mailbox.texts() == ["before", "missed", "now, too early", "now"]
    assert world.bot.connects == 0


async def test_what_slack_gave_up_on_is_read_back_at_the_next_look(desk, monkeypatch):
    monkeypatch.setattr(history, "OVERLAP", 0)
    mailbox = desk.world.mailbox
    assert await desk.say("before") == 200
    desk.clock.ms += READ_BACK_MS
    asked = desk.world.slack.requests
    await desk.world.slack.until(lambda: [method for method, _ in asked].count("conversations.history") == 2)
    desk.said("given up")
    assert await desk.say("after") == 200  # moves the mark past it
    desk.clock.ms += READ_BACK_MS
    await mailbox.until_texts("before", "after", "given up")


async def test_first_words_that_slack_gave_up_on_are_read_back_at_the_next_look(idle, monkeypatch):
    monkeypatch.setattr(history, "OVERLAP", 0)
    mailbox = idle.world.mailbox
    idle.clock.ms = SystemClock().now()
    async with idle.running():
        idle.said("given up", idle.world.room)
        idle.said("given up as well")
        assert await idle.say("after") == 200  # the first mark, which is past it
        idle.clock.ms += READ_BACK_MS
        await mailbox.until_texts("after", "given up as well", chat=idle.world.dm)
        await mailbox.until_texts("given up", chat=idle.world.room)
        await mailbox.until(lambda: len([one for one, _ in mailbox.notes if one == WHOLE]) == 2)
    assert mailbox.marks[WHOLE][0] == idle.clock.ms


async def test_what_slack_gave_up_on_is_read_back_by_the_next_process(world, monkeypatch):
    """The mark was past it when the process died, before it looked."""
    monkeypatch.setattr(history, "OVERLAP", 0)
    async with desk_of(world) as desk:
        desk.clock.ms = SystemClock().now()
        async with desk.running():
            assert await desk.say("before") == 200
            desk.said("given up")
            assert await desk.say("after") == 200
    async with desk_of(world) as desk:
        desk.clock.ms = SystemClock().now()
        async with desk.running():
            await world.mailbox.until_texts("before", "after", "given up")


async def test_replies_that_slack_gave_up_on_are_read_back_though_their_thread_is_new(desk, monkeypatch):
    monkeypatch.setattr(history, "OVERLAP", 0)
    mailbox, asked = desk.world.mailbox, desk.world.slack.requests
    thread = desk.said("before")["event"]["ts"]
    assert (await desk.call(desk.world.bot.held[0].payload)).status == 200
    desk.clock.ms += READ_BACK_MS
    await desk.world.slack.until(lambda: [method for method, _ in asked].count("conversations.history") == 2)
    desk.said("given up", thread=thread)
    assert (await desk.call(desk.said("after", thread=thread))).status == 200  # the first mark of the thread
    desk.clock.ms += READ_BACK_MS
    await mailbox.until_texts("before", "after", "given up")


async def test_first_words_come_before_a_message_for_which_there_was_no_room_at_first(world, monkeypatch):
    monkeypatch.setattr(reading, "WAITING_MAX", 1)
    async with desk_of(world) as desk, desk.running():
        pass
    world.slack.say(world.room, world.ada, "first", deliver=False)
    world.slack.faults = [Fault("users.conversations", status=503, body="", times=1_000_000)]
    async with desk_of(world) as desk, desk.running():
        assert await desk.say("hello") == 200
        world.mailbox.shut(world.dm)
        busy = asyncio.ensure_future(desk.say("busy"))
        await world.mailbox.until(lambda: len(world.mailbox.asked) == 2)
        with monkeypatch.context() as hasty:
            hasty.setattr(reading, "DELIVER_S", 0)
            assert await desk.say("second", world.room) == 503
        world.mailbox.open(world.dm)
        assert await busy == 200
        assert (await desk.call(world.bot.held[0].payload)).status == 200
        assert world.mailbox.texts(world.room) == ["first", "second"]
        world.slack.faults.clear()


async def test_a_slack_that_is_away_at_a_look_is_asked_again(desk):
    mailbox = desk.world.mailbox
    desk.world.slack.faults = [Fault("auth.test", status=503, body="")]
    desk.clock.ms += READ_BACK_MS
    await mailbox.until(lambda: len(mailbox.story) == 2)
    assert await desk.say("hello") == 200
    desk.clock.ms += READ_BACK_MS
    await mailbox.until(lambda: len(mailbox.story) == 3)
    assert mailbox.story == ["connected", "disconnected: HTTP 503", "connected"]


async def test_a_store_that_is_away_at_the_start_is_asked_again(idle):
    mailbox = idle.world.mailbox
    mailbox.mark_errors = [StoreUnavailable("no")]
    async with idle.running():
        assert mailbox.story == ["disconnected: the read positions could not be loaded: store_unavailable"]
        assert await idle.say("early") == 503
        idle.clock.ms += READ_BACK_MS
        await mailbox.until(lambda: len(mailbox.story) == 2)
        assert await idle.say("hello") == 200


async def test_a_token_that_is_revoked_later_ends_the_run(idle):
    async with idle.running() as run:
        idle.world.slack.faults = [Fault("auth.test", error="token_revoked")]
        idle.clock.ms += READ_BACK_MS
        with pytest.raises(ChannelFailed, match="bot token \\(token_revoked\\)"):
            await run


async def test_a_fault_of_ours_ends_the_run_and_is_answered_503(idle, monkeypatch):
    async def receive(message):
        raise ZeroDivisionError

    monkeypatch.setattr(idle.world.mailbox, "receive", receive)
    monkeypatch.setattr(reading, "DELIVER_S", 0.05)
    asyncio.get_running_loop().set_exception_handler(lambda _, context: None)
    async with idle.running() as run:
        assert await idle.say("hello") == 503
        with pytest.raises(ChannelFailed, match="bug in Holdfast"):
            await run


async def test_neither_words_nor_secrets_are_in_the_log(desk, caplog):
    caplog.set_level(logging.DEBUG)
    desk.world.mailbox.errors = [StoreUnavailable("no")]
    assert await desk.say("between us") == 503
    await desk.world.mailbox.until_texts("between us")
    with pytest.raises(BadSignature):
        await desk.call(NONSENSE, BAD["another secret"])
    for secret in ("between us", desk.world.bot.token, SECRET):
        assert secret not in caplog.text
