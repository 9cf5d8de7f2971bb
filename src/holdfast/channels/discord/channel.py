"""One bot account on Discord (discord.py): receives over the gateway, sends over REST with an enforced nonce.

Rule 1: reading.py keeps the order and finds what was missed; letter.py says what is certain about a message sent.
Rule 2: discord.py resumes a connection that was closed. Whatever it cannot resume ends `run`, which is started again.
Rule 3: the token is in no error and no log line.
"""

import asyncio
import hashlib
import re
from collections.abc import Awaitable
from dataclasses import replace

import aiohttp
import discord
import msgspec

from holdfast.channels.discord.send_tracker import DiscordRateLimited, SendTracker, answered
from holdfast.channels.discord.session import DiscordSession
from holdfast.channels.discord.wire import OFFICIAL, DiscordBot, DiscordHttpClient
from holdfast.channels.settings import check_url, read_secret, read_settings
from holdfast.inbox.address import Address
from holdfast.inbox.channel import ChannelCapabilities, ChannelSetup, Intake
from holdfast.inbox.chat_message import ChatMessage
from holdfast.kernel import log
from holdfast.kernel.errors import ChannelFailed
from holdfast.outbox.post import Declined, NotSent, Post, SendOutcome, Sent
from holdfast.sessions.command_rights import Rank

SEND_S = 20.0
TYPING_S = 5.0
RANK_S = 5.0  # a command waits no longer for the rank of its sender
NONCE_CHARS = 24  # Discord takes 25
CLOSED: dict[int, str] = {
    4004: "Discord refuses the token; make a new one in the developer portal and put it where the configuration says",
    4014: "Discord refuses the intents; switch on the Message Content Intent in the developer portal, under Bot",
}
SILENT = {"parse": [], "replied_user": False}  # a model's words wake nobody up
HINTS = {"stream": "it must be true or false"}
UNREACHED = (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError, RuntimeError)
NOT_CONNECTED = NotSent("the channel is not connected", retry_after_ms=5_000, whole_account=True)
_SNOWFLAKE = re.compile(r"\d{1,20}\Z")


