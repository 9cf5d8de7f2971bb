"""The outcome of a post states only what is certain; a post that may have arrived is looked up before a resend."""

import json
import logging
from dataclasses import replace

import pytest

from holdfast.channels.slack.answers import ANSWERS
from holdfast.channels.slack.history import SKEW_MS
from holdfast.channels.slack.web import CALL_S
from holdfast.kernel.ids import Instant, ReplyId
from holdfast.kernel.machine import SystemClock
from holdfast.kernel.ports import make_id
from holdfast.kernel.vendor_error import Meaning, answer_to
from holdfast.outbox.post import Declined, Doubtful, NotSent, Sent
from tests.channels.slack.kit import channel_of, post_to
from tests.platforms.slack import Fault
from tests.support.loop_time import timed_out
from tests.support.settled import logged, reply_reason, says


@pytest.fixture
async def channel(world):
    made = channel_of(world.slack, world.bot)
    yield made
    await made.close()


def posted(world):
    return [params for method, params in world.slack.requests if method == "chat.postMessage"]


async def test_a_post_is_plain_text_and_its_receipt_is_slacks_time_stamp(world, channel):
    outcome = await channel.send(post_to(world.room, "1 < 2 & <!channel> *so*"))
    (message,) = world.slack.posts(world.room)
    assert outcome == Sent(message["ts"])
    assert message["text"] == "1 &lt; 2 &amp; &lt;!channel&gt; *so*"
    (params,) = posted(world)
    assert (params["mrkdwn"], params["unfurl_links"], params["unfurl_media"]) == (False, False, False)
    assert "thread_ts" not in params


async def test_a_post_goes_into_its_thread(world, channel):
    first = world.slack.say(world.room, world.ada, "first")
    assert isinstance(await channel.send(post_to(world.room, thread=first)), Sent)
    assert world.slack.posts(world.room)[0]["thread_ts"] == first


async def test_text_is_counted_as_slack_counts_it(channel):
    assert channel.capabilities.text_length("a&b") == 7
    assert not channel.capabilities.typing


OUTCOMES = [
    (
        Fault("chat.postMessage", status=429, error="ratelimited", headers={"Retry-After": "30"}),
        NotSent("ratelimited", 30_000),
    ),
    (Fault("chat.postMessage", error="rate_limited"), NotSent("rate_limited", 1_000)),
    (Fault("chat.postMessage", error="channel_not_found"), Declined("channel_not_found")),
    (Fault("chat.postMessage", error="is_archived"), Declined("is_archived")),
    (Fault("chat.postMessage", error="not_in_channel"), Declined("not_in_channel")),
    (Fault("chat.postMessage", error="restricted_action"), Declined("restricted_action")),
    (Fault("chat.postMessage", error="msg_too_long"), Declined("msg_too_long")),
    (Fault("chat.postMessage", error="internal_error"), Doubtful("internal_error")),
    (Fault("chat.postMessage", error="fatal_error", effect=True), Doubtful("fatal_error")),
    (Fault("chat.postMessage", status=503, error="service_unavailable"), Doubtful("service_unavailable")),
    (Fault("chat.postMessage", status=502, body="<html>", content_type="text/html"), Doubtful("HTTP 502")),
    (Fault("chat.postMessage", body="<html>", content_type="text/html"), Doubtful("the answer is not JSON")),
    (Fault("chat.postMessage", body='{"ok": tr', effect=True), Doubtful("the answer is not JSON")),
    (Fault("chat.postMessage", body="fine", content_type="text/plain"), None),
    (Fault("chat.postMessage", body="null"), None),
    (Fault("chat.postMessage", body='{"ok": true}'), Doubtful("Slack answered ok without a message id")),
    (Fault("chat.postMessage", cut=True), None),
    (Fault("chat.postMessage", cut=True, effect=True), None),
]


