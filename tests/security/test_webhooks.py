"""A webhook call to a running `holdfast up` must prove its secret; a valid one is answered on its platform.

Rules: control 4.
"""

import hashlib
import hmac
import json
import time
from dataclasses import dataclass

import pytest
import pytest_asyncio

from tests.platforms.slack import Bot as SlackBot
from tests.platforms.slack import FakeSlack
from tests.platforms.telegram import Bot as TelegramBot
from tests.platforms.telegram import FakeTelegram
from tests.support.live import code_of
from tests.support.patience import within
from tests.support.processes import Up, spawn

pytestmark = pytest.mark.asyncio(loop_scope="module")
SIGNING, HOOK = "slack-signing-secret", "telegram-hook-secret"
CONFIG = """
[agents.main]
model = "practice"

[agents.main.access]
door = "open"

[agents.main.channels.slack]
mode = "http"
token_env = "SLACK"
signing_secret_env = "SIGNING"
api_url = "{slack}"

[agents.main.channels.telegram]
mode = "webhook"
token_env = "TELEGRAM"
webhook_url = "https://bots.example/v1/hooks/main/telegram"
webhook_secret_env = "HOOK"
api_url = "{telegram}"
"""
SOON_S = 30.0  # longer than any answer takes
NO_PROXY = dict.fromkeys(("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"), "")


@dataclass
class World:
    slack: FakeSlack
    slack_bot: SlackBot
    telegram: FakeTelegram
    telegram_bot: TelegramBot
    up: Up

    async def post(self, channel, body, headers):
        """Without any token of ours, as a platform calls."""
        async with self.up.client() as client:
            del client.headers["Authorization"]
            return await client.post(f"/v1/hooks/main/{channel}", content=body, headers=headers)

    async def connected(self, channel):
        up = f'holdfast_channel_up{{agent="main",channel="{channel}"}} 1.0'
        async with self.up.client() as client, within(SOON_S):
            while up not in (await client.get("/metrics")).text:
                pass  # asking lets the others run


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("webhooks")
    async with FakeSlack() as slack, FakeTelegram() as telegram:
        slack_bot, telegram_bot = slack.bot("muse"), telegram.bot("MuseBot")
        file = folder / "holdfast.toml"
        file.write_text(CONFIG.format(slack=slack.api_url, telegram=telegram.url))
        secrets = {"SLACK": slack_bot.token, "SIGNING": SIGNING, "TELEGRAM": telegram_bot.token, "HOOK": HOOK}
        up = await Up.start(folder / "data", "--config", str(file), environment={**secrets, **NO_PROXY})
        made = World(slack, slack_bot, telegram, telegram_bot, up)
        try:
            await made.connected("slack")
            await made.connected("telegram")
            yield made
        finally:
            await up.stop()


def signed(body, age_s=0, secret=SIGNING):
    at = int(time.time()) - age_s
    signature = hmac.new(secret.encode(), f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": str(at), "X-Slack-Signature": f"v0={signature}"}


def told(world, text):
    """A direct message to the bot, and what Slack posts about it."""
    room = world.slack.room(world.slack_bot, kind="im")
    world.slack.hold(world.slack_bot)
    world.slack.say(room, world.slack.person("Ada"), text)
    return room, json.dumps(world.slack_bot.held[0].payload).encode()


async def refused(world, channel, body, headers):
    response = await world.post(channel, body, headers)
    assert (response.status_code, code_of(response)) == (401, "bad_signature")
    assert not any(secret in response.text for secret in (SIGNING, HOOK))


async def test_slack_is_answered_when_it_signs_and_refused_when_stale_or_tampered_with(world):
    room, body = told(world, "hello from Slack")
    good = signed(body)
    await refused(world, "slack", body, {})
    await refused(world, "slack", body, signed(body, age_s=301))
    await refused(world, "slack", body, signed(body, age_s=-360))
    await refused(world, "slack", body.replace(b"hello", b"howdy"), good)
    await refused(world, "slack", body, {**good, "X-Slack-Request-Timestamp": str(int(time.time()) - 7)})
    await refused(world, "slack", body, signed(body, secret="guessed"))
    await refused(world, "slack", body, [*good.items(), *good.items()])
    assert world.slack.posts(room) == []
    response = await world.post("slack", body, good)
    assert (response.status_code, response.content) == (200, b"")
    await world.slack.until(lambda: world.slack.posts(room))
    assert (await world.post("slack", body, good)).status_code == 200  # Slack tells it again
    second = {**json.loads(body)}
    second["event"] = {**second["event"], "text": "and again", "ts": f"{int(time.time()) + 1}.000001"}
    body = json.dumps(second).encode()
    assert (await world.post("slack", body, signed(body))).status_code == 200
    await world.slack.until(lambda: len(world.slack.posts(room)) == 2)
    first, last = (post["text"] for post in world.slack.posts(room))
    assert ("hello from Slack" in first, "and again" in last) == (True, True)  # replies go in order: none was doubled


async def test_slacks_challenge_is_given_back_only_when_it_is_signed(world):
    body = json.dumps({"type": "url_verification", "challenge": "<b>3eZbrw1aB10</b>"}).encode()
    await refused(world, "slack", body, {})
    response = await world.post("slack", body, signed(body))
    assert (response.status_code, response.content) == (200, b"<b>3eZbrw1aB10</b>")
    assert response.headers["content-type"].startswith("text/plain")
    assert response.headers["x-content-type-options"] == "nosniff"


async def test_telegram_is_answered_with_its_secret_and_refused_without(world):
    user = world.telegram.user("Bob")
    chat = world.telegram.private(world.telegram_bot, user)
    world.telegram.say(chat, user, "hello from Telegram")
    body = json.dumps(world.telegram_bot.pending[0]).encode()
    good = {"X-Telegram-Bot-Api-Secret-Token": HOOK}
    for bad in ({}, dict.fromkeys(good, ""), dict.fromkeys(good, HOOK[:-1]), [*good.items(), *good.items()]):
        await refused(world, "telegram", body, bad)
    assert chat.posted() == []
    assert (await world.post("telegram", body, good)).status_code == 200
    await world.telegram.until(chat.posted)
    assert "hello from Telegram" in chat.texts(world.telegram_bot)[0]


async def test_a_blank_signing_secret_refuses_to_start(tmp_path):
    file = tmp_path / "holdfast.toml"
    file.write_text(CONFIG.format(slack="https://slack.com/api", telegram="https://api.telegram.org"))
    secrets = {"SLACK": "xoxb-1", "SIGNING": "  ", "TELEGRAM": "1:A", "HOOK": HOOK}
    process = await spawn(tmp_path / "data", "--config", str(file), environment=secrets)
    said, _ = await process.communicate()
    assert process.returncode not in (0, 70)
    assert b"signing_secret_env" in said
