"""A bot on Telegram: it receives by polling or webhook, and sends plain text.

Rule 1: the HTTP client and the certificates are loaded in a thread when the channel first needs them, because that
        takes a good part of a second.
Rule 2: the channel keeps no durable state. Telegram keeps every update that was not acknowledged.
Rule 3: the secret of a webhook call is compared before the body is read. Without a secret no call is accepted.
Rule 4: a refusal by Telegram (a status below 500 with its own verdict) means that nothing was posted. Without a verdict
        the outcome is doubtful: a 5xx may come from a gateway in front of a server that has posted; the same holds for
        an unreadable answer and for a connection lost after the request was sent.
Rule 5: a reply to a deleted topic is declined. Posting it outside the topic would show it to other people.
Rule 6: an edit is idempotent: Telegram answers that the message is not modified, which means that the text is there. In
        a chat that moved, messages have other ids, so none is edited or deleted there.
Rule 7: the channel learns a chat's new id from the refusal and keeps it in memory; after a restart it learns it again.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from secrets import compare_digest
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from holdfast.channels.settings import check_unused, check_url, invalid, read_secret
from holdfast.channels.telegram.receiving import (
    BotConnection,
    UpdateTaker,
    UpdateWindow,
    Webhook,
    keep_webhook,
    poll,
    rejected_token,
)
from holdfast.channels.telegram.text import clean
from holdfast.channels.telegram.wire import BotAccount, BotApiError, BotApiErrorKind
from holdfast.inbox.address import Address
from holdfast.inbox.channel import ChannelCapabilities, ChannelSetup, Intake, WebhookAnswer, WebhookRequest
from holdfast.inbox.chat_message import ChatMessage
from holdfast.kernel import log
from holdfast.kernel.errors import BadSignature, ChannelFailed, HoldfastError, InvalidInput
from holdfast.kernel.json_body import JSON_TYPE, check_json, check_json_type
from holdfast.kernel.settings_table import read_table
from holdfast.outbox.post import Declined, Doubtful, NotSent, Post, SendOutcome, Sent
from holdfast.outbox.splitting import utf16_length
from holdfast.sessions.command_rights import Rank

if TYPE_CHECKING:
    from holdfast.channels.telegram.bot_api import BotApi

CLOSE_S = 5.0
SECRET_HEADER = "x-telegram-bot-api-secret-token"  # noqa: S105 - a header's name
NOT_READY_MS = 500
CHATS_MOVED_MAX = 10_000
ALREADY_THERE = "message is not modified"  # in the description of Telegram's refusal
ALREADY_GONE = "message to delete not found"
ADMINS = frozenset({"creator", "administrator"})  # https://core.telegram.org/bots/api#chatmember
CAPABILITIES = ChannelCapabilities(
    text_chars_max=4096,
    text_length=utf16_length,
    typing=True,
    typing_lasts_ms=5_000,
    chat_interval_ms=1_000,  # https://core.telegram.org/bots/faq: one message a second in one chat
    group_edit_interval_ms=4_000,  # and twenty a minute in a group, edits included
    account_edit_interval_ms=50,  # and thirty a second in all
    cumulative=True,
)
OFFICIAL = "https://api.telegram.org"
WEBHOOK_ONLY = ("webhook_url", "webhook_secret_env", "webhook_secret_file")
HINTS = {
    "mode": 'it must be "polling" or "webhook"',
    "poll_s": "it must be a whole number of seconds from 1 to 50",
    "stream": "it must be true or false",
}
_TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{1,200}\Z")
_WEBHOOK_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}\Z")  # the characters that Telegram accepts


class TelegramSettings(msgspec.Struct, frozen=True, kw_only=True):
    token_env: str | None = None  # the bot's token, from @BotFather
    token_file: str | None = None
    mode: Literal["polling", "webhook"] = "polling"  # Holdfast polls Telegram, or Telegram calls Holdfast
    webhook_url: str | None = None  # the public https address of /v1/hooks/<agent>/<channel>
    webhook_secret_env: str | None = None  # sent by Telegram with each call, to prove that it is the caller
    webhook_secret_file: str | None = None
    api_url: str = OFFICIAL  # a Bot API server
    send_key_over_plain_http: bool = False
    poll_s: Annotated[int, msgspec.Meta(ge=1, le=50)] = 30  # how long one poll may wait
    stream: bool = False  # show a reply in the chat while it is generated

    @property
    def token_from(self) -> str:
        """The setting that holds the token, for error messages."""
        return f"token_env ({self.token_env})" if self.token_env is not None else "token_file"


def make_telegram(setup: ChannelSetup) -> "TelegramChannel":
    """Raises `ConfigInvalid`, which never contains a secret; reads the files of secrets, and connects to nothing."""
    settings = read_table(setup.name, setup.settings, TelegramSettings, HINTS)
    token = read_secret(setup, settings.token_env, settings.token_file)
    if not _TOKEN.match(token):
        what = f"the value of {settings.token_from} is no bot token; one from @BotFather looks like 123456:ABC-DEF"
        invalid(setup, "token", what)
    webhook = _webhook(setup, settings)
    api_url = check_url(setup, settings.api_url, plain_http=settings.send_key_over_plain_http)
    return TelegramChannel(setup, settings, token, api_url, webhook)


def _webhook(setup: ChannelSetup, settings: TelegramSettings) -> Webhook | None:
    """None for polling. A webhook without a secret is refused."""
    if settings.mode == "polling":
        check_unused(setup, settings, WEBHOOK_ONLY, 'it needs mode = "webhook"; set the mode, or remove the key')
        return None
    if not settings.webhook_url:
        path = f"/v1/hooks/{setup.agent}/{setup.name}"
        invalid(setup, "webhook_url", f"it is missing; set it to the public https address of {path}")
    secret = read_secret(setup, settings.webhook_secret_env, settings.webhook_secret_file, name="webhook_secret")
    if not _WEBHOOK_SECRET.match(secret):
        invalid(setup, "webhook_secret", "it must have 1 to 256 characters of A-Z, a-z, 0-9, _ and -")
    return Webhook(url=check_url(setup, settings.webhook_url, key="webhook_url"), secret=secret)


class TelegramChannel:
    def __init__(
        self, setup: ChannelSetup, settings: TelegramSettings, token: str, api_url: str, webhook: Webhook | None
    ) -> None:
        self._setup = setup
        self._settings = settings
        self._token = token
        self._api_url = api_url
        self._webhook = webhook
        self.capabilities = replace(CAPABILITIES, drafts=settings.stream)
        self._moved: dict[int, int] = {}
        self._busy_until: dict[int, int] = {}  # by chat
        self._loading = asyncio.Lock()
        self._api: BotApi | None = None
        self._me: BotAccount | None = None
        self._intake: Intake | None = None
        self._closed = False

    async def run(self, intake: Intake) -> None:
        """Receive until cancelled. Raises `ChannelFailed`, and any error of the intake."""
        self._intake = intake
        api = await self._connection()
        connection = BotConnection(intake, self._setup.tasks, self._setup.entropy, token_from=self._settings.token_from)
        me = self._me = await connection.persist(api.me)
        connection.bot_name = me.username
        if self._webhook is not None:
            await keep_webhook(api, connection, self._webhook, self._setup.tasks)
        else:
            now, window = self._setup.clock.now, UpdateWindow(self._setup.tasks)
            await poll(api, connection, window, lambda: UpdateTaker(api, me, intake, now), poll_s=self._settings.poll_s)

    async def load(self) -> None:
        """Load the HTTP client now instead of on first use."""
        await self._connection()

    async def identify(self) -> str:
        """Ask Telegram once for the bot's name. Raises `ChannelFailed`."""
        api = await self._connection()
        try:
            return f"@{(await api.me()).username}"
        except BotApiError as failure:
            is_stranger = failure.kind is BotApiErrorKind.STRANGER
            what = rejected_token(self._settings.token_from) if is_stranger else failure.reason
            raise ChannelFailed(what, vendor=failure.vendor) from None

    def check_head(self, headers: Mapping[str, str]) -> None:
        """Raises `BadSignature`, and `UnsupportedMediaType` for a content type other than JSON."""
        given = headers.get(SECRET_HEADER, "").encode("utf-8", "surrogateescape")
        if self._webhook is None or not compare_digest(given, self._webhook.secret.encode()):
            raise BadSignature("the webhook's secret is missing or wrong")
        check_json_type(headers.get("content-type", JSON_TYPE))

    async def hook(self, request: WebhookRequest, intake: Intake) -> WebhookAnswer:
        """Answer 200 when the update is durable, 503 when Telegram should redeliver it. Raises `BadSignature`."""
        self.check_head(request.headers)
        try:
            check_json(request.body)
            update = json.loads(request.body)
        except InvalidInput:
            return WebhookAnswer(status=400)
        if not isinstance(update, dict):
            return WebhookAnswer(status=400)
        return WebhookAnswer(status=await self._hooked(update, intake))

    async def _hooked(self, update: object, intake: Intake) -> int:
        if self._me is None or self._api is None:
            return 503  # the bot's own id is not known yet; Telegram calls again
        try:
            taker = UpdateTaker(self._api, self._me, intake, self._setup.clock.now)
            await taker.take(taker.read(update))
        except HoldfastError as error:
            log.warning("update.postponed", reason=error.code)
            return 503
        return 200

    async def send(self, post: Post) -> SendOutcome:
        """Post plain text as a reply to `in_reply_to`. Raises nothing.

        While the HTTP client is loading, `send` returns `NotSent` at once. A post that waited here would count as
        doubtful after a crash, although it was never sent.
        """
        api = await self._ready()
        if isinstance(api, NotSent):
            return api
        try:
            chat, thread = _place(post.address)
        except ValueError:
            return Declined("the address names no Telegram chat")
        target = self._moved.get(chat, chat)
        quoted = _quoted(post) if target == chat else None  # in a moved chat the id belongs to another message
        try:
            return Sent(await api.send(target, thread, clean(post.text), quoted))
        except BotApiError as failure:
            if failure.kind is BotApiErrorKind.MOVED:
                return await self._follow(chat, failure.moved_to)
            return self._outcome(target, failure)

    async def _ready(self) -> "BotApi | NotSent":
        if self._loading.locked():
            return NotSent("the channel is not ready yet", NOT_READY_MS, whole_account=True)
        try:
            return await self._connection()
        except ChannelFailed:
            return NotSent("the channel is closed")

    async def rank(self, message: ChatMessage) -> Rank:
        """An anonymous admin writes as the group itself. A sender who writes as another chat has no rank."""
        if message.sender == message.chat:
            return Rank.ADMIN
        if not message.sender.isdigit():
            return Rank.MEMBER
        api = await self._ready()
        if isinstance(api, NotSent):
            return Rank.UNKNOWN
        try:
            status = await api.member_status(int(message.chat), int(message.sender))
        except BotApiError as failure:
            log.warning("rank.unknown", agent=self._setup.agent, channel=self._setup.name, why=failure.kind.value)
            return Rank.UNKNOWN
        return Rank.ADMIN if status in ADMINS else Rank.MEMBER

    async def edit(self, address: Address, receipt: str, text: str) -> SendOutcome:
        return await self._change(address, receipt, lambda api, chat, number: api.edit(chat, number, clean(text)))

    async def retract(self, address: Address, receipt: str) -> SendOutcome:
        return await self._change(address, receipt, lambda api, chat, number: api.delete(chat, number))

    async def _change(
        self, address: Address, receipt: str, call: Callable[["BotApi", int, int], Awaitable[None]]
    ) -> SendOutcome:
        api = await self._ready()
        if isinstance(api, NotSent):
            return api
        try:
            chat, number = _place(address)[0], int(receipt)
        except ValueError:
            return Declined("the address names no Telegram message")
        if chat in self._moved:
            return Declined("the group became a supergroup, in which its messages have other ids")
        try:
            await call(api, chat, number)
        except BotApiError as failure:
            if failure.kind is BotApiErrorKind.MOVED:
                return Declined(failure.reason, vendor=failure.vendor)
            is_done = any(text in failure.description for text in (ALREADY_THERE, ALREADY_GONE))
            is_refused = failure.kind is BotApiErrorKind.REFUSED
            return Sent(receipt) if is_refused and is_done else self._outcome(chat, failure)
        return Sent(receipt)

    async def typing(self, address: Address) -> None:
        if self._api is None or self._closed:
            return
        try:
            chat, thread = _place(address)
            await self._api.typing(self._moved.get(chat, chat), thread)
        except (BotApiError, ValueError):
            return  # best effort

    def _outcome(self, chat: int, failure: BotApiError) -> SendOutcome:
        match failure.kind:
            case BotApiErrorKind.LOST | BotApiErrorKind.BROKEN:
                return Doubtful(failure.reason, vendor=failure.vendor)
            case BotApiErrorKind.REFUSED:
                return Declined(failure.reason, vendor=failure.vendor)
            case BotApiErrorKind.BUSY:
                wait_ms = failure.retry_after_ms
                limits_account = self._limits_account(chat, wait_ms)
                return NotSent(failure.reason, wait_ms, whole_account=limits_account, vendor=failure.vendor)
            case _:
                return NotSent(failure.reason, vendor=failure.vendor)

    def _limits_account(self, chat: int, wait_ms: int) -> bool:
        """Whether a rate limit concerns the whole bot. Telegram does not say; two chats limited at once suggest it."""
        now = self._setup.clock.now()
        self._busy_until = {other: until for other, until in self._busy_until.items() if until > now}
        self._busy_until[chat] = now + wait_ms
        return len(self._busy_until) > 1

    async def _follow(self, chat: int, new: int) -> SendOutcome:
        """Remember the new id and tell the intake. If that fails, the group's own updates announce it again."""
        if len(self._moved) < CHATS_MOVED_MAX:
            self._moved[chat] = new
        if self._intake is not None:
            try:
                await self._intake.moved(str(chat), str(new), new_type="group")
            except HoldfastError as error:
                log.warning("chat.unmoved", chat=chat, new=new, reason=error.code)
        return NotSent("the group became a supergroup; the next attempt goes there")

    async def close(self) -> None:
        """Close the connections within `CLOSE_S`; one that takes longer is abandoned."""
        self._closed = True
        async with self._loading:
            if self._api is not None:
                try:
                    async with asyncio.timeout(CLOSE_S):
                        await self._api.close()
                except TimeoutError:
                    log.warning("channel.unclosed", agent=self._setup.agent, channel=self._setup.name)

    async def _connection(self) -> "BotApi":
        async with self._loading:
            if self._closed:
                raise ChannelFailed("the channel is closed")
            if self._api is None:
                self._api = await self._setup.tasks.in_thread(self._load)
            return self._api

    def _load(self) -> "BotApi":
        from holdfast.channels.telegram.bot_api import BotApi  # noqa: PLC0415 - imports httpx

        return BotApi(self._token, self._api_url)


def _place(address: Address) -> tuple[int, int | None]:
    """The ids of the chat and the topic. Raises `ValueError`."""
    return int(address.chat), None if address.thread is None else int(address.thread)


def _quoted(post: Post) -> int | None:
    """The id of the message that is answered. An edit's event id begins with it."""
    number = post.in_reply_to.partition(".")[0]
    return int(number) if number.isascii() and number.isdigit() else None
