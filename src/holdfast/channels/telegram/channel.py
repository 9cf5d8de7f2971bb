"""A bot on Telegram: receives by polling or webhook, sends plain text.

Rule 1: aiogram is loaded in a thread when it is first needed, and not while holdfast starts: that takes a while.
Rule 2: everything but the connection may be thrown away at any instant. Telegram keeps what was not acknowledged.
Rule 3: the secret of a webhook is compared before anything of the request is read. Without a secret nothing gets in.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from secrets import compare_digest
from typing import TYPE_CHECKING

from holdfast.channels.telegram.connection import BotConnection
from holdfast.channels.telegram.failure import BotApiError, BotApiErrorKind
from holdfast.channels.telegram.receiving import poll, stay_hooked
from holdfast.channels.telegram.sending import TelegramSender
from holdfast.channels.telegram.settings import TelegramSettings
from holdfast.channels.telegram.text import utf16_units
from holdfast.channels.telegram.update_taker import UpdateTaker
from holdfast.channels.telegram.update_window import UpdateWindow
from holdfast.channels.telegram.wire import BotAccount
from holdfast.inbox.address import Address
from holdfast.inbox.channel import ChannelCapabilities, ChannelSetup, Intake, WebhookAnswer, WebhookRequest
from holdfast.inbox.chat_message import ChatMessage
from holdfast.kernel import log
from holdfast.kernel.errors import BadSignature, ChannelFailed, HoldfastError, InvalidInput
from holdfast.kernel.json_check import check_json
from holdfast.kernel.media_type import JSON_TYPE, check_json_type
from holdfast.outbox.post import NotSent, Post, SendOutcome
from holdfast.sessions.command_rights import Rank

if TYPE_CHECKING:
    from holdfast.channels.telegram.calls import BotApi

CLOSE_S = 5.0
SECRET_HEADER = "x-telegram-bot-api-secret-token"  # noqa: S105 - a header's name
NOT_READY_MS = 500
ADMINS = frozenset({"creator", "administrator"})  # https://core.telegram.org/bots/api#chatmember
CAPABILITIES = ChannelCapabilities(
    text_chars_max=4096,
    text_length=utf16_units,
    typing=True,
    typing_lasts_ms=5_000,
    chat_interval_ms=1_000,  # https://core.telegram.org/bots/faq: one message a second in one chat
    group_edit_interval_ms=4_000,  # and twenty a minute in a group, edits included
    account_edit_interval_ms=50,  # and thirty a second in all
    cumulative=True,
)


class TelegramChannel:
    def __init__(self, setup: ChannelSetup, settings: TelegramSettings) -> None:
        self._setup = setup
        self._settings = settings
        self._able = replace(CAPABILITIES, drafts=settings.stream)
        self._sender = TelegramSender(setup.clock.now)
        self._loading = asyncio.Lock()
        self._calls: BotApi | None = None
        self._me: BotAccount | None = None
        self._intake: Intake | None = None
        self._closed = False

    @property
    def capabilities(self) -> ChannelCapabilities:
        return self._able

    async def run(self, intake: Intake) -> None:
        """Receive until cancelled. Raises `ChannelFailed`, and whatever the intake raised: it was not acknowledged."""
        self._intake = intake
        calls = await self._connection()
        line = BotConnection(intake, self._setup.tasks, self._setup.entropy, token_from=self._settings.token_from)
        me = self._me = await line.persist(calls.me)
        line.who = me.username
        if self._settings.webhook is not None:
            await stay_hooked(calls, line, self._settings.webhook, self._setup.tasks)
        else:
            now, window = self._setup.clock.now, UpdateWindow(self._setup.tasks)
            await poll(calls, line, window, lambda: UpdateTaker(calls, me, intake, now), poll_s=self._settings.poll_s)

    async def load(self) -> None:
        """Load aiogram now instead of when it is first needed."""
        await self._connection()

    async def identify(self) -> str:
        """The bot's name, asked once. Raises `ChannelFailed`."""
        calls = await self._connection()
        try:
            return f"@{(await calls.me()).username}"
        except BotApiError as failure:
            refused = f"Telegram does not accept the bot's token; look at what {self._settings.token_from} leads to"
            what = refused if failure.kind is BotApiErrorKind.STRANGER else failure.reason
            raise ChannelFailed(what, vendor=failure.vendor) from None

    def check_head(self, headers: Mapping[str, str]) -> None:
        """Raises `BadSignature`, and `UnsupportedMediaType` for anything that is said not to be JSON."""
        webhook = self._settings.webhook
        given = headers.get(SECRET_HEADER, "").encode("utf-8", "surrogateescape")
        if webhook is None or not compare_digest(given, webhook.secret.encode()):
            raise BadSignature("the webhook's secret is missing or wrong")
        check_json_type(headers.get("content-type", JSON_TYPE))

    async def hook(self, request: WebhookRequest, intake: Intake) -> WebhookAnswer:
        """200 when the update is durable, 503 when it should come again. Raises `BadSignature`."""
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
        if self._me is None or self._calls is None:
            return 503  # who the bot is is not known yet; Telegram calls again
        try:
            taker = UpdateTaker(self._calls, self._me, intake, self._setup.clock.now)
            await taker.take(taker.read(update))
        except HoldfastError as error:
            log.warning("update.postponed", reason=error.code)
            return 503
        return 200

    async def send(self, post: Post) -> SendOutcome:
        """Plain text, as an answer to `in_reply_to`. Raises nothing.

        While aiogram is being loaded nothing can leave, and that is said at once: what waited here would be in doubt
        after a crash, although it was never sent.
        """
        calls = await self._ready()
        return calls if isinstance(calls, NotSent) else await self._sender.send(calls, post, self._intake)

    async def _ready(self) -> "BotApi | NotSent":
        if self._loading.locked():
            return NotSent("the channel is not ready yet", NOT_READY_MS, whole_account=True)
        try:
            return await self._connection()
        except ChannelFailed:
            return NotSent("the channel is closed")

    async def rank(self, message: ChatMessage) -> Rank:
        """An anonymous admin speaks as the group itself. Who speaks as another chat has no rank."""
        if message.sender == message.chat:
            return Rank.ADMIN
        if not message.sender.isdigit():
            return Rank.MEMBER
        calls = await self._ready()
        if isinstance(calls, NotSent):
            return Rank.UNKNOWN
        try:
            status = await calls.member_status(int(message.chat), int(message.sender))
        except BotApiError as failure:
            log.warning("rank.unknown", agent=self._setup.agent, channel=self._setup.name, why=failure.kind.value)
            return Rank.UNKNOWN
        return Rank.ADMIN if status in ADMINS else Rank.MEMBER

    async def edit(self, address: Address, receipt: str, text: str) -> SendOutcome:
        calls = await self._ready()
        return calls if isinstance(calls, NotSent) else await self._sender.edit(calls, address, receipt, text)

    async def retract(self, address: Address, receipt: str) -> SendOutcome:
        calls = await self._ready()
        return calls if isinstance(calls, NotSent) else await self._sender.retract(calls, address, receipt)

    async def typing(self, address: Address) -> None:
        if self._calls is not None and not self._closed:
            await self._sender.typing(self._calls, address)

    async def close(self) -> None:
        """Bounded: a connection that does not close in time is left to the system."""
        self._closed = True
        async with self._loading:
            if self._calls is not None:
                try:
                    async with asyncio.timeout(CLOSE_S):
                        await self._calls.close()
                except TimeoutError:
                    log.warning("channel.unclosed", agent=self._setup.agent, channel=self._setup.name)

    async def _connection(self) -> "BotApi":
        async with self._loading:
            if self._closed:
                raise ChannelFailed("the channel is closed")
            if self._calls is None:
                self._calls = await self._setup.tasks.in_thread(self._load)
            return self._calls

    def _load(self) -> "BotApi":
        from holdfast.channels.telegram.loading import load_aiogram  # noqa: PLC0415 - an extra

        load_aiogram()
        from holdfast.channels.telegram.calls import BotApi  # noqa: PLC0415 - aiogram, loaded slowly if not before

        return BotApi(self._settings.token, self._settings.api_url)
