"""A fake Telegram with one bot for each test, and a channel for that bot."""

import ssl

import pytest

from tests.channels.telegram.kit import rig
from tests.platforms.telegram import FakeTelegram

CONTEXT = ssl.create_default_context()


@pytest.fixture(autouse=True)
def certificates(monkeypatch):
    """Every bot loads the system's certificates, which takes most of a test's time; no test here speaks TLS."""
    monkeypatch.setattr(ssl, "create_default_context", lambda *_, **__: CONTEXT)


@pytest.fixture
async def server():
    async with FakeTelegram() as running:
        yield running


@pytest.fixture
def bot(server):
    return server.bot("AdaBot")


@pytest.fixture
async def ada(server, bot):
    async with rig(server, bot) as made:
        yield made