@pytest.mark.parametrize(("fault", "outcome"), OUTCOMES, ids=lambda one: one.error or "" if hasattr(one, "on") else "")
async def test_each_failure_says_what_is_certain(world, channel, fault, outcome):
    world.slack.faults = [Fault(**vars(fault))]
    got = await channel.send(post_to(world.room))
    assert got == outcome if outcome is not None else isinstance(got, Doubtful)
    assert len(posted(world)) == 1  # neither we nor the SDK sent it twice


@pytest.mark.parametrize("code", ["invalid_auth", "token_revoked", "account_inactive", "missing_scope"])
async def test_a_token_that_is_not_taken_waits_for_the_operator(world, channel, code):
    world.slack.faults = [Fault("chat.postMessage", error=code)]
    outcome = await channel.send(post_to(world.room))
    assert isinstance(outcome, NotSent)
    assert outcome.whole_account
    assert code in outcome.reason
    assert world.bot.token not in outcome.reason


async def test_a_refused_connection_means_that_nothing_was_sent(world, channel):
    await world.slack.__aexit__()
    assert isinstance(await channel.send(post_to(world.room)), NotSent)


async def test_an_answer_that_never_comes_leaves_doubt(world, channel):
    world.slack.faults = [Fault("chat.postMessage", stall=True)]
    asked = world.slack.until(lambda: posted(world))
    assert isinstance(await timed_out(channel.send(post_to(world.room)), after=asked, limit_s=CALL_S), Doubtful)


async def test_a_closed_channel_sends_nothing(world, channel):
    await channel.close()
    assert isinstance(await channel.send(post_to(world.room)), NotSent)
    assert posted(world) == []


@pytest.mark.parametrize("is_in_thread", [False, True])
async def test_a_post_that_did_arrive_is_found_and_not_sent_again(world, channel, is_in_thread):
    thread = world.slack.say(world.room, world.ada, "first") if is_in_thread else None
    world.slack.faults = [Fault("chat.postMessage", cut=True, effect=True)]
    assert isinstance(await channel.send(post_to(world.room, thread=thread)), Doubtful)
    (message,) = world.slack.posts(world.room)
    again = replace(post_to(world.room, thread=thread, doubtful=True), reply=reply_of(message))
    assert await channel.send(again) == Sent(message["ts"], proved=True)
    assert len(world.slack.posts(world.room)) == 1


async def test_another_part_of_the_same_reply_is_not_taken_for_the_uncertain_one(world, channel):
    first = post_to(world.room, "part one")
    assert isinstance(await channel.send(replace(first, parts=2)), Sent)
    second = replace(first, text="part two", part=1, parts=2, doubtful=True, doubtful_for_ms=90_000)
    outcome = await channel.send(second)
    posts = world.slack.posts(world.room)
    assert [one["text"] for one in posts] == ["part one", "part two"]
    assert outcome == Sent(posts[1]["ts"], proved=True)


async def test_a_post_is_found_though_slacks_clock_is_behind_ours(world, channel):
    """Slack's time of a message may be earlier than the time at which we made the reply."""
    world.slack.faults = [Fault("chat.postMessage", cut=True, effect=True)]
    made_at = Instant(SystemClock().now() + SKEW_MS - 60_000)
    ahead = replace(post_to(world.room), reply=ReplyId(make_id("rep", made_at, 1)))
    assert isinstance(await channel.send(ahead), Doubtful)
    assert isinstance(await channel.send(replace(ahead, doubtful=True)), Sent)
    assert len(world.slack.posts(world.room)) == 1


def reply_of(message):
    return message["metadata"]["event_payload"]["nonce"].rpartition(".")[0]


@pytest.mark.parametrize(("doubtful_for_ms", "proved"), [(5_000, False), (90_000, True)])
async def test_a_post_that_did_not_arrive_is_sent_again(world, channel, doubtful_for_ms, proved):
    """Shortly after the first attempt it may still be under way, so its absence proves nothing yet."""
    await channel.send(post_to(world.room, "another", n=2))
    world.slack.say(world.room, world.ada, "hello")
    again = replace(post_to(world.room, "hello", doubtful=True), doubtful_for_ms=doubtful_for_ms)
    outcome = await channel.send(again)
    assert [one["text"] for one in world.slack.posts(world.room)] == ["another", "hello"]
    assert outcome == Sent(world.slack.posts(world.room)[1]["ts"], proved=proved)


