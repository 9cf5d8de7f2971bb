"""A message is posted once, and what `send` says about it is certain."""

import asyncio
import json
import logging
from typing import Any

import pytest
from discord.http import Ratelimit

from holdfast.channels.discord.answers import ANSWERS
from holdfast.channels.discord.channel import SEND_S, TYPING_S
from holdfast.kernel.vendor_error import Meaning, answer_to
from holdfast.outbox.post import Declined, Doubtful, NotSent, Sent
from tests.channels.discord.kit import post_to, running
from tests.platforms.discord import Fault
from tests.support.fakes import soon
from tests.support.live import until
from tests.support.loop_time import timed_out
from tests.support.settled import logged, reply_reason, says

POST = "/messages"


@pytest.fixture
async def channel(world):
    async with running(world.fake, world.bot, world.mailbox) as channel:
        yield channel


async def test_a_message_is_posted_with_an_enforced_nonce_and_notifies_no_one(world, channel):
    asked = world.fake.say(world.room, world.ann, "well?")
    outcome = await channel.send(post_to(world.room, "@everyone hello", in_reply_to=f"{asked['id']}.edit.12"))
    [posted] = [one for one in world.room.messages.values() if one["author"]["id"] == world.bot.id]
    assert outcome == Sent(posted["id"])
    assert posted["referenced_message"]["id"] == asked["id"]
    [body] = world.fake.posts
    assert body["enforce_nonce"] is True
    assert 16 <= len(body["nonce"]) <= 25
    assert body["allowed_mentions"] == {"parse": [], "replied_user": False}
    assert body["message_reference"] == {"message_id": asked["id"], "fail_if_not_exists": False}


async def test_every_piece_has_a_nonce_of_its_own_and_every_attempt_the_same(world, channel):
    for part, reply in ((0, "rep_1"), (1, "rep_1"), (0, "rep_2"), (0, "rep_1")):
        await channel.send(post_to(world.room, f"{reply} {part}", reply=reply, part=part))
    first, second, third, again = [body["nonce"] for body in world.fake.posts]
    assert len({first, second, third}) == 3
    assert again == first
    assert world.fake.texts(world.room, world.bot.user) == ["rep_1 0", "rep_1 1", "rep_2 0"]


async def test_a_thread_is_answered_in_the_thread(world, channel):
    thread = world.fake.add_thread(world.room, "plans")
    assert isinstance(await channel.send(post_to(thread, "here")), Sent)
    assert world.fake.texts(thread, world.bot.user) == ["here"]


async def test_an_answer_that_was_lost_is_doubtful_and_sending_again_posts_nothing_new(world, channel):
    world.fake.faults.append(Fault(POST, cut=True, effect=True))
    post = post_to(world.room, "once")
    assert isinstance(await channel.send(post), Doubtful)
    [posted] = world.room.messages
    assert await channel.send(post) == Sent(posted)
    assert world.fake.texts(world.room, world.bot.user) == ["once"]


async def test_a_request_that_was_lost_is_doubtful_and_sending_again_posts_it(world, channel):
    world.fake.faults.append(Fault(POST, cut=True))
    post = post_to(world.room, "once")
    assert isinstance(await channel.send(post), Doubtful)
    assert isinstance(await channel.send(post), Sent)
    assert world.fake.texts(world.room, world.bot.user) == ["once"]


async def test_nothing_listening_is_certainly_not_sent(world, channel):
    world.fake.faults.append(Fault(POST, cut=True))
    await channel.send(post_to(world.room, "takes the open connection with it", reply="rep_0"))
    for site in list(world.fake._runner.sites):
        await site.stop()
    assert isinstance(await channel.send(post_to(world.room, "hello")), NotSent)


@pytest.mark.parametrize("status", [503, 507])
async def test_a_fault_of_discords_is_doubtful(world, channel, status):
    world.fake.faults.append(Fault(POST, status=status, effect=True))
    post = post_to(world.room, "once")
    assert isinstance(await channel.send(post), Doubtful)
    assert isinstance(await channel.send(post), Sent)
    assert world.fake.texts(world.room, world.bot.user) == ["once"]


async def test_what_discord_py_repeats_by_itself_is_posted_once(world, channel, monkeypatch):
    hasten(monkeypatch)
    world.fake.faults.append(Fault(POST, status=502, effect=True))
    assert isinstance(await channel.send(post_to(world.room, "once")), Sent)
    assert len(world.fake.posts) == 2
    assert world.fake.texts(world.room, world.bot.user) == ["once"]


async def test_a_refusal_after_a_doubtful_attempt_is_still_doubtful(world, channel, monkeypatch):
    hasten(monkeypatch)
    world.fake.faults.append(Fault(POST, status=502, effect=True))
    world.fake.limit(POST, 1.5)
    assert isinstance(await channel.send(post_to(world.room, "once")), Doubtful)
    assert world.fake.texts(world.room, world.bot.user) == ["once"]


async def test_a_platform_that_hangs_is_doubtful_within_a_bounded_time(world, channel):
    world.fake.faults.append(Fault(POST, stall=True))
    asked = world.fake.until(lambda: not world.fake.faults)
    sending = channel.send(post_to(world.room, "hello"))
    assert isinstance(await timed_out(sending, after=asked, limit_s=SEND_S), Doubtful)


@pytest.mark.parametrize("everywhere", [False, True])
async def test_a_rate_limit_is_told_at_once_and_left_to_the_ledger(world, channel, everywhere):
    world.fake.limit(POST, 7.25, everywhere=everywhere)
    outcome = await channel.send(post_to(world.room, "hello"))
    assert outcome == NotSent("Discord limits the rate", 7_250, whole_account=everywhere)
    assert isinstance(await channel.send(post_to(world.room, "hello")), Sent)