class DiscordSettings(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    token_env: str | None = None
    token_file: str | None = None
    api_url: str = OFFICIAL
    send_key_over_plain_http: bool = False
    stream: bool = False  # show a reply in the chat while it is made


def make_discord(setup: ChannelSetup) -> "DiscordChannel":
    """Raises `ConfigInvalid`."""
    settings = read_settings(setup, DiscordSettings, HINTS)
    token = read_secret(setup, settings.token_env, settings.token_file)
    api_url = check_url(setup, settings.api_url, plain_http=settings.send_key_over_plain_http)
    return DiscordChannel(setup, token, api_url, stream=settings.stream)


def utf16_length(text: str) -> int:
    """Discord's apps count like this. Its API counts no more."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


CAPABILITIES = ChannelCapabilities(
    text_chars_max=2_000,
    text_length=utf16_length,
    typing=True,
    typing_lasts_ms=10_000,
    nonce_lasts_ms=120_000,  # "the past few minutes", says Discord
    group_edit_interval_ms=2_000,  # a channel takes five messages in five seconds, edits included
    account_edit_interval_ms=50,  # and the account fifty requests a second
    cumulative=True,
)


class DiscordChannel:
    """Implements `Channel` and `Editing`."""

    def __init__(self, setup: ChannelSetup, token: str, api_url: str, *, stream: bool = False) -> None:
        self.capabilities = replace(CAPABILITIES, drafts=stream)
        self._setup = setup
        self._token = token
        self._api_url = api_url
        self._bot: DiscordBot | None = None

    async def run(self, intake: Intake) -> None:
        session = DiscordSession(self._setup, self._api_url, intake)
        try:
            await self._login(session)
            await session.bot.connect(reconnect=False)
        except discord.ConnectionClosed as error:
            why = CLOSED.get(error.code, f"Discord closed the connection with {error.code}")
            raise ChannelFailed(f"discord: {why}") from error
        except (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError) as error:
            what = f"discord: it cannot be reached ({_name(error)})"
            raise ChannelFailed(what, vendor=answered(error)) from error
        finally:
            self._bot = None
            await session.close()
        raise ChannelFailed("discord: the connection was closed")

    async def identify(self) -> str:
        """The bot's name, by Discord's HTTP API only: no session is begun. Raises `ChannelFailed`."""
        wire = DiscordHttpClient(asyncio.get_running_loop(), self._api_url)
        try:
            return f"@{(await wire.static_login(self._token))['username']}"
        except discord.LoginFailure:
            raise ChannelFailed(f"discord: {CLOSED[4004]}") from None
        except (KeyError, TypeError) as error:
            raise ChannelFailed("discord: what answers there is not Discord's API") from error
        except (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError) as error:
            what = f"discord: it cannot be reached ({_name(error)})"
            raise ChannelFailed(what, vendor=answered(error)) from error
        finally:
            await wire.close()

    async def _login(self, session: DiscordSession) -> None:
        try:
            await session.bot.login(self._token)
        except discord.LoginFailure:
            raise ChannelFailed(f"discord: {CLOSED[4004]}") from None  # nothing of the request is kept
        except (KeyError, TypeError) as error:
            raise ChannelFailed("discord: what answers there is not Discord's API") from error
        self._bot = session.bot
        session.begin()

    async def send(self, post: Post) -> SendOutcome:
        target = _target(post.address)
        if target is None:
            return Declined("the address is no channel of Discord")
        if self._bot is None:
            return NOT_CONNECTED
        letter = SendTracker(text=post.text, secret=self._token)
        return await _carried(letter, self._bot.http.post_message(target, _payload(post), letter))

    async def edit(self, address: Address, receipt: str, text: str) -> SendOutcome:
        target = _target(address)
        if target is None or not _SNOWFLAKE.match(receipt):
            return Declined("the address is no message of Discord")
        if self._bot is None:
            return NOT_CONNECTED
        letter = SendTracker(text=text, secret=self._token)
        words: dict[str, object] = {"content": text, "allowed_mentions": SILENT}
        return await _carried(letter, self._bot.http.edit_text(target, int(receipt), words, letter))

    async def retract(self, address: Address, receipt: str) -> SendOutcome:
        target = _target(address)
        if target is None or not _SNOWFLAKE.match(receipt):
            return Declined("the address is no message of Discord")
        if self._bot is None:
            return NOT_CONNECTED
        letter = SendTracker(secret=self._token)
        outcome = await _carried(letter, self._bot.http.remove(target, int(receipt), letter))
        return Sent(receipt) if letter.is_removed else outcome

    async def rank(self, message: ChatMessage) -> Rank:
        """An admin owns the guild, administrates it or may manage it. The member is asked for anew: a message that was
        fetched names no roles, and the roles in one that waited may be old."""
        if self._bot is None:
            return Rank.UNKNOWN
        try:
            async with asyncio.timeout(RANK_S):
                return await self._bot.rank_of(int(message.chat), int(message.sender))
        except discord.NotFound:
            return Rank.MEMBER  # no member of the guild: a webhook, or somebody who has left
        except (*UNREACHED, ValueError) as error:
            log.warning("rank.unknown", agent=self._setup.agent, channel=self._setup.name, why=_name(error))
            return Rank.UNKNOWN

    async def typing(self, address: Address) -> None:
        target = _target(address)
        if self._bot is None or target is None:
            return
        try:
            async with asyncio.timeout(TYPING_S):
                await self._bot.http.send_typing(target)
        except UNREACHED:
            return

    async def close(self) -> None:
        """`run` closes what it opened when it ends."""


async def _carried(letter: SendTracker, request: Awaitable[None]) -> SendOutcome:
    """What is certain after the request, whatever it raised."""
    why = ""
    try:
        async with asyncio.timeout(SEND_S):
            await request
    except discord.RateLimited as error:
        letter.wait_ms, why = int(error.retry_after * 1000), "it limits the rate"
    except (
        DiscordRateLimited,
        discord.DiscordException,
        aiohttp.ClientError,
        OSError,
        TimeoutError,
        RuntimeError,
    ) as error:
        why = _name(error)  # RuntimeError is what aiohttp raises when the channel was closed meanwhile
    return letter.outcome(why)


def _target(address: Address) -> int | None:
    """A thread is a channel of its own."""
    channel_id = address.thread or address.chat
    return int(channel_id) if _SNOWFLAKE.match(channel_id) else None


def _payload(post: Post) -> dict[str, object]:
    payload: dict[str, object] = {
        "content": post.text,
        "nonce": hashlib.sha256(post.nonce.encode()).hexdigest()[:NONCE_CHARS],
        "enforce_nonce": True,
        "allowed_mentions": SILENT,
    }
    answered = post.in_reply_to.partition(".")[0]
    if _SNOWFLAKE.match(answered):
        payload["message_reference"] = {"message_id": answered, "fail_if_not_exists": False}
    return payload


def _name(error: BaseException) -> str:
    status = getattr(error, "status", None)
    return f"{type(error).__name__} {status}" if isinstance(status, int) else type(error).__name__
