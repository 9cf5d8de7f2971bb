"""Receives updates by long polling or a webhook, and takes each: fetches its file and hands it to the intake.

Rule 1: a poll's offset confirms every update before it, so it moves past an update only when that update and all before
        it have been taken (D2). Updates that were taken but not confirmed come again and are duplicates.
Rule 2: an offset is sent until a poll with it has been answered, and then no more: after a week without updates
        Telegram starts with another id, which may be smaller.
Rule 3: no pending update is dropped at start, in either mode.
Rule 4: both modes retry slowly where two processes compete for one bot.
Rule 5: polling continues while an update is being taken. Each poll returns that update again with up to a hundred that
        follow it, so a slow file delays its own chat, and other chats only when a hundred updates wait behind it.
Rule 6: an error of the intake is raised, and the update is not acknowledged. The exception is an error that only the
        sender could correct (`Remedy.CORRECT`): retrying it would block every update behind it for ever.
Rule 7: an update that cannot be read is acknowledged, and logged by its id only.
Rule 8: a file that is too large, gone or slow is named without its bytes. Each download has a limit of time
        (bot_api.DOWNLOAD_S), and all downloads of one poll share another, so that a file delays a message only briefly.
Rule 9: delays after a failed call grow and are randomised, so that bots that lost Telegram together do not return
        together.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from holdfast.channels.receiving import cancel_all
from holdfast.channels.telegram.reading import IncomingUpdate, read_update
from holdfast.channels.telegram.wire import BotAccount, BotApiError, BotApiErrorKind
from holdfast.inbox.channel import Intake
from holdfast.inbox.chat_message import ATTACHMENT_BYTES_MAX, ChatMessage
from holdfast.kernel import log
from holdfast.kernel.errors import ChannelFailed, HoldfastError, InvariantBroken, Remedy
from holdfast.kernel.ids import Instant
from holdfast.kernel.notifier import is_set_within
from holdfast.kernel.ports import Entropy, Task, Tasks
from holdfast.kernel.retry import RetryPolicy

TEXTS_MAX = 16  # updates without a file that are taken at once
FILES_MAX = 4  # updates with a file; each may occupy 20 MB
Take: TypeAlias = Callable[[IncomingUpdate], Awaitable[None]]


@dataclass(eq=False, slots=True)
class PendingUpdate:
    update: IncomingUpdate
    before: Sequence["PendingUpdate"]  # the previous updates of its chats
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    taken: bool = False


class UpdateWindow:
    """The updates that are being taken: concurrently, and in order within a chat.

    Rule 1: an update waits for the earlier updates of the same chat. A chat that moves counts as two chats.
    Rule 2: the number of updates taken at once is limited. Updates with a file have a limit of their own, so that slow
            files delay only files.
    Rule 3: the offset stands behind the longest unbroken run of taken updates (D2).
    Rule 4: after an update fails, no later update of its chats is taken, and no update behind it is confirmed. Other
            chats continue. Everything unconfirmed is delivered again and recognised by its id.
    """

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._texts = asyncio.Semaphore(TEXTS_MAX)
        self._files = asyncio.Semaphore(FILES_MAX)
        self._known: dict[int, PendingUpdate] = {}  # by update id, until Telegram has received the confirmation
        self._last: dict[str, PendingUpdate] = {}  # of each chat
        self._running: dict[PendingUpdate, Task] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._failure: Exception | None = None

    @property
    def is_busy(self) -> bool:
        return not self._idle.is_set()

    def knows(self, number: int | None) -> bool:
        """Whether the update is being taken, or was taken and is not confirmed yet."""
        return number in self._known

    def offset(self) -> int | None:
        """The offset that confirms the taken updates before the first untaken one; None if there is none to confirm."""
        offset = None
        for number, pending in sorted(self._known.items()):
            if not pending.taken:
                break
            offset = number + 1
        return offset

    def confirmed(self, offset: int | None) -> None:
        """Forget the updates before the offset, which Telegram has received. Later ids may be smaller."""
        if offset is not None:
            self._known = {number: pending for number, pending in self._known.items() if number >= offset}

    def put(self, update: IncomingUpdate, take: Take) -> None:
        before = [self._last[chat] for chat in update.chats if chat in self._last]
        pending = PendingUpdate(update, before)
        self._last.update(dict.fromkeys(update.chats, pending))
        if update.id is not None:
            self._known[update.id] = pending
        self._idle.clear()
        self._running[pending] = self._tasks.start(self._run(pending, take), name=f"telegram {update.id}")

    async def settle(self, within_ms: int) -> None:
        """Wait until all updates are taken, up to `within_ms`. Raises the first failure once the others ended."""
        await is_set_within(self._idle, within_ms)
        if self._failure is not None:
            await self._idle.wait()
            raise self._failure

    async def close(self) -> None:
        """Cancel the running updates and wait for them, within a bounded time. They are not confirmed."""
        await cancel_all(self._running.values(), self._tasks)

    async def _run(self, pending: PendingUpdate, take: Take) -> None:
        try:
            if await self._is_next(pending):
                async with self._files if pending.update.file_id else self._texts:
                    await take(pending.update)
                pending.taken = True
        except Exception as error:  # noqa: BLE001 - raised where the window is settled
            self._failure = self._failure or error
        finally:
            self._end(pending)

    async def _is_next(self, pending: PendingUpdate) -> bool:
        for earlier in pending.before:
            await earlier.ended.wait()
        gone, pending.before = pending.before, ()
        return all(earlier.taken for earlier in gone)

    def _end(self, pending: PendingUpdate) -> None:
        if pending.taken:
            for chat in pending.update.chats:
                if self._last.get(chat) is pending:
                    del self._last[chat]
        elif self._failure is None:
            self._failure = InvariantBroken("taking an update was cancelled by itself")
        pending.ended.set()
        del self._running[pending]
        if not self._running:
            self._idle.set()


if TYPE_CHECKING:
    from holdfast.channels.telegram.bot_api import BotApi

RETRY = RetryPolicy(delay_ms_base=800, delay_ms_max=48_000)  # with jitter at most one minute
# The other process is a configuration error, which only its operator can end.
CONFLICT = RetryPolicy(delay_ms_base=24_000, delay_ms_max=24_000)
WEBHOOK_CHECK_MS = 60_000
AGAIN_MS = 1_000  # between polls while updates are being taken: with unconfirmed updates, Telegram answers at once
BATCH_DOWNLOADS_MS = 30_000
T = TypeVar("T")


class BotConnection:
    def __init__(self, intake: Intake, tasks: Tasks, entropy: Entropy, *, token_from: str) -> None:
        self._intake = intake
        self._tasks = tasks
        self._entropy = entropy
        self._token_from = token_from
        self.bot_name = ""  # once `getMe` has answered
        self.is_up = False
        self._failures = 0

    def up(self, detail: str) -> None:
        self._failures = 0
        if not self.is_up:
            self.is_up = True
            self._intake.connected(f"@{self.bot_name}, {detail}" if self.bot_name else detail)

    async def persist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat the call until it succeeds. Raises `ChannelFailed` for an error that no retry can mend."""
        while True:
            try:
                return await call()
            except BotApiError as failure:
                await self.down(failure)

    async def down(self, failure: BotApiError) -> None:
        """Report the failure and wait before the next attempt. Raises `ChannelFailed` if waiting does not help."""
        if failure.kind is BotApiErrorKind.STRANGER:
            advice = f"{rejected_token(self._token_from)}, or ask @BotFather for a new one"
            raise ChannelFailed(advice, vendor=failure.vendor)
        if failure.kind in (BotApiErrorKind.REFUSED, BotApiErrorKind.MOVED):
            raise ChannelFailed(failure.reason, vendor=failure.vendor)
        self._failures += 1
        self.is_up = False
        self._intake.disconnected(_sentence(failure), vendor=failure.vendor)
        await self._tasks.sleep(self._delay_ms(failure))

    def _delay_ms(self, failure: BotApiError) -> float:
        if failure.kind is BotApiErrorKind.BUSY:
            return failure.retry_after_ms
        policy = CONFLICT if failure.kind is BotApiErrorKind.CONFLICT else RETRY
        return policy.delay_ms(self._failures, self._entropy.fraction())


