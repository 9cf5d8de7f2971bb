"""The two ways to receive updates: long polling and a webhook.

Rule 1: a poll's offset confirms every update before it, so it moves past an update only when that update and all before
        it have been taken (D2). Updates that were taken but not confirmed come again and are duplicates.
Rule 2: an offset is sent until a poll with it has been answered, and then no more: after a week without updates
        Telegram starts with another id, which may be smaller.
Rule 3: no pending update is dropped at start, in either mode.
Rule 4: both modes retry slowly where two processes compete for one bot.
Rule 5: polling continues while an update is being taken. Each poll returns that update again with up to a hundred that
        follow it, so a slow file delays its own chat, and other chats only when a hundred updates wait behind it.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.channels.telegram.bot_api_error import BotApiError, BotApiErrorKind
from holdfast.channels.telegram.connection import BotConnection
from holdfast.channels.telegram.reading import IncomingUpdate
from holdfast.channels.telegram.settings import Webhook
from holdfast.channels.telegram.update_taker import UpdateTaker
from holdfast.channels.telegram.update_window import UpdateWindow
from holdfast.kernel.tasks import Tasks

if TYPE_CHECKING:
    from holdfast.channels.telegram.bot_api import BotApi

WEBHOOK_CHECK_MS = 60_000
AGAIN_MS = 1_000  # between polls while updates are being taken: with unconfirmed updates, Telegram answers at once
MakeTaker = Callable[[], UpdateTaker]


async def poll(
    api: "BotApi", connection: BotConnection, window: UpdateWindow, make_taker: MakeTaker, *, poll_s: int
) -> None:
    """Poll until cancelled or until an update cannot be taken."""
    try:
        await connection.persist(api.drop_webhook)
        while True:
            at_once = window.is_busy or not connection.is_up  # an immediate answer proves the connection
            if await _poll_once(api, connection, window, make_taker, wait_s=0 if at_once else poll_s):
                await window.settle(AGAIN_MS)
    finally:
        await window.close()


async def _poll_once(
    api: "BotApi", connection: BotConnection, window: UpdateWindow, make_taker: MakeTaker, *, wait_s: int
) -> bool:
    """Start to take the new updates, in the order of their ids. False if the poll failed."""
    offset = window.offset()
    try:
        answer = await api.updates(offset, wait_s)
        taker = make_taker()  # after the wait: its time for downloads begins now
        updates = [taker.read(raw) for raw in answer]
        _check_ids(updates)
    except BotApiError as failure:
        await connection.down(failure)
        if failure.kind is BotApiErrorKind.CONFLICT:
            await connection.persist(api.drop_webhook)
        return False
    connection.up("polling")
    window.confirmed(offset)
    for update in sorted(updates, key=lambda update: update.id or 0):
        if not window.knows(update.id):
            window.put(update, taker.take)
    return True


def _check_ids(updates: Sequence[IncomingUpdate]) -> None:
    """Updates without ids cannot be acknowledged: they would come again at once, for ever."""
    if updates and all(update.id is None for update in updates):
        raise BotApiError(BotApiErrorKind.BROKEN, "Telegram's updates have no ids")


async def keep_webhook(api: "BotApi", connection: BotConnection, webhook: Webhook, tasks: Tasks) -> None:
    """Set the webhook, and set it again whenever it was changed, until cancelled."""
    seen = ""  # always set at start, because the secret may have changed
    while True:
        if seen != webhook.url:
            await connection.persist(lambda: api.set_webhook(webhook.url, webhook.secret))
        connection.up("webhook")
        await tasks.sleep(WEBHOOK_CHECK_MS)
        seen = await connection.persist(api.webhook_url)
