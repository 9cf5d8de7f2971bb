"""A fake Slack with one app, a channel, a conversation of two and a person."""

from dataclasses import dataclass

import pytest

from tests.channels.slack.kit import Mailbox
from tests.platforms.slack import Bot, FakeSlack


@dataclass
class World:
    slack: FakeSlack
    bot: Bot
    room: str
    dm: str
    ada: str
    mailbox: Mailbox


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    """A proxy of the machine that runs the tests is not used."""
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def world():
    async with FakeSlack() as slack:
        bot = slack.bot("muse")
        room, dm = slack.room(bot), slack.room(bot, kind="im")
        yield World(slack, bot, room, dm, slack.person("Ada"), Mailbox())