LOOKUPS = [
    (Fault("conversations.history", status=429, error="ratelimited", headers={"Retry-After": "9"}), 9_000),
    (Fault("conversations.history", status=500, body=""), 0),
    (Fault("conversations.history", cut=True, times=2), 0),
]


@pytest.mark.parametrize(("fault", "wait_ms"), LOOKUPS)
async def test_an_uncertain_post_is_not_resent_while_it_cannot_be_looked_for(world, channel, fault, wait_ms):
    world.slack.faults = [Fault(**vars(fault))]
    outcome = await channel.send(post_to(world.room, doubtful=True))
    assert isinstance(outcome, NotSent)
    assert outcome.retry_after_ms == wait_ms
    assert posted(world) == []


async def test_an_uncertain_post_is_resent_where_looking_is_not_allowed(world, channel):
    world.slack.faults = [Fault("conversations.history", error="missing_scope")]
    outcome = await channel.send(replace(post_to(world.room, doubtful=True), doubtful_for_ms=90_000))
    assert outcome == Sent(world.slack.posts(world.room)[0]["ts"], proved=False)


KINDS = {Meaning.DECLINED: Declined, Meaning.NOT_SENT: NotSent, Meaning.DOUBTFUL: Doubtful}


def decided(answer):
    """The first and the last error of each range that the row decides, from any server."""
    for own in (True, False) if answer.own is None else (answer.own,):
        for some in answer.statuses:
            found = [status for status in some if status >= 300 and answer_to(ANSWERS, status, own=own) is answer]
            yield from ((status, own, answer) for status in (sorted({found[0], found[-1]}) if found else ()))


ROWS = [row for answer in ANSWERS for row in decided(answer)]


@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_each_answer_means_what_its_row_says(world, channel, row):
    status, own, answer = row
    body = '{"ok": false, "error": "channel_not_found"}' if own else '{"error": "not of Slack", "message": "no"}'
    world.slack.faults = [Fault("chat.postMessage", status=status, body=body)]
    outcome = await channel.send(post_to(world.room))
    assert type(outcome) is KINDS[answer.meaning]
    assert len(posted(world)) == 1


SENT = "my cat is called Byron and he bites"


async def test_the_reason_of_a_refusal_has_status_code_and_request_id(world, channel, caplog):
    caplog.set_level(logging.INFO)
    body = {
        "ok": False,
        "error": "invalid_arguments",
        "detail": f"you sent {SENT} with {world.bot.token}, which is bad",
    }
    headers = {"x-slack-req-id": "6baa23d9-daed-427a"}
    world.slack.faults = [Fault("chat.postMessage", status=400, body=json.dumps(body), headers=headers)]
    reason = await reply_reason(channel, post_to(world.room, SENT))
    says(
        reason,
        logged(caplog, "reply.settled"),
        ids={"status": 400, "request_id": "6baa23d9-daed-427a", "vendor_error": "invalid_arguments"},
        extract="which is bad",
        hidden=("Byron", world.bot.token),
    )


@pytest.mark.parametrize("content_type", ["text/plain", "text/html", "application/json"])
async def test_the_page_of_a_proxy_keeps_its_status(world, channel, caplog, content_type):
    caplog.set_level(logging.INFO)
    world.slack.faults = [
        Fault(
            "chat.postMessage", status=503, body="no upstream", headers={"cf-ray": "9a-FRA"}, content_type=content_type
        )
    ]
    reason = await reply_reason(channel, post_to(world.room, SENT))
    ids = {"status": 503, "request_id": "9a-FRA"}
    says(reason, logged(caplog, "reply.settled"), ids=ids, extract="no upstream", hidden=("Byron",))
