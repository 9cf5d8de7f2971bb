"""The only place that calls aiogram. Each method is one call of the Bot API; what fails is raised as `BotApiError`.

Rule 1: nothing is repeated here. aiohttp repeats no POST either, and redirects are not followed: they would carry a
        message somewhere else.
Rule 2: only an error of connecting proves that nothing left (`ClientConnectorError`, which covers names, refusals and
        TLS, and `ConnectionTimeoutError`). A connection that is kept alive may be closed by the server while a request
        is on its way, so `ServerDisconnectedError` proves nothing, and neither does any other timeout.
Rule 3: answers are checked for the few fields that are used. aiogram's models would refuse a whole batch of updates for
        one of them, or a receipt for a field that is newer than the library.
"""

from functools import partial
from typing import Any, TypeVar

import msgspec
from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    ClientDecodeError,
    TelegramAPIError,
    TelegramBadRequest,
    TelegramConflictError,
    TelegramEntityTooLarge,
    TelegramForbiddenError,
    TelegramMigrateToChat,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramServerError,
    TelegramUnauthorizedError,
)
from aiogram.methods import (
    DeleteMessage,
    DeleteWebhook,
    EditMessageText,
    GetChatMember,
    GetFile,
    GetMe,
    GetUpdates,
    GetWebhookInfo,
    SendChatAction,
    SendMessage,
    SetWebhook,
    TelegramMethod,
)
from aiogram.types import ReplyParameters
from aiohttp import ClientConnectorError, ClientError, ClientResponse, ClientTimeout, ConnectionTimeoutError

from holdfast.channels.telegram.failure import BotApiError, BotApiErrorKind
from holdfast.channels.telegram.wire import BotAccount, File
from holdfast.kernel.vendor_error import NO_ANSWER, VendorError, vendor_error

CONNECT_S = 10.0
CALL_S = 30.0
DOWNLOAD_S = 20.0
MEMBER_S = 5  # a command waits no longer for the rank of its sender
POLL_EXTRA_S = 10  # beyond what the long poll itself may wait
UPDATES_MAX = 100
ANSWER_BYTES_MAX = 32 * 1024 * 1024
# Reactions, members, queries and the like hold nothing that an agent could read. Telegram tells bots of no deletion.
ALLOWED_UPDATES = ["message", "edited_message", "channel_post", "edited_channel_post"]
T = TypeVar("T")


class _Me(GetMe):
    __returning__ = dict[str, Any]


class _Updates(GetUpdates):
    __returning__ = list[Any]


class _Send(SendMessage):
    __returning__ = dict[str, Any]


class _Edit(EditMessageText):
    __returning__ = dict[str, Any]


class _File(GetFile):
    __returning__ = dict[str, Any]


class _Member(GetChatMember):
    __returning__ = dict[str, Any]


class _WebhookInfo(GetWebhookInfo):
    __returning__ = dict[str, Any]


class Session(AiohttpSession):
    """aiogram's session with limits of time and size, without redirects, and without a nap when it closes."""

    async def make_request(self, bot: Bot, method: TelegramMethod[T], timeout: int | None = None) -> T:  # noqa: ASYNC109
        session = await self.create_session()
        url = self.api.api_url(token=bot.token, method=method.__api_method__)
        limits = ClientTimeout(total=CALL_S if timeout is None else timeout, connect=CONNECT_S)
        form = self.build_form_data(bot, method)
        async with session.post(url, data=form, timeout=limits, allow_redirects=False) as response:
            body = await _read(response, ANSWER_BYTES_MAX)
        told = partial(_told, bot, method, response, body)
        if response.status >= 500 or body is None:
            raise BotApiError(
                BotApiErrorKind.BROKEN, f"Telegram answered {response.status} without a verdict", vendor=told()
            )
        if response.status >= 300 and (response.status < 400 or not _is_verdict(body)):
            raise BotApiError(
                BotApiErrorKind.BROKEN, f"something before Telegram answered {response.status}", vendor=told()
            )
        try:
            text = body.decode("utf-8", "replace")
            result: T = self.check_response(bot, method, response.status, text).result  # type: ignore[assignment]
        except (TelegramAPIError, ClientDecodeError) as error:
            raise translated(error, told()) from None  # a vendor's error may hold the token or people's words
        return result

    async def fetch(self, url: str, bytes_max: int) -> bytes | None:
        """The file; None when it is larger, or not there."""
        session = await self.create_session()
        limits = ClientTimeout(total=DOWNLOAD_S, connect=CONNECT_S)
        async with session.get(url, timeout=limits, allow_redirects=False) as response:
            return await _read(response, bytes_max) if response.status == 200 else None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def _is_verdict(body: bytes) -> bool:
    """Whether it is a refusal of Telegram's own."""
    try:
        said = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return said.get("ok") is False and isinstance(said.get("error_code"), int) and "description" in said


