"""The two ways to receive: asking for updates, or being called.

Rule 1: the offset of a poll confirms every update before it, so it moves past an update only when that has been taken
        (D2). What was taken and not confirmed comes again, and is a duplicate.
Rule 2: an offset is sent until a poll with it has been answered, and then no more: after a quiet week Telegram begins
        with another id, which may be smaller.
Rule 3: no update is ever dropped at start, in either way.
Rule 4: both ways are slow on purpose where two processes fight over one bot.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from holdfast.channels.telegram.failure import CallFailed, Kind
from holdfast.channels.telegram.line import Line
from holdfast.channels.telegram.settings import Webhook
from holdfast.channels.telegram.taking import Taker, update_id
from holdfast.ports.tasks import Tasks

WEBHOOK_CHECK_MS = 60_000


class Updates(Protocol):
    async def updates(self, offset: int | None, wait_s: int) -> list[Any]: ...

    async def drop_webhook(self) -> None: ...


class Hooks(Protocol):
    async def set_webhook(self, url: str, secret: str) -> None: ...

    async def webhook_url(self) -> str: ...


async def poll(calls: Updates, line: Line, taker: Callable[[], Taker], *, poll_s: int) -> None:
    """Until cancelled, or an update could not be taken."""
    offset: int | None = None
    await line.persist(calls.drop_webhook)
    while True:
        try:
            updates = await calls.updates(offset, poll_s if line.is_up else 0)  # an answer at once proves the line
            _check_progress(updates)
        except CallFailed as failure:
            await line.down(failure)
            if failure.kind is Kind.CONFLICT:
                await line.persist(calls.drop_webhook)
            continue
        line.up("polling")
        offset = await _take_all(updates, taker().take)


def _check_progress(updates: list[Any]) -> None:
    """Updates without any id cannot be acknowledged: they would come again at once, for ever."""
    if updates and all(update_id(raw) is None for raw in updates):
        raise CallFailed(Kind.BROKEN, "Telegram's updates have no ids")


async def _take_all(updates: list[Any], take: Callable[[object], Awaitable[None]]) -> int | None:
    """The offset behind the last one. In the order of their ids, in whichever they came."""
    for raw in sorted(updates, key=lambda raw: update_id(raw) or 0):
        await take(raw)
    return max((known + 1 for known in map(update_id, updates) if known is not None), default=None)


async def stay_hooked(calls: Hooks, line: Line, webhook: Webhook, tasks: Tasks) -> None:
    """Set the webhook, and set it again whenever somebody has changed it, until cancelled."""
    seen = ""  # set at start in any case: the secret may be a new one
    while True:
        if seen != webhook.url:
            await line.persist(lambda: calls.set_webhook(webhook.url, webhook.secret))
        line.up("webhook")
        await tasks.sleep(WEBHOOK_CHECK_MS)
        seen = await line.persist(calls.webhook_url)
