"""A fake Discord with one bot in one guild, and a watch over where sockets go."""

import asyncio
from dataclasses import dataclass

import pytest

from tests.channels.discord.kit import Mailbox
from tests.platforms.discord import FakeDiscord
from tests.platforms.discord_shapes import Bot, Guild, Json, Room

CONNECT = asyncio.selector_events.BaseSelectorEventLoop.sock_connect


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch):
    """discord.py has Discord's own addresses built in: nothing may ever go there."""
    reached: list[str] = []

    async def connect(loop, sock, address):
        reached.append(address[0])
        if address[0] != "127.0.0.1":
            raise OSError(f"beyond loopback: {address}")
        await CONNECT(loop, sock, address)

    monkeypatch.setattr(asyncio.selector_events.BaseSelectorEventLoop, "sock_connect", connect)
    yield reached
    assert set(reached) <= {"127.0.0.1"}


@dataclass
class World:
    fake: FakeDiscord
    bot: Bot
    guild: Guild
    room: Room
    ann: Json
    dm: Room
    mailbox: Mailbox


@pytest.fixture
async def world():
    async with FakeDiscord() as fake:
        bot = fake.add_bot("Ada")
        guild = fake.add_guild("Lab", bot)
        ann = fake.add_user("Ann")
        yield World(fake, bot, guild, fake.add_channel(guild, "general"), ann, fake.open_dm(bot, ann), Mailbox())
