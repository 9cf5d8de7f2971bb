"""The Bot API over HTTP. Each method makes one call; a call that fails raises `BotApiError`.

Rule 1: an answer is checked for the fields that are used, and only for those: a field that is newer than this code must
        not cost a message or a receipt.
Rule 2: every URL holds the token, so no error of httpx is passed on.
"""

import json
from typing import Any, TypeVar

import httpx
import msgspec

from holdfast.channels.http import FAILED, NOT_SENT, HttpConnections
from holdfast.channels.telegram.wire import ApiAnswer, BotAccount, BotApiError, BotApiErrorKind, File
from holdfast.kernel.vendor_error import vendor_error

CALL_S = 30.0
DOWNLOAD_S = 20.0
MEMBER_S = 5.0  # a command waits no longer for the rank of its sender
POLL_EXTRA_S = 10  # beyond the time that a long poll may wait
UPDATES_MAX = 100
ANSWER_BYTES_MAX = 32 * 1024 * 1024
# Reactions, joins, queries and the like hold no text for an agent. Telegram does not report deletions to bots.
ALLOWED_UPDATES = ["message", "edited_message", "channel_post", "edited_channel_post"]
REFUSALS = {
    **dict.fromkeys((400, 403, 413), BotApiErrorKind.REFUSED),
    **dict.fromkeys((401, 404), BotApiErrorKind.STRANGER),
    409: BotApiErrorKind.CONFLICT,
}
Json = dict[str, Any]
T = TypeVar("T")


class BotApi:
    """One bot's calls. The constructor loads certificates, which blocks for a moment; it needs no event loop."""

    def __init__(self, token: str, api_url: str) -> None:
        self._token = token
        self._api_url = api_url
        self._http = HttpConnections()

    async def me(self) -> BotAccount:
        return await self._call("getMe", BotAccount)

    async def updates(self, offset: int | None, wait_s: int) -> list[Any]:
        """Unconfirmed updates, unchecked. The call confirms every update before `offset`."""
        options: dict[str, Any] = {"limit": UPDATES_MAX, "timeout": wait_s, "allowed_updates": ALLOWED_UPDATES}
        return await self._call("getUpdates", list[Any], total_s=wait_s + POLL_EXTRA_S, offset=offset, **options)

    async def drop_webhook(self) -> None:
        """Remove the webhook. Telegram keeps the pending updates."""
        await self._call("deleteWebhook", bool, drop_pending_updates=False)

    async def set_webhook(self, url: str, secret: str) -> None:
        """Set the webhook with one connection: over several, Telegram delivers a chat's messages out of order."""
        options: dict[str, Any] = {
            "max_connections": 1,
            "allowed_updates": ALLOWED_UPDATES,
            "drop_pending_updates": False,
        }
        await self._call("setWebhook", bool, url=url, secret_token=secret, **options)

    async def webhook_url(self) -> str:
        return str((await self._call("getWebhookInfo", Json)).get("url", ""))

    async def send(self, chat: int, thread: int | None, text: str, reply_to: int | None) -> str:
        """Post plain text, without markup, and return the message's id."""
        quoted = None if reply_to is None else {"message_id": reply_to, "allow_sending_without_reply": True}
        target: dict[str, Any] = {"chat_id": chat, "message_thread_id": thread, "reply_parameters": quoted}
        return str((await self._call("sendMessage", Json, text=text, **target)).get("message_id", ""))

    async def edit(self, chat: int, message: int, text: str) -> None:
        await self._call("editMessageText", Json, chat_id=chat, message_id=message, text=text)

    async def delete(self, chat: int, message: int) -> None:
        await self._call("deleteMessage", bool, chat_id=chat, message_id=message)

    async def typing(self, chat: int, thread: int | None) -> None:
        await self._call("sendChatAction", bool, chat_id=chat, message_thread_id=thread, action="typing")

    async def member_status(self, chat: int, user: int) -> str:
        """`creator`, `administrator`, `member` and others."""
        member = await self._call("getChatMember", Json, total_s=MEMBER_S, chat_id=chat, user_id=user)
        return str(member.get("status", ""))

    async def download(self, file_id: str, bytes_max: int) -> bytes | None:
        """The file's bytes; None if the file is larger than `bytes_max` or gone."""
        file = await self._call("getFile", File, file_id=file_id)
        if not file.file_path or file.file_size > bytes_max:
            return None
        url = f"{self._api_url}/file/bot{self._token}/{file.file_path}"
        response, body = await self._request(httpx.Request("GET", url), DOWNLOAD_S, bytes_max)
        return body if response.status_code == 200 else None

    async def close(self) -> None:
        await self._http.close()

    async def _call(self, method: str, shape: type[T], *, total_s: float | None = None, **fields: object) -> T:
        given = {name: value for name, value in fields.items() if value is not None}
        form = {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}
        request = httpx.Request("POST", f"{self._api_url}/bot{self._token}/{method}", data=form)
        response, body = await self._request(request, CALL_S if total_s is None else total_s, ANSWER_BYTES_MAX)
        try:
            return msgspec.convert(_result(response.status_code, body), shape)
        except msgspec.ValidationError:
            failure = BotApiError(BotApiErrorKind.BROKEN, f"Telegram's answer to {method} has an undocumented shape")
        except BotApiError as error:
            failure = error
        hidden = {"sent": form.get("text", ""), "secrets": [self._token, form.get("secret_token", "")]}
        failure.vendor = vendor_error(response.status_code, response.headers, body, code_in="error_code", **hidden)
        raise failure from None

    async def _request(
        self, request: httpx.Request, total_s: float, bytes_max: int
    ) -> tuple[httpx.Response, bytes | None]:
        """The response and its body, or None for a body larger than `bytes_max`."""
        try:
            return await self._http.exchange(request, total_s, bytes_max)
        except FAILED as error:
            raise translated(error) from None  # an error of httpx may hold the URL


