"""Wake-ups and live events within one process.

Nothing here is durable: a lost wake-up delays work until the next poll, and a lost event is reread from the journal.
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
    """An event, with ids and counts; only deltas and replies have a `text`."""

    name: str
    session: str = ""
    mailbox: str = ""
    turn: int = 0
    fence: int = 0  # of the claim that produced it
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
        # Indexed by key, so that an event costs only its own subscribers. Ordered, so that simulations replay.
        self._feeds: dict[str, dict[Feed | Listener, None]] = {}

    def wake(self, topic: Topic) -> None:
        self._wakeups[topic].set()

    async def wait(self, topic: Topic, *, timeout_ms: float) -> bool:
        """Wait for a wake-up on the topic; False after the timeout. A wake-up since the last wait counts."""
        woken = self._wakeups[topic]
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await woken.wait()
        except TimeoutError:
            return False
        woken.clear()
        return True

    def tap(self, hear: Callable[[Event], None]) -> None:
        """Call `hear` with every event until the process ends. It must return quickly and must not raise."""
        self._taps.append(hear)

    def publish(self, event: Event) -> None:
        for hear in self._taps:
            hear(event)
        for key in ("", f"mailbox {event.mailbox}", *(f"message {message}" for message in event.messages)):
            for feed in tuple(self._feeds.get(key, ())):
                feed.offer(event)

    def subscribe(self, *, mailbox: str | None = None, message: str | None = None, name: str | None = None) -> "Feed":
        """Subscribe to the events of one mailbox, one message or one name, or to all.

        A subscriber that falls too far behind gets `FeedOverrun` instead of a gap.
        """
        key = f"message {message}" if message else f"mailbox {mailbox}" if mailbox else ""
        feed = Feed(self, key, name)
        self._feeds.setdefault(key, {})[feed] = None
        return feed

    def listen(self, mailbox: str, hear: Callable[[Event], None]) -> Callable[[], None]:
        """Call `hear` with every event of one mailbox until the returned function is called. It must not raise."""
        listener = Listener(f"mailbox {mailbox}", hear)
        self._feeds.setdefault(listener.key, {})[listener] = None
        return lambda: self.leave(listener)

    def leave(self, feed: "Feed | Listener") -> None:
        feeds = self._feeds.get(feed.key, {})
        feeds.pop(feed, None)
        if not feeds:
            self._feeds.pop(feed.key, None)


class Listener:
    """A subscriber that is called instead of having a queue."""

    def __init__(self, key: str, offer: Callable[[Event], None]) -> None:
        self.key = key
        self.offer = offer


class Feed(AsyncIterator[Event]):
    """One subscriber's queue. It collects events from its creation, not from the first read."""

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
        """The next event, or None after the timeout."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self.__anext__()
        except (TimeoutError, StopAsyncIteration):
            return None

    def close(self) -> None:
        """End the feed and wake the task that waits on it."""
        self._closed = True
        self._news.set()
        self._notifier.leave(self)
