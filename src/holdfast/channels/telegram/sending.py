"""Sends, edits and deletes messages, and decides what each failure proves.

Rule 1: a refusal by Telegram (a status below 500 with its own verdict) means that nothing was posted.
Rule 2: without a verdict the outcome is doubtful. A 5xx may come from a gateway in front of a server that has posted;
        the same holds for an unreadable answer and for a connection lost after the request was sent.
Rule 3: a reply to a deleted topic is declined. Posting it outside the topic would show it to other people.
Rule 4: an edit is idempotent: Telegram answers that the message is not modified, which means that the text is there. In
        a chat that moved, messages have other ids, so none is edited or deleted there.
Rule 5: the sender learns a chat's new id from the refusal and keeps it in memory; after a restart it learns it again.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from holdfast.channels.telegram.text import clean
from holdfast.channels.telegram.wire import BotApiError, BotApiErrorKind
from holdfast.inbox.address import Address
from holdfast.inbox.channel import Intake
from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.ids import Instant
from holdfast.outbox.post import Declined, Doubtful, NotSent, Post, SendOutcome, Sent

if TYPE_CHECKING:
    from holdfast.channels.telegram.bot_api import BotApi

CHATS_MOVED_MAX = 10_000
ALREADY_THERE = "message is not modified"  # in the description of Telegram's refusal
ALREADY_GONE = "message to delete not found"


class TelegramSender:
    def __init__(self, now: Callable[[], Instant]) -> None:
        self._now = now
        self._moved: dict[int, int] = {}
        self._busy_until: dict[int, int] = {}

    async def send(self, api: "BotApi", post: Post, intake: Intake | None) -> SendOutcome:
        try:
            chat, thread = place(post.address)
        except ValueError:
            return Declined("the address names no Telegram chat")
        target = self._moved.get(chat, chat)
        quoted = _quoted(post) if target == chat else None  # in a moved chat the id belongs to another message
        try:
            return Sent(await api.send(target, thread, clean(post.text), quoted))
        except BotApiError as failure:
            if failure.kind is BotApiErrorKind.MOVED:
                return await self._follow(chat, failure.moved_to, intake)
            return self._outcome(target, failure)

    async def edit(self, api: "BotApi", address: Address, receipt: str, text: str) -> SendOutcome:
        return await self._change(address, receipt, lambda chat, number: api.edit(chat, number, clean(text)))

    async def retract(self, api: "BotApi", address: Address, receipt: str) -> SendOutcome:
        return await self._change(address, receipt, api.delete)

    async def _change(self, address: Address, receipt: str, call: Callable[[int, int], Awaitable[None]]) -> SendOutcome:
        try:
            chat, number = place(address)[0], int(receipt)
        except ValueError:
            return Declined("the address names no Telegram message")
        if chat in self._moved:
            return Declined("the group became a supergroup, in which its messages have other ids")
        try:
            await call(chat, number)
        except BotApiError as failure:
            if failure.kind is BotApiErrorKind.MOVED:
                return Declined(failure.reason, vendor=failure.vendor)
            is_done = any(text in failure.description for text in (ALREADY_THERE, ALREADY_GONE))
            is_refused = failure.kind is BotApiErrorKind.REFUSED
            return Sent(receipt) if is_refused and is_done else self._outcome(chat, failure)
        return Sent(receipt)

    async def typing(self, api: "BotApi", address: Address) -> None:
        try:
            chat, thread = place(address)
            await api.typing(self._moved.get(chat, chat), thread)
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
        now = self._now()
        self._busy_until = {other: until for other, until in self._busy_until.items() if until > now}
        self._busy_until[chat] = now + wait_ms
        return len(self._busy_until) > 1

    async def _follow(self, chat: int, new: int, intake: Intake | None) -> SendOutcome:
        """Remember the new id and tell the intake. If that fails, the group's own updates announce it again."""
        if len(self._moved) < CHATS_MOVED_MAX:
            self._moved[chat] = new
        if intake is not None:
            try:
                await intake.moved(str(chat), str(new), new_type="group")
            except HoldfastError as error:
                log.warning("chat.unmoved", chat=chat, new=new, reason=error.code)
        return NotSent("the group became a supergroup; the next attempt goes there")


def place(address: Address) -> tuple[int, int | None]:
    """The ids of the chat and the topic. Raises `ValueError`."""
    return int(address.chat), None if address.thread is None else int(address.thread)


def _quoted(post: Post) -> int | None:
    """The id of the message that is answered. An edit's event id begins with it."""
    number = post.in_reply_to.partition(".")[0]
    return int(number) if number.isascii() and number.isdigit() else None
