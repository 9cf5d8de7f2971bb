"""One bot account on Discord (discord.py): it receives over the gateway, and sends over REST with an enforced nonce.

Rule 1: reading.py keeps the order and finds missed messages; send_tracker.py decides what a send has proved.
Rule 2: discord.py resumes a closed connection. A connection that it cannot resume ends `run`, and the receiver restarts
        it.
Rule 3: the token is in no error and no log line.
"""

import asyncio
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import aiohttp
import discord
import msgspec

from holdfast.channels.discord.send_tracker import DiscordRateLimited, SendTracker, answer_of
from holdfast.channels.discord.session import OFFICIAL, DiscordHttpClient, DiscordSession
from holdfast.channels.settings import check_url, read_secret
from holdfast.inbox.address import Address
from holdfast.inbox.channel import ChannelCapabilities, ChannelSetup, Intake
from holdfast.inbox.chat_message import ChatMessage
from holdfast.kernel import log
from holdfast.kernel.errors import ChannelFailed
from holdfast.kernel.settings_table import read_table
from holdfast.outbox.post import Declined, NotSent, Post, SendOutcome, Sent
from holdfast.outbox.splitting import utf16_length
from holdfast.sessions.command_rights import Rank

SEND_S = 20.0
TYPING_S = 5.0
RANK_S = 5.0  # a command waits no longer for its sender's rank
NONCE_CHARS = 24  # Discord accepts 25
CLOSED: dict[int, str] = {
    4004: "Discord rejects the token; create a new one in the developer portal and put it where the settings say",
    4014: "Discord rejects the intents; enable the Message Content Intent in the developer portal, under Bot",
}
SILENT = {"parse": [], "replied_user": False}  # a model's text notifies no one
HINTS = {"stream": "it must be true or false"}
# aiohttp raises RuntimeError if the channel was closed meanwhile.
UNREACHED = (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError, RuntimeError)
NOT_CONNECTED = NotSent("the channel is not connected", retry_after_ms=5_000, whole_account=True)
_SNOWFLAKE = re.compile(r"\d{1,20}\Z")


class DiscordSettings(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    token_env: str | None = None
    token_file: str | None = None
    api_url: str = OFFICIAL
    send_key_over_plain_http: bool = False
    stream: bool = False  # show a reply in the chat while it is generated


def make_discord(setup: ChannelSetup) -> "DiscordChannel":
    """Raises `ConfigInvalid`."""
    settings = read_table(setup.name, setup.settings, DiscordSettings, HINTS)
    token = read_secret(setup, settings.token_env, settings.token_file)
    api_url = check_url(setup, settings.api_url, plain_http=settings.send_key_over_plain_http)
    return DiscordChannel(setup, token, api_url, stream=settings.stream)


CAPABILITIES = ChannelCapabilities(
    text_chars_max=2_000,
    text_length=utf16_length,
    typing=True,
    typing_lasts_ms=10_000,
    nonce_lasts_ms=120_000,  # "the past few minutes", in Discord's words
    group_edit_interval_ms=2_000,  # a channel accepts five messages in five seconds, edits included
    account_edit_interval_ms=50,  # and an account fifty requests a second
    cumulative=True,
)


class DiscordChannel:
    """Implements `Channel`, `Editing`, `Identifiable` and `Ranking`."""

    def __init__(self, setup: ChannelSetup, token: str, api_url: str, *, stream: bool = False) -> None:
        self.capabilities = replace(CAPABILITIES, drafts=stream)
        self._setup = setup
        self._token = token
        self._api_url = api_url
        self._session: DiscordSession | None = None

    async def run(self, intake: Intake) -> None:
        session = DiscordSession(self._setup, self._api_url, intake)
        try:
            with _explained():
                await session.login(self._token)
                self._session = session
                session.begin()
                await session.connect(reconnect=False)
        finally:
            self._session = None
            await session.end()
        raise ChannelFailed("discord: the connection was closed")

    async def identify(self) -> str:
        """Ask the HTTP API for the bot's name, without opening a gateway session. Raises `ChannelFailed`."""
        client = DiscordHttpClient(asyncio.get_running_loop(), self._api_url)
        try:
            with _explained():
                return f"@{(await client.static_login(self._token))['username']}"
        finally:
            await client.close()

    async def send(self, post: Post) -> SendOutcome:
        tracker = SendTracker(text=post.text, secret=self._token)
        return await self._tracked(tracker, "POST", post.address, json=_payload(post))

    async def edit(self, address: Address, receipt: str, text: str) -> SendOutcome:
        tracker = SendTracker(text=text, secret=self._token)
        change = {"content": text, "allowed_mentions": SILENT}
        return await self._tracked(tracker, "PATCH", address, receipt, json=change)

    async def retract(self, address: Address, receipt: str) -> SendOutcome:
        tracker = SendTracker(secret=self._token)
        outcome = await self._tracked(tracker, "DELETE", address, receipt)
        return Sent(receipt) if tracker.is_removed else outcome

    async def _tracked(
        self, tracker: SendTracker, method: str, address: Address, receipt: str | None = None, **body: object
    ) -> SendOutcome:
        """Post a message, or change the one named by `receipt`; the outcome is what the tracker can prove."""
        target, why = _target(address), ""
        if target is None or (receipt is not None and not _SNOWFLAKE.match(receipt)):
            return Declined("the address names no Discord channel or message")
        if self._session is None:
            return NOT_CONNECTED
        try:
            async with asyncio.timeout(SEND_S):
                await self._session.http.send_tracked(tracker, method, target, receipt, **body)
        except discord.RateLimited as error:
            tracker.wait_ms, why = int(error.retry_after * 1000), "the rate is limited"
        except (DiscordRateLimited, *UNREACHED) as error:
            why = _name(error)
        return tracker.outcome(why)

    async def rank(self, message: ChatMessage) -> Rank:
        """`ADMIN` for the guild's owner, its administrators and members who may manage it. The member is fetched anew:
        a message from the history has no roles, and those of a queued message may be outdated."""
        if self._session is None:
            return Rank.UNKNOWN
        try:
            async with asyncio.timeout(RANK_S):
                return await self._session.rank_of(int(message.chat), int(message.sender))
        except discord.NotFound:
            return Rank.MEMBER  # not a member of the guild: a webhook, or a user who has left
        except (*UNREACHED, ValueError) as error:
            log.warning("rank.unknown", agent=self._setup.agent, channel=self._setup.name, why=_name(error))
            return Rank.UNKNOWN

    async def typing(self, address: Address) -> None:
        target = _target(address)
        if self._session is None or target is None:
            return
        try:
            async with asyncio.timeout(TYPING_S):
                await self._session.http.send_typing(target)
        except UNREACHED:
            return

    async def close(self) -> None:
        """`run` closes its own session when it ends."""


@contextmanager
def _explained() -> Iterator[None]:
    """Turn what discord.py raises into a `ChannelFailed` that the operator can read."""
    try:
        yield
    except discord.LoginFailure:
        raise ChannelFailed(f"discord: {CLOSED[4004]}") from None  # the cause would hold the request
    except discord.ConnectionClosed as error:
        why = CLOSED.get(error.code, f"Discord closed the connection with {error.code}")
        raise ChannelFailed(f"discord: {why}") from error
    except (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError) as error:
        what = f"discord: Discord cannot be reached ({_name(error)})"
        raise ChannelFailed(what, vendor=answer_of(error)) from error
    except (KeyError, TypeError) as error:
        raise ChannelFailed("discord: the server at api_url is not Discord's API") from error


def _target(address: Address) -> int | None:
    """The id of the channel to post to. A thread is a channel of its own."""
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
