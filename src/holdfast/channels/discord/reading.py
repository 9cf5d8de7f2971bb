"""Reads Discord's messages in order and without gaps. Discord has no acknowledgements and redelivers nothing.

Rule 1: each channel is a stream of its own, read one event at a time. A stream's position is its newest message such
        that the intake has taken it and all before it. (Discord keeps the order within a channel. A message that
        arrives late nevertheless is taken late.)
Rule 2: a stream that may have missed messages is behind: after every new or resumed connection, when its guild is shown
        with newer messages, after the intake raised, and after its queue overflowed. A stream that is behind first
        fetches the messages after its position, oldest first, and only then takes the queued events. A message taken
        twice is a harmless duplicate.
Rule 3: positions come from the intake, so a restart resumes where the store was. A stream without a stored position
        begins at the account's watermark (channels/receiving.py), even if no event arrives there; at the first start
        ever, with the first message that arrives.
Rule 4: Discord does not report edits and deletions made during an outage. They are lost, but a fetched message has the
        text of its latest edit.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field

import aiohttp
import discord

from holdfast.channels.discord.mapping import GuildChannel, channel_id_of, snowflake_at
from holdfast.channels.discord.send_tracker import answer_of
from holdfast.channels.receiving import AccountWatermark, receive
from holdfast.inbox.channel import ChannelSetup, Intake
from holdfast.inbox.chat_message import ChatMessage, MessageChange
from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.ports import Task
from holdfast.kernel.retry import RetryPolicy

QUEUE_MAX = 256  # queued events of one channel; further messages are fetched later
STREAMS_MAX = 10_000
FETCHES_MAX = 4  # channels that are fetched from at once
AT_ONCE_MAX = 2  # messages with files in memory; each may take 200 MB
CLOSE_S = 3.0
RETRY = RetryPolicy(delay_ms_base=500, delay_ms_max=60_000)
EXPECTED = (HoldfastError, discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordEvent:
    change: MessageChange
    channel_id: int
    message_id: int
    message: discord.Message | None = None  # None for a deletion

    @property
    def has_files(self) -> bool:
        return self.change is MessageChange.NEW and self.message is not None and bool(self.message.attachments)


@dataclass(slots=True, eq=False)
class Stream:
    channel_id: int
    position: int | None = None
    queue: deque[DiscordEvent] = field(default_factory=deque)
    asked: int = 1  # requests to catch up, and the latest one that was fulfilled
    done: int = 0
    failures: int = 0
    task: Task | None = None

    @property
    def is_behind(self) -> bool:
        return self.done != self.asked

    @property
    def has_work(self) -> bool:
        return self.is_behind or bool(self.queue)


class DiscordReader:
    """The streams of one account, during one run of its channel."""

    def __init__(
        self,
        setup: ChannelSetup,
        account: str,
        intake: Intake,
        translate: Callable[[DiscordEvent], Awaitable[ChatMessage | None]],
        history: Callable[[int, int], AsyncIterator[discord.Message]],
        *,
        has_checked_all: Callable[[], bool],
    ) -> None:
        self._account = account
        self._intake = intake
        self._translate = translate
        self._history = history
        self._has_checked_all = has_checked_all
        self._watermark = AccountWatermark(account, intake, clock=setup.clock, tasks=setup.tasks)
        self._tasks = setup.tasks
        self._entropy = setup.entropy
        self._streams: dict[int, Stream] = {}
        self._known: dict[int, int] = {}
        self._loaded = asyncio.Event()
        self._connection = 0
        self._is_up = False
        self._checking = 0  # guilds whose channels wait for the positions
        self._helpers: list[Task] = []
        self._fetches = asyncio.Semaphore(FETCHES_MAX)
        self._files = asyncio.Semaphore(AT_ONCE_MAX)
        self._running = 0
        self._idle = asyncio.Event()

    def connected(self) -> None:
        """Mark all streams as behind. Called before any event of the new connection is offered."""
        self._connection += 1
        self._is_up = True
        self._loaded.clear()
        for stream in self._streams.values():
            self._ask(stream)
        if not self._helpers:
            self._help(lambda: self._watermark.keep(self._has_read_all), "discord watermark")
        connection = self._connection
        self._help(lambda: self._load(connection), "discord positions")

    def disconnected(self) -> None:
        self._is_up = False

    def check(self, channels: Iterable[GuildChannel]) -> None:
        """Have the channels with newer messages catch up; one without a position, from the watermark on."""
        self._checking += 1
        connection = self._connection
        self._help(lambda: self._check(connection, channels), "discord guild")

    def offer(self, event: DiscordEvent) -> None:
        stream = self._stream(event.channel_id)
        if len(stream.queue) < QUEUE_MAX:
            stream.queue.append(event)
            self._wake(stream)
        elif event.change is MessageChange.NEW:
            self._ask(stream)
        else:
            log.warning("channel.skipped", account=self._account, event_id=event.message_id, why="too many events wait")

    async def close(self) -> None:
        """Cancel all tasks within `CLOSE_S`. Messages that were not taken are fetched in the next run."""
        for task in (*self._helpers, *(stream.task for stream in self._streams.values())):
            if task is not None:
                task.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                while self._running:
                    self._idle.clear()
                    await self._idle.wait()

    # --- streams

    def _stream(self, channel_id: int) -> Stream:
        stream = self._streams.get(channel_id)
        if stream is None:
            if len(self._streams) >= STREAMS_MAX:
                self._streams = {key: kept for key, kept in self._streams.items() if kept.has_work}
            stream = self._streams[channel_id] = Stream(channel_id)
        return stream

    def _ask(self, stream: Stream) -> None:
        stream.asked += 1
        self._wake(stream)

    def _wake(self, stream: Stream) -> None:
        if stream.task is None:
            stream.task = self._start(lambda: self._work(stream), f"discord channel {stream.channel_id}")

    def _help(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        self._helpers = [task for task in self._helpers if not task.done()]
        self._helpers.append(self._start(work, name))

    def _start(self, work: Callable[[], Awaitable[None]], name: str) -> Task:
        async def counted() -> None:
            self._running += 1  # counted here, because a task cancelled before it begins never ends
            try:
                await work()
            finally:
                self._running -= 1
                self._idle.set()

        return self._tasks.start(counted(), name=name)

    async def _load(self, connection: int) -> None:
        """Load the positions. Streams that have one catch up, even if no event arrives there."""
        failures = 0
        while connection == self._connection:
            try:
                positions = await self._watermark.resume()
            except Exception as error:  # noqa: BLE001 (every stream waits for this task)
                failures += 1
                await self._pause(error, failures)
                continue
            if connection == self._connection:
                pairs = [(channel_id_of(name), position) for name, (position, _) in positions.items()]
                self._known = {channel_id: position for channel_id, position in pairs if channel_id is not None}
                self._loaded.set()
                for channel_id in self._known:
                    self._wake(self._stream(channel_id))
            return

    async def _check(self, connection: int, channels: Iterable[GuildChannel]) -> None:
        try:
            await self._loaded.wait()
            if connection != self._connection:
                return  # the newer connection checks for itself
            for channel in channels:
                position = self._position(channel.channel_id)
                if position is not None and channel.newest > position and channel.is_readable():
                    self._ask(self._stream(channel.channel_id))
        finally:
            self._checking -= 1

    def _position(self, channel_id: int) -> int | None:
        """None if nothing was missed, or if the stream has yet to load its position."""
        stream = self._streams.get(channel_id)
        return self._known.get(channel_id, self._since()) if stream is None else stream.position

    def _since(self) -> int | None:
        since_ms = self._watermark.since_ms
        return None if since_ms is None else snowflake_at(since_ms) - 1

    def _has_read_all(self) -> bool:
        """Whether no event, fetch or check is pending. Evaluated without awaiting, so that the answer is consistent."""
        is_known = self._is_up and self._loaded.is_set() and not self._checking and self._has_checked_all()
        return is_known and not any(stream.has_work for stream in self._streams.values())

    # --- one stream

    async def _work(self, stream: Stream) -> None:
        try:
            while stream.has_work:
                await self._step(stream)
        finally:
            stream.task = None

    async def _step(self, stream: Stream) -> None:
        asked = stream.asked
        try:
            if stream.is_behind:
                await self._catch_up(stream)
            while stream.queue and not stream.is_behind:
                await self._take(stream, stream.queue[0])
                stream.queue.popleft()
            stream.failures = 0
        except (discord.Forbidden, discord.NotFound) as error:
            stream.queue.clear()  # the channel is gone or closed to this bot
            stream.done = asked  # a later request may know that it is open again
            self._skip(stream, error)
        except Exception as error:  # noqa: BLE001 (the top of every stream)
            stream.asked += 1
            stream.failures += 1
            await self._pause(error, stream.failures, stream.channel_id)

    def _skip(self, stream: Stream, error: discord.HTTPException) -> None:
        known = {"account": self._account, "chat": stream.channel_id, "why": f"{error.status}"}
        log.warning("channel.skipped", **{**answer_of(error).fields, **known})

    async def _pause(self, error: Exception, failures: int, channel_id: int | None = None) -> None:
        why = error.code if isinstance(error, HoldfastError) else type(error).__name__
        fault = None if isinstance(error, EXPECTED) else error
        known = {"account": self._account, "chat": channel_id, "failures": failures, "why": why}
        log.error("channel.behind", failure=fault, **{**answer_of(error).fields, **known})
        least_ms = error.retry_after * 1000 if isinstance(error, discord.RateLimited) else 0
        await self._tasks.sleep(max(least_ms, RETRY.delay_ms(failures, self._entropy.fraction())))

    async def _catch_up(self, stream: Stream) -> None:
        asked = stream.asked
        if stream.position is None:
            await self._loaded.wait()
            stream.position = self._known.get(stream.channel_id, self._since())
        if stream.position is None:
            self._begin(stream, asked)
            return
        async with self._fetches:
            await self._fetch(stream, stream.position)
        stream.done = asked

    async def _fetch(self, stream: Stream, after: int) -> None:
        try:
            async for message in self._history(stream.channel_id, after):
                missed = DiscordEvent(
                    change=MessageChange.NEW, channel_id=stream.channel_id, message_id=message.id, message=message
                )
                await self._take(stream, missed)
        except (discord.Forbidden, discord.NotFound) as error:
            if not stream.queue:
                raise
            # The bot may receive events without reading the history: the queued events are taken.
            self._skip(stream, error)

    def _begin(self, stream: Stream, asked: int) -> None:
        """Begin at the first queued message. If catching up was requested again, messages after it may be missing."""
        first = next((event.message_id for event in stream.queue if event.change is MessageChange.NEW), None)
        if first is None:
            stream.done = asked
        else:
            stream.position, stream.done = first - 1, 1

    async def _take(self, stream: Stream, event: DiscordEvent) -> None:
        async with self._files if event.has_files else nullcontext():
            message = await self._translate(event)
            if message is not None:
                await receive(self._intake, message)
        if event.change is MessageChange.NEW:
            stream.position = max(stream.position or 0, event.message_id)
