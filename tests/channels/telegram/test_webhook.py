"""A webhook is answered with 200 only when its update is durable, and read only when it has the secret."""

import asyncio
import json

import pytest

from holdfast.inbox.channel import WebhookRequest
from holdfast.kernel.errors import BadSignature, ChannelFailed, StoreUnavailable
from tests.channels.telegram.kit import rig
from tests.platforms.telegram import Refuse

URL = "https://bots.example/v1/hooks/ada/telegram"
SECRET = "x-telegram-bot-api-secret-token"


@pytest.fixture
async def hooked(server, bot):
    async with rig(server, bot, mode="webhook", webhook_url=URL, webhook_secret_env="HOOK") as made:
        yield made


@pytest.fixture
async def ready(hooked):
    async with hooked.running():
        await hooked.server.until(lambda: hooked.bot.webhook)
        yield hooked


@pytest.fixture
def say(server, bot):
    user = server.user("Bob")
    chat = server.private(bot, user)
    return lambda text: server.say(chat, user, text)


def call(hooked):
    """How the HTTP server passes a request."""

    async def hook(headers, body):
        lower = {name.lower(): value for name, value in headers.items()}
        return (await hooked.channel.hook(WebhookRequest(headers=lower, body=body), hooked.ear)).status

    return hook


async def test_the_webhook_is_set_with_its_secret_and_drops_nothing(ready, say):
    form = dict(ready.bot.webhook)
    assert json.loads(form.pop("allowed_updates"))[:2] == ["message", "edited_message"]
    assert form == {
        "url": URL,
        "secret_token": "hook-secret",
        "max_connections": "1",  # with more, messages of one chat would come side by side
        "drop_pending_updates": "false",
    }


async def test_what_waited_before_the_webhook_was_set_is_delivered(hooked, say):
    say("while you were away")
    async with hooked.running():
        await hooked.server.until(lambda: hooked.bot.webhook)
        assert await hooked.server.call_hook(hooked.bot, call(hooked)) == [200]
    assert hooked.ear.texts == ["while you were away"]


async def test_an_update_that_could_not_be_taken_is_answered_503_and_comes_again(ready, say):
    say("one")
    say("two")
    ready.ear.raises.append(StoreUnavailable("the disk is away"))
    assert await ready.server.call_hook(ready.bot, call(ready)) == [503]
    assert len(ready.bot.pending) == 2
    assert await ready.server.call_hook(ready.bot, call(ready)) == [200, 200]
    assert ready.ear.texts == ["one", "two"]


async def test_the_answer_waits_until_the_update_is_durable(ready, say):
    ready.ear.gate = asyncio.Event()
    say("one")
    calling = asyncio.create_task(ready.server.call_hook(ready.bot, call(ready)))
    for _ in range(20):  # an answer without a cause would arrive now
        await asyncio.sleep(0)
    assert not calling.done()
    ready.ear.gate.set()
    assert await calling == [200]


async def test_before_the_bot_knows_itself_updates_are_sent_back(hooked, say):
    hooked.bot.webhook = {"secret_token": "hook-secret"}
    say("early")
    assert await hooked.server.call_hook(hooked.bot, call(hooked)) == [503]
    assert hooked.ear.taken == []


BAD_SECRETS = [
    {},
    {SECRET: ""},
    {SECRET: "hook-secre"},
    {SECRET: "hook-secret "},
    {SECRET: "HOOK-SECRET"},
    {SECRET: "é\udcff"},
]


@pytest.mark.parametrize("headers", BAD_SECRETS, ids=ascii)
async def test_without_the_secret_nothing_of_a_request_is_read(ready, headers):
    with pytest.raises(BadSignature):
        await ready.channel.hook(WebhookRequest(headers=headers, body=b"\xff not even JSON"), ready.ear)


async def test_a_channel_that_polls_has_no_webhook(ada):
    for headers in ({}, {SECRET: ""}, {SECRET: "hook-secret"}):
        with pytest.raises(BadSignature):
            await ada.channel.hook(WebhookRequest(headers=headers, body=b"{}"), ada.ear)


DEEP, HUGE = b"[" * 100_000, b'{"update_id": ' + b"9" * 5000 + b"}"
BAD_BODIES = [b"", b"{", b"\xff\xfe", b"[]", b"5", b"null", b'"text"', DEEP, HUGE]


@pytest.mark.parametrize("body", BAD_BODIES, ids=lambda body: repr(body[:20]))
async def test_what_is_no_update_is_answered_400(ready, body):
    assert await call(ready)({SECRET: "hook-secret"}, body) == 400


@pytest.mark.parametrize("body", [b"{}", b'{"update_id": "x"}', b'{"update_id": 1, "message": {"text": 5}}'])
async def test_an_update_that_can_never_be_read_is_not_asked_for_again(ready, body):
    assert await call(ready)({SECRET: "hook-secret"}, body) == 200
    assert ready.ear.taken == []


async def test_a_webhook_that_somebody_takes_away_is_set_again(ready):
    ready.bot.webhook = {}
    await ready.server.until(lambda: ready.bot.webhook)
    assert ready.bot.webhook["url"] == URL
    assert len(ready.bot.called("setWebhook")) == 2


async def test_an_address_that_telegram_refuses_ends_the_channel(hooked):
    hooked.bot.fail("setWebhook", Refuse(400, "Bad Request: bad webhook: HTTPS url must be provided for webhook"))
    with pytest.raises(ChannelFailed) as raised:
        await hooked.channel.run(hooked.ear)
    assert "HTTPS url must be provided" in raised.value.reason
    assert "HTTPS" not in str(raised.value)
