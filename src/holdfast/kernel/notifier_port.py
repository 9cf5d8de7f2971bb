"""Wake-ups inside one process, and the live feed that streams are made from.

Nothing here is durable: a lost wake-up costs a poll, a lost event is read again from the journal.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol


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


class Feed(Protocol):
    """One subscriber's events, in order, from the moment it subscribed."""

    def __aiter__(self) -> AsyncIterator[Event]: ...

    async def __anext__(self) -> Event: ...

    async def next_within(self, timeout_ms: float) -> Event | None:
        """The next event, or None when there is none in time."""
        ...

    def close(self) -> None: ...


class Notifier(Protocol):
    def wake(self, topic: Topic) -> None: ...

    async def wait(self, topic: Topic, *, timeout_ms: float) -> bool:
        """Until a wake-up on the topic, or the timeout; True for a wake-up. One that came since the last wait
        counts."""
        ...

    def publish(self, event: Event) -> None: ...

    def tap(self, hear: Callable[[Event], None]) -> None:
        """Have every event told at once, for as long as the process lives. `hear` is quick and raises nothing."""
        ...

    def subscribe(self, *, mailbox: str | None = None, message: str | None = None, name: str | None = None) -> Feed:
        """The events of one mailbox, about one message, of one name, or all. Who falls too far behind gets an
        error, not a gap."""
        ...
