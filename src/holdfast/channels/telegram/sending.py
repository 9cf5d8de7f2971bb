"""One piece of a reply, sent: what each failure proves about it.

Rule 1: a refusal by Telegram (any code below 500 with its verdict) means that nothing was posted.
Rule 2: without a verdict nobody can say. A 5xx may come from a gateway in front of a server that has posted; the same
        holds for an answer that cannot be read, and for a connection lost after the request went out.
Rule 3: a topic that is gone declines the reply. Posting it beside the topic would show it to the wrong people.
Rule 4: an edit may be repeated: Telegram says that a message is not modified, which means that the text is there. In a
        chat that moved the messages have other numbers, so none is edited or deleted there.
Rule 5: a chat's new id is learnt from the refusal and kept for as long as the process lives; the next learns it again.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from holdfast.channels.telegram.failure import BotApiError, BotApiErrorKind
from holdfast.channels.telegram.text import clean
from holdfast.inbox.address import Address
from holdfast.inbox.channel import Intake
from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.ids import Instant
from holdfast.outbox.post import Declined, Doubtful, NotSent, Post, SendOutcome, Sent

CHATS_MOVED_MAX = 10_000
ALREADY_THERE = "message is not modified"  # a verdict of Telegram's
ALREADY_GONE = "message to delete not found"


class Sends(Protocol):
    async def send(self, chat: int, thread: int | None, text: str, reply_to: int | None) -> str: ...

    async def edit(self, chat: int, message: int, text: str) -> None: ...

    async def delete(self, chat: int, message: int) -> None: ...

    async def typing(self, chat: int, thread: int | None) -> None: ...


class TelegramSender:
    def __init__(self, now: Callable[[], Instant]) -> None:
        self._now = now
        self._moved: dict[int, int] = {}
        self._busy_until: dict[int, int] = {}

    async def send(self, calls: Sends, post: Post, intake: Intake | None) -> SendOutcome:
        try:
            chat, thread = place(post.address)
        except ValueError:
            return Declined("the address is no chat of Telegram")
        target = self._moved.get(chat, chat)
        quoted = _quoted(post) if target == chat else None  # a moved chat numbers its messages anew
        try:
            return Sent(await calls.send(target, thread, clean(post.text), quoted))
        except BotApiError as failure:
            if failure.kind is BotApiErrorKind.MOVED:
                return await self._follow(chat, failure.moved_to, intake)
            return self._outcome(target, failure)

    async def edit(self, calls: Sends, address: Address, receipt: str, text: str) -> SendOutcome:
        return await self._change(address, receipt, lambda chat, number: calls.edit(chat, number, clean(text)))

    async def retract(self, calls: Sends, address: Address, receipt: str) -> SendOutcome:
        return await self._change(address, receipt, calls.delete)

    async def _change(self, address: Address, receipt: str, call: Callable[[int, int], Awaitable[None]]) -> SendOutcome:
        try:
            chat, number = place(address)[0], int(receipt)
        except ValueError:
            return Declined("the address is no message of Telegram")
        if chat in self._moved:
            return Declined("the group became a supergroup, where its messages have other numbers")
        try:
            await call(chat, number)
        except BotApiError as failure:
            if failure.kind is BotApiErrorKind.REFUSED and any(
                said in failure.said for said in (ALREADY_THERE, ALREADY_GONE)
            ):
                return Sent(receipt)
            return (
                Declined(failure.reason, vendor=failure.vendor)
                if failure.kind is BotApiErrorKind.MOVED
                else self._outcome(chat, failure)
            )
        return Sent(receipt)

    async def typing(self, calls: Sends, address: Address) -> None:
        try:
            chat, thread = place(address)
            await calls.typing(self._moved.get(chat, chat), thread)
        except (BotApiError, ValueError):
            return  # shown or not, the answer comes

    def _outcome(self, chat: int, failure: BotApiError) -> SendOutcome:
        match failure.kind:
            case BotApiErrorKind.LOST | BotApiErrorKind.BROKEN:
                return Doubtful(failure.reason, vendor=failure.vendor)
            case BotApiErrorKind.REFUSED:
                return Declined(failure.reason, vendor=failure.vendor)
            case BotApiErrorKind.BUSY:
                wait_ms = failure.retry_after_ms
                is_everywhere = self._is_everywhere(chat, wait_ms)
                return NotSent(failure.reason, wait_ms, whole_account=is_everywhere, vendor=failure.vendor)
            case _:
                return NotSent(failure.reason, vendor=failure.vendor)

    def _is_everywhere(self, chat: int, wait_ms: int) -> bool:
        """Telegram does not say whether a limit is the chat's or the bot's. When two chats are limited at the same
        time it is taken for the bot's."""
        now = self._now()
        self._busy_until = {other: until for other, until in self._busy_until.items() if until > now}
        self._busy_until[chat] = now + wait_ms
        return len(self._busy_until) > 1

    async def _follow(self, chat: int, new: int, intake: Intake | None) -> SendOutcome:
        """Remember, and tell the intake. Should that fail, the group's own updates tell it again."""
        if len(self._moved) < CHATS_MOVED_MAX:
            self._moved[chat] = new
        if intake is not None:
            try:
                await intake.moved(str(chat), str(new), new_type="group")
            except HoldfastError as error:
                log.warning("chat.unmoved", chat=chat, new=new, reason=error.code)
        return NotSent("the group became a supergroup; the next attempt goes there")


def place(address: Address) -> tuple[int, int | None]:
    """The chat and the topic. Raises `ValueError`."""
    return int(address.chat), None if address.thread is None else int(address.thread)


def _quoted(post: Post) -> int | None:
    """The message that is answered; an edit's id begins with that of the message."""
    number = post.in_reply_to.partition(".")[0]
    return int(number) if number.isascii() and number.isdigit() else None
