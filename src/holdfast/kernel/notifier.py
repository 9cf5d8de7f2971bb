"""Wake-ups and live events within one process.

Nothing here is durable: a lost wake-up delays work until the next poll, and a lost event is reread from the journal.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from holdfast.kernel.errors import HoldfastError, Remedy

FEED_EVENTS_MAX = 10_000
DELTA = "turn.delta"  # a piece of a reply; a turn may have thousands
KEYS_MAX = 10_000  # more keys than this count as anything
TIMERS_MAX = 10_000  # announcements of later work


class Topic(Enum):
    MAIL = "mail"
    COMPRESS = "compress"
    DELIVERY = "delivery"
    FINISH = "finish"
    FORGET = "forget"
    NOTES = "notes"
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


@dataclass(frozen=True, slots=True)
class Woken:
    """What may have become due since the last look: work of the keys, or anything."""

    anything: bool
    keys: tuple[Hashable, ...]


class FeedOverrun(HoldfastError, remedy=Remedy.CORRECT):
    """A subscriber read too slowly and has missed events."""

    hint = "Read the journal for what was missed, then subscribe again and read faster."


async def is_set_within(event: asyncio.Event, wait_ms: float | None) -> bool:
    """Wait for an event; False if it is not set within the time."""
    try:
        async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
            await event.wait()
    except TimeoutError:
        return False
    return True


class Notifier:
    def __init__(self) -> None:
        self._wakeups: dict[Topic, asyncio.Event] = {topic: asyncio.Event() for topic in Topic}
        self._anything: set[Topic] = set(Topic)  # before the first look, anything may be due
        self._keys: dict[Topic, dict[Hashable, None]] = {topic: {} for topic in Topic}
        self._timers = 0
        self._taps: list[Callable[[Event], None]] = []
        self._delta_taps: list[Callable[[Event], None]] = []
        # Indexed by key, so that an event costs only its own subscribers. Ordered, so that simulations replay.
        self._feeds: dict[str, dict[Feed | Listener, None]] = {}

    def wake(self, topic: Topic, *keys: Hashable) -> None:
        """Announce work of the topic: of the keys, or without keys, of unknown ones."""
        known = self._keys[topic]
        if not keys or len(known) + len(keys) > KEYS_MAX:
            self._anything.add(topic)
        else:
            known.update(dict.fromkeys(keys))
        self._wakeups[topic].set()

    def wake_in(self, topic: Topic, delay_ms: float, *keys: Hashable) -> None:
        """Announce work that is due after a delay. Beyond `TIMERS_MAX` it is left to the next poll."""
        if delay_ms <= 0:
            self.wake(topic, *keys)
        elif self._timers < TIMERS_MAX:
            self._timers += 1
            asyncio.get_running_loop().call_later(delay_ms / 1000, self._wake_late, topic, *keys)

    def _wake_late(self, topic: Topic, *keys: Hashable) -> None:
        self._timers -= 1
        self.wake(topic, *keys)

    def nudge(self, topic: Topic) -> None:
        """End the wait of the topic's loop without announcing work: its capacity changed."""
        self._wakeups[topic].set()

    def take(self, topic: Topic) -> Woken:
        """What was announced since the last call."""
        woken = Woken(topic in self._anything, tuple(self._keys[topic]))
        self._anything.discard(topic)
        self._keys[topic].clear()
        return woken

    async def wait(self, topic: Topic, *, timeout_ms: float | None = None) -> bool:
        """Wait for a wake-up on the topic; False after the timeout. A wake-up since the last wait counts."""
        woken = self._wakeups[topic]
        if await is_set_within(woken, timeout_ms):
            woken.clear()
            return True
        return False

    def tap(self, hear: Callable[[Event], None], *, deltas: bool = False) -> None:
        """Call `hear` with every event, or with every one but deltas, until the process ends.

        It must return quickly and must not raise.
        """
        self._taps.append(hear)
        if deltas:
            self._delta_taps.append(hear)

    def publish(self, event: Event) -> None:
        is_delta = event.name == DELTA
        for hear in self._delta_taps if is_delta else self._taps:
            hear(event)
        for key in _keys(event.mailbox, event.messages):
            for feed in tuple(self._feeds.get(key, ())):
                if feed.deltas or not is_delta:
                    feed.offer(event)

    def wants_deltas(self, mailbox: str, messages: Sequence[str]) -> bool:
        """Whether a delta of these messages has a subscriber; without one it need not be published."""
        if self._delta_taps:
            return True
        return any(feed.deltas for key in _keys(mailbox, messages) for feed in self._feeds.get(key, ()))

    def subscribe(
        self,
        *,
        mailbox: str | None = None,
        message: str | None = None,
        name: str | None = None,
        deltas: bool = True,
    ) -> "Feed":
        """Subscribe to the events of one mailbox, one message or one name, or to all; `deltas=False` leaves out deltas.

        A subscriber that falls too far behind gets `FeedOverrun` instead of a gap.
        """
        key = f"message {message}" if message else f"mailbox {mailbox}" if mailbox else ""
        feed = Feed(self, key, name, deltas=deltas and name in {None, DELTA})
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


@dataclass(eq=False)
class Listener:
    """A subscriber that is called instead of having a queue."""

    key: str
    offer: Callable[[Event], None]
    deltas = False


class Feed(AsyncIterator[Event]):
    """One subscriber's queue. It collects events from its creation, not from the first read."""

    def __init__(self, notifier: Notifier, key: str, name: str | None, *, deltas: bool) -> None:
        self._notifier = notifier
        self.key = key
        self.deltas = deltas
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

    @property
    def has_more(self) -> bool:
        """Whether an event waits to be read."""
        return bool(self._events)

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


def _keys(mailbox: str, messages: Sequence[str]) -> Iterator[str]:
    """The keys under which the subscribers of an event are found."""
    yield ""
    yield f"mailbox {mailbox}"
    for message in messages:
        yield f"message {message}"
