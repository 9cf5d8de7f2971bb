"""The two ways to receive: asking for updates, or being called.

Rule 1: the offset of a poll confirms every update before it, so it moves past an update only when that and all before
        it have been taken (D2). What was taken and not confirmed comes again, and is a duplicate.
Rule 2: an offset is sent until a poll with it has been answered, and then no more: after a quiet week Telegram begins
        with another id, which may be smaller.
Rule 3: no update is ever dropped at start, in either way.
Rule 4: both ways are slow on purpose where two processes fight over one bot.
Rule 5: while an update is being taken, polls go on without it: they bring it again with what is new behind it, up to a
        hundred updates. So a slow file holds up its own chat, and everybody only when a hundred wait behind it.
"""

from collections.abc import Callable
from typing import Any, Protocol

from holdfast.channels.telegram.connection import BotConnection
from holdfast.channels.telegram.failure import BotApiError, BotApiErrorKind
from holdfast.channels.telegram.reading import update_id
from holdfast.channels.telegram.settings import Webhook
from holdfast.channels.telegram.update_taker import UpdateTaker
from holdfast.channels.telegram.update_window import UpdateWindow
from holdfast.kernel.tasks import Tasks

WEBHOOK_CHECK_MS = 60_000
AGAIN_MS = 1_000  # between polls while updates are being taken: Telegram answers at once as long as any is unconfirmed


class Updates(Protocol):
    async def updates(self, offset: int | None, wait_s: int) -> list[Any]: ...

    async def drop_webhook(self) -> None: ...


class Hooks(Protocol):
    async def set_webhook(self, url: str, secret: str) -> None: ...

    async def webhook_url(self) -> str: ...


async def poll(
    calls: Updates, line: BotConnection, window: UpdateWindow, taker: Callable[[], UpdateTaker], *, poll_s: int
) -> None:
    """Until cancelled, or an update could not be taken."""
    try:
        await line.persist(calls.drop_webhook)
        while True:
            at_once = window.is_busy or not line.is_up  # an answer at once proves the line
            if await _poll_once(calls, line, window, taker, wait_s=0 if at_once else poll_s):
                await window.settle(AGAIN_MS)
    finally:
        await window.close()


async def _poll_once(
    calls: Updates, line: BotConnection, window: UpdateWindow, taker: Callable[[], UpdateTaker], *, wait_s: int
) -> bool:
    """Begin to take what is new; False when there was no answer."""
    offset = window.offset()
    try:
        updates = await calls.updates(offset, wait_s)
        _check_progress(updates)
    except BotApiError as failure:
        await line.down(failure)
        if failure.kind is BotApiErrorKind.CONFLICT:
            await line.persist(calls.drop_webhook)
        return False
    line.up("polling")
    window.confirmed(offset)
    _begin(updates, window, taker())
    return True


def _check_progress(updates: list[Any]) -> None:
    """Updates without any id cannot be acknowledged: they would come again at once, for ever."""
    if updates and all(update_id(raw) is None for raw in updates):
        raise BotApiError(BotApiErrorKind.BROKEN, "Telegram's updates have no ids")


def _begin(updates: list[Any], window: UpdateWindow, taker: UpdateTaker) -> None:
    """In the order of their ids, in whichever they came."""
    for raw in sorted(updates, key=lambda raw: update_id(raw) or 0):
        if not window.knows(update_id(raw)):
            window.put(taker.read(raw), taker.take)


async def stay_hooked(calls: Hooks, line: BotConnection, webhook: Webhook, tasks: Tasks) -> None:
    """Set the webhook, and set it again whenever somebody has changed it, until cancelled."""
    seen = ""  # set at start in any case: the secret may be a new one
    while True:
        if seen != webhook.url:
            await line.persist(lambda: calls.set_webhook(webhook.url, webhook.secret))
        line.up("webhook")
        await tasks.sleep(WEBHOOK_CHECK_MS)
        seen = await line.persist(calls.webhook_url)
