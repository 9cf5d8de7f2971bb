"""Wake-ups inside one process, and the live feed that streams are made from.

Nothing here is durable: a lost wake-up costs a poll, and a lost event is read again from the journal.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from enum import Enum

from holdfast.kernel.errors import HoldfastError, Remedy

FEED_EVENTS_MAX = 10_000


class Topic(Enum):
    MAIL = "mail"
    COMPRESS = "compress"
    DELIVERY = "delivery"
    FINISH = "finish"
    FORGET = "forget"
    REPLY = "reply"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened, with ids and counts; `text` is set on deltas and replies only."""

    name: str
    session: str = ""
    mailbox: str = ""
    turn: int = 0
    fence: int = 0  # of the claim under which it happened
    messages: tuple[str, ...] = ()
    text: str = ""
    fields: dict[str, object] = field(default_factory=dict)


class FeedOverrun(HoldfastError):
    """A subscriber read too slowly and has missed events."""

    code = "feed_overrun"
    remedy = Remedy.CORRECT
    hint = "Read the journal for what was missed, then subscribe again and read faster."


class Notifier:
    def __init__(self) -> None:
        self._wakeups: dict[Topic, asyncio.Event] = {topic: asyncio.Event() for topic in Topic}
        self._taps: list[Callable[[Event], None]] = []
        # By what they listen to, so that an event costs only those whom it concerns. Ordered, so that histories replay.
        self._feeds: dict[str, dict[Feed, None]] = {}

    def wake(self, topic: Topic) -> None:
        self._wakeups[topic].set()

    async def wait(self, topic: Topic, *, timeout_ms: float) -> bool:
        """Wait for a wake-up on the topic; False after the timeout. One that came since the last wait counts."""
        woken = self._wakeups[topic]
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await woken.wait()
        except TimeoutError:
            return False
        woken.clear()
        return True

    def tap(self, hear: Callable[[Event], None]) -> None:
        """Have `hear` called with every event, for as long as the process lives. It must be quick and raise nothing."""
        self._taps.append(hear)

    def publish(self, event: Event) -> None:
        for hear in self._taps:
            hear(event)
        for key in ("", f"mailbox {event.mailbox}", *(f"message {message}" for message in event.messages)):
            for feed in tuple(self._feeds.get(key, ())):
                feed.offer(event)

    def subscribe(self, *, mailbox: str | None = None, message: str | None = None, name: str | None = None) -> "Feed":
        """The events of one mailbox, about one message, of one name, or all. A subscriber that falls too far behind
        gets an error instead of a gap."""
        key = f"message {message}" if message else f"mailbox {mailbox}" if mailbox else ""
        feed = Feed(self, key, name)
        self._feeds.setdefault(key, {})[feed] = None
        return feed

    def leave(self, feed: "Feed") -> None:
        feeds = self._feeds.get(feed.key, {})
        feeds.pop(feed, None)
        if not feeds:
            self._feeds.pop(feed.key, None)


class Feed(AsyncIterator[Event]):
    """One subscriber's queue. It begins when it is made, not when it is first read."""

    def __init__(self, notifier: Notifier, key: str, name: str | None) -> None:
        self._notifier = notifier
        self.key = key
        self._name = name
        self._events: deque[Event] = deque()
        self._news = asyncio.Event()
        self._overrun = False
        self._closed = False

    def offer(self, event: Event) -> None:
        if self._name not in (None, event.name):
            return
        if len(self._events) >= FEED_EVENTS_MAX:
            self._overrun = True
            self._notifier.leave(self)
        else:
            self._events.append(event)
        self._news.set()

    async def __anext__(self) -> Event:
        while not self._events:
            if self._closed:
                raise StopAsyncIteration
            if self._overrun:
                raise FeedOverrun(f"more than {FEED_EVENTS_MAX} events were waiting")
            self._news.clear()
            await self._news.wait()
        return self._events.popleft()

    async def next_within(self, timeout_ms: float) -> Event | None:
        """The next event, or None when there is none in time."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self.__anext__()
        except (TimeoutError, StopAsyncIteration):
            return None

    def close(self) -> None:
        """End the feed; a task that waits on it is told."""
        self._closed = True
        self._news.set()
        self._notifier.leave(self)