def _result(status: int, body: bytes | None) -> object:
    """The result of a call that Telegram executed. Raises `BotApiError` for every other answer."""
    if status >= 500 or body is None:
        raise BotApiError(BotApiErrorKind.BROKEN, f"Telegram answered {status} without a verdict")
    answer = _decoded(body)
    if status >= 300 and (status < 400 or answer is None or not answer.is_refusal):
        raise BotApiError(BotApiErrorKind.BROKEN, f"a server in front of Telegram answered {status}")
    if answer is None:
        raise BotApiError(BotApiErrorKind.BROKEN, "Telegram's answer cannot be read")
    if answer.ok and status < 300:
        return answer.result
    wait_ms, new_chat = round(answer.parameters.retry_after * 1000), answer.parameters.migrate_to_chat_id
    if wait_ms:
        raise BotApiError(BotApiErrorKind.BUSY, "Telegram asks to wait", retry_after_ms=wait_ms)
    if new_chat:
        raise BotApiError(BotApiErrorKind.MOVED, "the group became a supergroup", moved_to=new_chat)
    kind = REFUSALS.get(status, BotApiErrorKind.ODD)
    raise BotApiError(kind, "Telegram refused it", description=answer.description or "")


def _decoded(body: bytes) -> ApiAnswer | None:
    """Python's decoder is used because it keeps half a surrogate pair, which msgspec's refuses."""
    try:
        return msgspec.convert(json.loads(body.decode("utf-8", "replace")), ApiAnswer)
    except (ValueError, RecursionError):  # msgspec's ValidationError is a ValueError
        return None


def translated(error: Exception) -> BotApiError:
    """A transport error by what it proves."""
    name = type(error).__name__
    if isinstance(error, NOT_SENT):
        return BotApiError(BotApiErrorKind.UNREACHABLE, f"Telegram cannot be reached ({name})")
    return BotApiError(BotApiErrorKind.LOST, f"the connection to Telegram was lost ({name})")