async def test_a_message_that_used_up_the_limit_is_known_to_be_sent(world, channel, monkeypatch):
    """discord.py waits for the next window before it returns the answer."""
    read, update = asyncio.Event(), Ratelimit.update

    def updated(*args: Any, **options: Any) -> None:
        update(*args, **options)
        read.set()

    monkeypatch.setattr(Ratelimit, "update", updated)
    spent = {"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset-After": "3600"}
    world.fake.faults.append(Fault(POST, status=200, body='{"id": "17"}', headers=spent))
    sending = channel.send(post_to(world.room, "hello"))
    assert await timed_out(sending, after=soon(read.wait()), limit_s=SEND_S) == Sent("17")


async def test_the_front_door_speaks_for_the_whole_account(world, channel):
    page = "<html>banned</html>"
    world.fake.faults.append(
        Fault(POST, status=429, body=page, content_type="text/html", headers={"Retry-After": "30"})
    )
    assert await channel.send(post_to(world.room, "x")) == NotSent(
        "Discord limits the rate", 30_000, whole_account=True
    )
    world.fake.faults.append(Fault(POST, status=403, body=page, content_type="text/html"))
    assert isinstance(await channel.send(post_to(world.room, "x")), Doubtful)


async def test_what_discord_refuses_for_good_is_declined(world, channel):
    closed = world.fake.add_channel(world.fake.add_guild("Elsewhere"), "closed to the bot")
    gone = type(closed)("77", 0)
    outcomes = [
        await channel.send(post_to(closed, "secret words")),
        await channel.send(post_to(gone, "secret words", reply="rep_2")),
        await channel.send(post_to(world.room, "secret words" * 200, reply="rep_3")),
        await channel.send(post_to(type(closed)("no-number", 0), "secret words", reply="rep_4")),
    ]
    assert [type(outcome) for outcome in outcomes] == [Declined] * 4
    assert "secret" not in str(outcomes)
    assert outcomes[0].reason == "Discord refused it with 403"
    assert (outcomes[0].vendor.code, outcomes[0].vendor.extract) == ("50001", "Missing Access")


async def test_a_token_that_was_withdrawn_is_not_the_messages_fault(world, channel):
    world.fake.faults.append(Fault(POST, status=401, body='{"message": "401: Unauthorized", "code": 0}'))
    outcome = await channel.send(post_to(world.room, "hello"))
    assert isinstance(outcome, NotSent)
    assert outcome.whole_account


async def test_nothing_is_sent_before_the_channel_runs_and_after_it_ended(world):
    async with running(world.fake, world.bot, world.mailbox) as channel:
        pass
    post = post_to(world.room, "hello")
    not_yet = NotSent("the channel is not connected", retry_after_ms=5_000, whole_account=True)
    assert await channel.send(post) == not_yet
    assert await channel.edit(post.address, "1", "hello") == not_yet
    assert await channel.retract(post.address, "1") == not_yet
    assert world.fake.posts == []


async def test_typing_is_shown_and_its_failures_are_ignored(world, channel):
    await channel.typing(post_to(world.room, "").address)
    assert world.room.typing == 1
    for fault in (Fault("/typing", status=403), Fault("/typing", cut=True)):
        world.fake.faults.append(fault)
        await channel.typing(post_to(world.room, "").address)


async def test_a_request_cancelled_within_a_global_limit_blocks_no_other(world, channel):
    world.fake.limit("/typing", 20, everywhere=True)
    limited = soon(until(lambda: not channel._session.http._global_over.is_set()))
    await timed_out(channel.typing(post_to(world.room, "").address), after=limited, limit_s=TYPING_S)
    assert isinstance(await channel.send(post_to(world.room, "hello")), Sent)


def hasten(monkeypatch):
    """discord.py's own pauses between two attempts take no time."""

    async def at_once(_: float) -> None:
        return

    monkeypatch.setattr("discord.http.asyncio.sleep", at_once)


KINDS = {Meaning.DECLINED: Declined, Meaning.NOT_SENT: NotSent, Meaning.DOUBTFUL: Doubtful}


def decided(answer):
    """The first and the last error of each range that the row decides, from any server."""
    for own in (True, False) if answer.own is None else (answer.own,):
        for some in answer.statuses:
            found = [status for status in some if status >= 300 and answer_to(ANSWERS, status, own=own) is answer]
            yield from ((status, own, answer) for status in (sorted({found[0], found[-1]}) if found else ()))


ROWS = [row for answer in ANSWERS for row in decided(answer)]


@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_each_answer_means_what_its_row_says(world, channel, monkeypatch, row):
    status, own, answer = row
    hasten(monkeypatch)
    body = '{"message": "refused", "code": 50001}' if own else '{"message": "not of Discord"}'
    world.fake.faults += [Fault(POST, status=status, body=body) for _ in range(6)]  # discord.py repeats some by itself
    outcome = await channel.send(post_to(world.room, "hello"))
    assert type(outcome) is KINDS[answer.meaning]
    assert world.fake.texts(world.room, world.bot.user) == []


async def test_the_reason_of_a_refusal_has_status_code_and_request_id(world, channel, caplog):
    caplog.set_level(logging.INFO)
    sent = "my cat is called Byron and he bites"
    body = {"message": f"Cannot send {sent} with {world.bot.token} to this user", "code": 50007}
    world.fake.faults.append(Fault(POST, status=403, body=json.dumps(body), headers={"CF-RAY": "527421339fd0e3c6-ATL"}))
    reason = await reply_reason(channel, post_to(world.room, sent))
    says(
        reason,
        logged(caplog, "reply.settled"),
        ids={"status": 403, "request_id": "527421339fd0e3c6-ATL", "vendor_error": "50007"},
        extract="to this user",
        hidden=("Byron", world.bot.token),
    )
