"""One bot account on Discord (discord.py): receives over the gateway, sends over REST with an enforced nonce.

Rule 1: reading.py keeps the order and finds what was missed; letter.py says what is certain about a message sent.
Rule 2: discord.py resumes a connection that was closed. Whatever it cannot resume ends `run`, which is started again.
Rule 3: the token is in no error and no log line.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator

import aiohttp
import discord
import msgspec

from holdfast.channels.discord.files import Files
from holdfast.channels.discord.letter import Letter, Limited
from holdfast.channels.discord.mapping import Me, Place, deleted, is_for_us, place_of, said
from holdfast.channels.discord.reading import Event, Reading
from holdfast.channels.discord.wire import OFFICIAL, Bot
from holdfast.channels.settings import check_url, read_secret, read_settings
from holdfast.core.errors import ChannelFailed
from holdfast.core.key import Address
from holdfast.core.outgoing import Declined, NotSent, Post, SendOutcome
from holdfast.ports.channel import Change, ChannelCapabilities, ChannelSetup, ChatMessage, Intake

SEND_S = 20.0
TYPING_S = 5.0
PLACES_MAX = 10_000
NONCE_CHARS = 24  # Discord takes 25
CLOSED: dict[int, str] = {
    4004: "Discord refuses the token; make a new one in the developer portal and put it where the configuration says",
    4014: "Discord refuses the intents; switch on the Message Content Intent in the developer portal, under Bot",
}
_SNOWFLAKE = re.compile(r"\d{1,20}\Z")


class Settings(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    token_env: str | None = None
    token_file: str | None = None
    api_url: str = OFFICIAL


def make_discord(setup: ChannelSetup) -> "DiscordChannel":
    """Raises `ConfigInvalid`."""
    settings = read_settings(setup, Settings)
    token = read_secret(setup, settings.token_env, settings.token_file)
    return DiscordChannel(setup, token, check_url(setup, settings.api_url))


def utf16_length(text: str) -> int:
    """Discord's apps count like this. Its API counts no more."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