def rejected_token(token_from: str) -> str:
    return f"Telegram does not accept the bot's token; check the value of {token_from}"


def _sentence(failure: BotApiError) -> str:
    if failure.kind is not BotApiErrorKind.CONFLICT:
        return failure.reason
    if "webhook" in failure.description.lower():
        return "a webhook is set for this bot; it is removed so that polling can continue"
    return "another process polls with this bot's token; stop one of them, or give each its own bot"


class UpdateTaker:
    """Takes the updates of one poll concurrently. Each poll has its own, because its updates share download time."""

    def __init__(self, api: "BotApi", me: BotAccount, intake: Intake, now: Callable[[], Instant]) -> None:
        self._api = api
        self._me = me
        self._intake = intake
        self._now = now
        self._until = now() + BATCH_DOWNLOADS_MS

    def read(self, raw: object) -> IncomingUpdate:
        return read_update(raw, self._me)

    async def take(self, update: IncomingUpdate) -> None:
        try:
            await self._take(update)
        except HoldfastError as error:
            if error.remedy is not Remedy.CORRECT:
                raise
            log.warning("channel.skipped", update=update.id, reason=error.code)

    async def _take(self, update: IncomingUpdate) -> None:
        if update.moved is not None:
            await self._intake.moved(*update.moved, new_type="group")
        elif update.message is not None:
            await self._intake.receive(await self._with_file(update.message, update.file_id))
        else:
            (log.warning if update.is_malformed else log.info)(
                "channel.skipped", update=update.id, reason=update.skipped
            )

    async def _with_file(self, message: ChatMessage, file_id: str) -> ChatMessage:
        if not file_id or message.attachments[0].size > ATTACHMENT_BYTES_MAX or self._now() >= self._until:
            return message
        try:
            body = await self._api.download(file_id, ATTACHMENT_BYTES_MAX)
        except BotApiError as failure:
            log.warning("attachment.missed", reason=failure.kind.value)
            return message
        if body is None:
            return message
        return replace(message, attachments=(replace(message.attachments[0], size=len(body), body=body),))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    url: str
    secret: str = field(repr=False)


async def keep_webhook(api: "BotApi", connection: BotConnection, webhook: Webhook, tasks: Tasks) -> None:
    """Set the webhook, and set it again whenever it was changed, until cancelled."""
    seen = ""  # always set at start, because the secret may have changed
    while True:
        if seen != webhook.url:
            await connection.persist(lambda: api.set_webhook(webhook.url, webhook.secret))
        connection.up("webhook")
        await tasks.sleep(WEBHOOK_CHECK_MS)
        seen = await connection.persist(api.webhook_url)
