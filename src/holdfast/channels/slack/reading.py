"""Reads Slack's events into durable mailboxes.

Rule 1: an event is acknowledged after `Intake.receive` has returned, never before.
Rule 2: a message that cannot be stored stays at the head of its conversation and is retried without limit. Storing a
        later message first would move the read position past it, and a crash would lose it.
Rule 3: after every connection, each known conversation is read back from shortly before its position, and new events
        wait behind that. An unknown conversation is read from the account's watermark (channels/receiving.py) on, once
        it is listed (history.py) or an event arrives there. At the first start ever, it begins with the first
        event.
Rule 4: few unknown conversations are read back at once. One that cannot be read now keeps its place until it can.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TypeAlias

from holdfast.channels.receiving import AccountWatermark, receive
from holdfast.channels.slack.chat_queue import ChatQueues, Job
from holdfast.channels.slack.connection import SocketModeConnection
from holdfast.channels.slack.files import SlackFiles
from holdfast.channels.slack.history import TYPES, Positions, earlier_of, listed, missed
from holdfast.channels.slack.message import (
    MENTIONS_MAX,
    Json,
    SlackIdentity,
    mapping,
    mappings,
    mentioned,
    read_event,
    read_message,
    readable,
    string,
    user_of,
    without_mention,
)
from holdfast.channels.slack.users import SlackUsers
from holdfast.channels.slack.web import SlackFailure, SlackWebApi
from holdfast.inbox.channel import ChannelSetup, Intake
from holdfast.inbox.chat_message import ChatMessage, MessageChange
from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.ports import Task
from holdfast.kernel.retry import RetryPolicy

RETRY = RetryPolicy(delay_ms_base=250, delay_ms_max=30_000)
WAITING_MAX = 1_000
READS_MAX = 4  # unknown conversations that are read back at once
TAKEN_MAX = 10_000
DELIVER_S = 2.5  # Slack waits three seconds before it calls again
PRIVATE = "D"  # the prefix of a private chat's id
FAULT = "a message could not be handled; this is a bug in Holdfast"

NO_POSITIONS = "the read positions could not be loaded"

Known: TypeAlias = Mapping[str, Positions]  # by chat


class SlackReader:
    """The events of one run of the channel. It outlives connections, so that stored events need not wait for Slack."""

    def __init__(
        self, setup: ChannelSetup, web: SlackWebApi, users: SlackUsers, me: SlackIdentity, intake: Intake
    ) -> None:
        self._setup = setup
        self._web = web
        self._users = users
        self._files = SlackFiles(web)
        self._me = me
        self._intake = intake
        self._queues = ChatQueues(setup.tasks, self._on_broken, waiting_max=WAITING_MAX)
        self._connection: SocketModeConnection | None = None
        self._watermark = AccountWatermark(me.account, intake, clock=setup.clock, tasks=setup.tasks)
        self._listing: Task | None = None
        self._is_caught_up = False  # every conversation that Slack lists was read back since the last connection
        self._is_complete = False  # Slack listed all types of conversations
        self._private_since: int | None = None  # where to begin in a private chat that Slack does not list
        self._asked: set[str] = set()  # chats that were read back, or are queued for it
        self._behind: set[str] = set()  # chats whose reading back is queued and has not begun
        self._unread = 0  # readings back that have not ended
        self._all_read = asyncio.Event()
        self._taken: OrderedDict[tuple[str, str], None] = OrderedDict()  # a cache that saves duplicate work

    @property
    def is_broken(self) -> bool:
        return self._queues.is_broken

    def _on_broken(self) -> None:
        if self._connection is not None:
            self._connection.end(FAULT)

    async def attend(self, connection: SocketModeConnection) -> None:
        """Catch up, then take events until the connection ends. Raises what `Intake.read_up_to` raises."""
        self._connection = connection
        await self.catch_up()
        keeping = self._setup.tasks.start(self._watermark.keep(self._has_read_all), name="slack watermark")
        try:
            while (envelope := await connection.next()) is not None:
                await self._envelope(connection, envelope)
        finally:
            keeping.cancel()

    def _has_read_all(self) -> bool:
        return self._is_caught_up and self._queues.is_idle

    async def catch_up(self, earlier: Known | None = None) -> Known:
        """Read back from the stored positions, and return them. Raises what `Intake.read_up_to` raises.

        With `earlier` positions, read back from those: a stored position may have moved past a missed message.
        Conversations without a position are read from the account's watermark on.
        """
        began = self._setup.clock.now()
        was_complete = self._is_caught_up and self._is_complete
        self._stop_listing()
        known: dict[str, dict[str | None, int]] = {}
        for conversation, (position, _) in (await self._watermark.resume()).items():
            chat, _, thread = conversation.partition("/")
            known.setdefault(chat, {})[thread or None] = position
        if was_complete or self._private_since is None:
            self._private_since = self._since()  # otherwise the watermark has moved past chats that were not listed
        self._asked = set()
        for chat, positions in known.items():
            since = self._since()
            oldest = positions if earlier is None else earlier_of(positions, earlier.get(chat, {}), since)
            await self._read_back(chat, oldest, since=None if None in positions else since)
        self._listing = self._setup.tasks.start(self._read_unknown(began), name="slack conversations")
        return known

    def _since(self) -> int | None:
        since_ms = self._watermark.since_ms
        return None if since_ms is None else since_ms * 1000 - 1

    def _stop_listing(self) -> None:
        self._is_caught_up = self._is_complete = False
        if self._listing is not None:
            self._listing.cancel()

    async def _read_unknown(self, began: int) -> None:
        """Read back the conversations without a position; then all messages up to `began` have been read."""
        if self._since() is not None:
            self._is_complete = await self._read_listed()
        while self._unread:
            self._all_read.clear()
            await self._all_read.wait()
        self._is_caught_up = True
        await self._watermark.advance(began)

    async def _read_listed(self) -> bool:
        """Read back the conversations that Slack lists. False if a type was not listed."""
        slots = asyncio.Semaphore(READS_MAX)
        is_complete = True
        for kind in TYPES:
            found = await self._persist(partial(listed, self._web, kind), types=kind)
            is_complete = is_complete and found is not None
            for chat in filter(None, (string(one, "id") for one in found or [])):
                await slots.acquire()
                if chat in self._asked:
                    slots.release()
                else:
                    await self._read_back(chat, {}, since=self._since(), done=slots.release)
        return is_complete

    async def deliver(self, event: Json) -> bool:
        """Whether the event became durable in time, or need not be kept. A late one stays queued and is retried."""
        message = read_event(event, self._me)
        if message is None:
            return True
        settled = asyncio.Event()
        is_durable = False

        async def take() -> None:
            nonlocal is_durable
            await self._take(message, event, settled.set)
            is_durable = True
            settled.set()

        try:
            async with asyncio.timeout(DELIVER_S):
                await self._put(message.chat, take)
                await settled.wait()
        except TimeoutError:
            log.warning("update.postponed", reason="not durable in time")
        return is_durable

    async def _envelope(self, connection: SocketModeConnection, envelope: Json) -> None:
        event = mapping(mapping(envelope, "payload"), "event") if envelope.get("type") == "events_api" else {}
        message = read_event(event, self._me)
        if message is None:
            await connection.acknowledge(envelope)
            return

        async def take() -> None:
            await self._take(message, event)
            await connection.acknowledge(envelope)

        await self._put(message.chat, take)

    async def _put(self, chat: str, job: Job) -> None:
        """Queue a new event behind the missed ones. Taken first, it would move the position past them."""
        # A channel may have just invited the bot, so only private chats are read from before the watermark.
        since = self._private_since if chat.startswith(PRIVATE) else self._since()
        if since is not None and chat not in self._asked and not (self._is_caught_up and self._is_complete):
            await self._read_back(chat, {}, since=since)
        await self._queues.put(chat, job)

    async def _read_back(
        self, chat: str, positions: Positions, *, since: int | None, done: Callable[[], None] = lambda: None
    ) -> None:
        await self._queues.space()  # first, so that a cancelled wait leaves nothing recorded
        self._asked.add(chat)
        if chat in self._behind:
            done()
            return
        self._behind.add(chat)
        self._unread += 1

        async def catch_up() -> None:
            self._behind.discard(chat)
            found = await self._persist(lambda: missed(self._web, chat, positions, since), chat=chat)
            for raw in found or []:
                message = read_message(raw, chat, self._me)
                if message is not None:
                    await self._take(message, raw)
            self._unread -= 1
            self._all_read.set()
            done()

        self._queues.put_now(chat, catch_up)

    async def _persist(
        self, ask: Callable[[], Awaitable[list[Json] | SlackFailure]], **where: str
    ) -> list[Json] | None:
        """Repeat the call until it is answered; None if the answer is a permanent refusal."""
        attempt = 0
        while True:
            found = await ask()
            if not isinstance(found, SlackFailure):
                return found
            if not found.is_temporary:
                log.warning("channel.skipped", account=self._me.account, why=found.code, **where, **found.vendor.fields)
                return None
            attempt += 1
            await self._pause(found.code, attempt, found.retry_after_ms, **where, **found.vendor.fields)

    async def _take(self, message: ChatMessage, raw: Json, postponed: Callable[[], None] = lambda: None) -> None:
        """Hand the message to the intake until it is durable or refused. `postponed` is called at the first retry."""
        key = (message.chat, message.event_id)
        if key in self._taken:
            return
        files = mappings(raw, "files") if message.change is MessageChange.NEW else ()
        async with self._files.gate if files else nullcontext():
            completed = await self._completed(message, files)
            for attempt in count(1):
                try:
                    await receive(self._intake, completed)
                    break
                except HoldfastError as error:
                    postponed()
                    await self._pause(error.code, attempt, chat=message.chat)
        self._taken[key] = None
        if len(self._taken) > TAKEN_MAX:
            self._taken.popitem(last=False)

    async def _completed(self, message: ChatMessage, files: tuple[Json, ...]) -> ChatMessage:
        """The message with readable text, the sender's name and the files."""
        users = [user for user in mentioned(message.text)[:MENTIONS_MAX] if user != self._me.user]
        names = {user: await self._users.name(user) for user in users}
        text = without_mention(message.text, self._me.user)
        return replace(
            message,
            sender_name=message.sender_name or await self._users.name(user_of(message)),
            text=readable(text, {**names, self._me.user: self._me.name}),
            attachments=await self._files.fetch(files),
        )

    async def _pause(self, why: str, attempt: int, least_ms: int = 0, **where: object) -> None:
        log.warning("channel.behind", account=self._me.account, failures=attempt, why=why, **where)
        await self._setup.tasks.sleep(max(least_ms, RETRY.delay_ms(attempt, self._setup.entropy.fraction())))

    async def close(self) -> None:
        self._stop_listing()
        await self._queues.close()