class DiscordChannel:
    """Implements `Channel`."""

    capabilities = ChannelCapabilities(
        text_chars_max=2_000,
        text_length=utf16_length,
        typing=True,
        typing_lasts_ms=10_000,
        nonce_lasts_ms=120_000,  # "the past few minutes", says Discord
        cumulative=True,
    )

    def __init__(self, setup: ChannelSetup, token: str, api_url: str) -> None:
        self._setup = setup
        self._token = token
        self._api_url = api_url
        self._bot: Bot | None = None

    async def run(self, intake: Intake) -> None:
        session = Session(self._setup, self._api_url, intake)
        try:
            await session.bot.login(self._token)
            self._bot = session.bot
            session.begin()
            await session.bot.connect(reconnect=False)
        except discord.LoginFailure:
            raise ChannelFailed(f"discord: {CLOSED[4004]}") from None  # nothing of the request is kept
        except discord.ConnectionClosed as error:
            why = CLOSED.get(error.code, f"Discord closed the connection with {error.code}")
            raise ChannelFailed(f"discord: {why}") from error
        except (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ChannelFailed(f"discord: it cannot be reached ({_name(error)})") from error
        finally:
            self._bot = None
            await session.close()
        raise ChannelFailed("discord: the connection was closed")

    async def send(self, post: Post) -> SendOutcome:
        target = _target(post.address)
        if target is None:
            return Declined("the address is no channel of Discord")
        if self._bot is None:
            return NotSent("the channel is not connected")
        letter, why = Letter(), ""
        try:
            async with asyncio.timeout(SEND_S):
                await self._bot.http.post_message(target, _payload(post), letter)
        except discord.RateLimited as error:
            letter.wait_ms, why = int(error.retry_after * 1000), "it limits the rate"
        except (Limited, discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError, RuntimeError) as error:
            why = _name(error)  # RuntimeError is what aiohttp raises when the channel was closed meanwhile
        return letter.outcome(why)

    async def typing(self, address: Address) -> None:
        target = _target(address)
        if self._bot is None or target is None:
            return
        try:
            async with asyncio.timeout(TYPING_S):
                await self._bot.http.send_typing(target)
        except (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError, RuntimeError):
            return

    async def close(self) -> None:
        """`run` closes what it opened when it ends."""


class Session:
    """One run of a channel: the connection, its streams, its downloads. Implements `Listener`."""

    def __init__(self, setup: ChannelSetup, api_url: str, intake: Intake) -> None:
        self.bot = Bot(api_url, self, setup.tasks, setup.entropy)
        self._setup = setup
        self._intake = intake
        self._files = Files(api_url)
        self._places: dict[int, Place] = {}
        self._reading: Reading | None = None

    def begin(self) -> None:
        """Once logged in: the account has its id."""
        self._user_id = self.bot.user.id if self.bot.user is not None else 0
        self._account = f"discord:{self._user_id}"
        self._reading = Reading(
            self._account,
            self._intake,
            self._translate,
            self._history,
            tasks=self._setup.tasks,
            entropy=self._setup.entropy,
        )

    async def close(self) -> None:
        try:
            if self._reading is not None:
                await self._reading.close()
        finally:
            await self.bot.shut()
            await self._files.close()

    # --- what happens on the connection --------------------------------------------------------------

    def connected(self) -> None:
        self._intake.connected(self._account)
        if self._reading is not None:
            self._reading.connected()

    def disconnected(self) -> None:
        self._intake.disconnected("Discord closed the connection")

    def posted(self, message: discord.Message) -> None:
        self._offer(Change.NEW, message.channel.id, message.id, message)

    def edited(self, message: discord.Message) -> None:
        if message.edited_at is not None:  # otherwise Discord added a preview, or somebody pinned it
            self._offer(Change.EDITED, message.channel.id, message.id, message)

    def deleted(self, channel_id: int, message_id: int) -> None:
        self._offer(Change.DELETED, channel_id, message_id, None)

    def _offer(self, change: Change, channel_id: int, message_id: int, message: discord.Message | None) -> None:
        if self._reading is not None:
            event = Event(change=change, channel_id=channel_id, message_id=message_id, message=message)
            self._reading.offer(event)

    # --- what the streams ask --------------------------------------------------------------------------

    async def _history(self, channel_id: int, after: int) -> AsyncIterator[discord.Message]:
        channel = self.bot.get_partial_messageable(channel_id)
        async for message in channel.history(after=discord.Object(after), oldest_first=True, limit=None):
            yield message

    async def _translate(self, event: Event) -> ChatMessage | None:
        """None for what is not for us. Raises what discord.py raises."""
        message = event.message
        place = await self._place(event.channel_id, None if message is None else message.channel)
        me = self._me(place)
        if message is None:
            return deleted(event.message_id, place, me)
        if not is_for_us(message, me):
            return None
        attachments = await self._files.of(message) if event.change is Change.NEW else ()
        return said(message, place, me, attachments, event.change)

    async def _place(self, channel_id: int, seen: object) -> Place:
        place = self._places.get(channel_id) or place_of(seen) or place_of(self.bot.get_channel(channel_id))
        if place is None:
            place = place_of(await self.bot.fetch_channel(channel_id)) or Place(chat=str(channel_id))
        if len(self._places) >= PLACES_MAX:
            self._places.clear()
        self._places[channel_id] = place
        return place

    def _me(self, place: Place) -> Me:
        guild = self.bot.get_guild(place.guild_id) if place.guild_id is not None else None
        role = guild.self_role if guild is not None else None
        return Me(account=self._account, user_id=self._user_id, role_id=None if role is None else role.id)


def _target(address: Address) -> int | None:
    """A thread is a channel of its own."""
    channel_id = address.thread or address.chat
    return int(channel_id) if _SNOWFLAKE.match(channel_id) else None


def _payload(post: Post) -> dict[str, object]:
    payload: dict[str, object] = {
        "content": post.text,
        "nonce": hashlib.sha256(post.nonce.encode()).hexdigest()[:NONCE_CHARS],
        "enforce_nonce": True,
        "allowed_mentions": {"parse": [], "replied_user": False},  # a model's words wake nobody up
    }
    answered = post.in_reply_to.partition(".")[0]
    if _SNOWFLAKE.match(answered):
        payload["message_reference"] = {"message_id": answered, "fail_if_not_exists": False}
    return payload


def _name(error: BaseException) -> str:
    status = getattr(error, "status", None)
    return f"{type(error).__name__} {status}" if isinstance(status, int) else type(error).__name__