async def _read(response: ClientResponse, bytes_max: int) -> bytes | None:
    """The body; None when it is larger than that."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > bytes_max:
            return None
    return bytes(body)


class BotApi:
    """One bot's calls. Made without an event loop; loading certificates takes a moment."""

    def __init__(self, token: str, api_url: str) -> None:
        self._session = Session(api=TelegramAPIServer.from_base(api_url))
        self._bot = Bot(token, session=self._session)

    async def me(self) -> BotAccount:
        return _shaped(await self._call(_Me()), BotAccount)

    async def updates(self, offset: int | None, wait_s: int) -> list[Any]:
        """Unconfirmed updates, unchecked. Confirms every one before `offset`."""
        question = _Updates(offset=offset, limit=UPDATES_MAX, timeout=wait_s, allowed_updates=ALLOWED_UPDATES)
        answer: list[Any] = await self._call(question, wait_s=wait_s + POLL_EXTRA_S)
        return answer

    async def drop_webhook(self) -> None:
        """What Telegram keeps for us stays with it."""
        await self._call(DeleteWebhook(drop_pending_updates=False))

    async def set_webhook(self, url: str, secret: str) -> None:
        """One connection: with more, Telegram delivers messages of a chat side by side and out of order."""
        await self._call(
            SetWebhook(
                url=url,
                secret_token=secret,
                max_connections=1,
                allowed_updates=ALLOWED_UPDATES,
                drop_pending_updates=False,
            )
        )

    async def webhook_url(self) -> str:
        return str((await self._call(_WebhookInfo())).get("url", ""))

    async def send(self, chat: int, thread: int | None, text: str, reply_to: int | None) -> str:
        """The id of the message. Plain text: no character of it is markup."""
        quoted = None if reply_to is None else ReplyParameters(message_id=reply_to, allow_sending_without_reply=True)
        fields: dict[str, Any] = {"chat_id": chat, "message_thread_id": thread, "text": text}
        method = _Send(**fields, parse_mode=None, reply_parameters=quoted)
        return str((await self._call(method)).get("message_id", ""))

    async def edit(self, chat: int, message: int, text: str) -> None:
        fields: dict[str, Any] = {"chat_id": chat, "message_id": message, "text": text}
        await self._call(_Edit(**fields, parse_mode=None))

    async def delete(self, chat: int, message: int) -> None:
        await self._call(DeleteMessage(chat_id=chat, message_id=message))

    async def typing(self, chat: int, thread: int | None) -> None:
        await self._call(SendChatAction(chat_id=chat, message_thread_id=thread, action="typing"))

    async def member_status(self, chat: int, user: int) -> str:
        """`creator`, `administrator`, `member` and others."""
        return str((await self._call(_Member(chat_id=chat, user_id=user), wait_s=MEMBER_S)).get("status", ""))

    async def download(self, file_id: str, bytes_max: int) -> bytes | None:
        """The file's bytes; None when it is larger than that or gone."""
        file = _shaped(await self._call(_File(file_id=file_id)), File)
        if not file.file_path or file.file_size > bytes_max:
            return None
        try:
            return await self._session.fetch(self._session.api.file_url(self._bot.token, file.file_path), bytes_max)
        except (ClientError, OSError) as error:
            raise translated(error) from None

    async def close(self) -> None:
        await self._session.close()

    async def _call(self, method: TelegramMethod[Any], *, wait_s: int | None = None) -> Any:  # noqa: ANN401
        try:
            return await self._bot(method, request_timeout=wait_s)
        except (TelegramAPIError, ClientDecodeError, ClientError, OSError) as error:
            raise translated(error) from None


def _shaped(answer: object, shape: type[T]) -> T:
    try:
        return msgspec.convert(answer, shape)
    except msgspec.ValidationError:
        raise BotApiError(BotApiErrorKind.BROKEN, f"Telegram's answer is no {shape.__name__}") from None


REFUSALS: list[tuple[tuple[type[TelegramAPIError], ...], BotApiErrorKind]] = [
    ((TelegramUnauthorizedError, TelegramNotFound), BotApiErrorKind.STRANGER),
    ((TelegramConflictError,), BotApiErrorKind.CONFLICT),
    ((TelegramBadRequest, TelegramForbiddenError, TelegramEntityTooLarge), BotApiErrorKind.REFUSED),
    ((TelegramServerError,), BotApiErrorKind.BROKEN),
]


def _told(bot: Bot, method: TelegramMethod[Any], response: ClientResponse, body: bytes | None) -> VendorError:
    """What the answer says to an operator. Telegram's own has no request id; what stands before it may name one."""
    sent = str(getattr(method, "text", None) or "")
    secrets = [bot.token, getattr(method, "secret_token", None) or ""]
    return vendor_error(response.status, response.headers, body, sent=sent, code_in="error_code", secrets=secrets)


def translated(error: Exception, vendor: VendorError = NO_ANSWER) -> BotApiError:
    """A vendor's exception as what it proves. `TimeoutError` is an `OSError`."""
    failure = _by_kind(error)
    failure.vendor = vendor
    return failure


def _by_kind(error: Exception) -> BotApiError:
    match error:
        case ClientConnectorError() | ConnectionTimeoutError():
            return BotApiError(BotApiErrorKind.UNREACHABLE, f"Telegram cannot be reached ({type(error).__name__})")
        case ClientError() | OSError():
            return BotApiError(BotApiErrorKind.LOST, f"the connection to Telegram was lost ({type(error).__name__})")
        case TelegramRetryAfter():
            wait_ms = round(error.retry_after * 1000)
            return BotApiError(BotApiErrorKind.BUSY, "Telegram asks to wait", retry_after_ms=wait_ms)
        case TelegramMigrateToChat():
            return BotApiError(
                BotApiErrorKind.MOVED, "the group became a supergroup", moved_to=error.migrate_to_chat_id
            )
        case TelegramAPIError():
            kind = next((kind for classes, kind in REFUSALS if isinstance(error, classes)), BotApiErrorKind.ODD)
            return BotApiError(kind, "Telegram refused it", said=error.message or "")
        case _:
            return BotApiError(BotApiErrorKind.BROKEN, "Telegram's answer cannot be read")
