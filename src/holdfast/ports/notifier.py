"""Wake-ups inside one process, and the live feed that streams are made from.

Nothing here is durable: a lost wake-up costs a poll, a lost event is read again from the journal.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol


class Topic(Enum):
    MAIL = "mail"
    COMPRESS = "compress"
    SIGNAL = "signal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened, with ids and counts; `text` is set on deltas and replies only."""

    name: str
    session: str = ""
    mailbox: str = ""
    turn: int = 0
    messages: tuple[str, ...] = ()
    text: str = ""
    fields: dict[str, object] = field(default_factory=dict)


class Notifier(Protocol):
    def wake(self, topic: Topic, key: str = "") -> None: ...

    async def wait(self, topic: Topic, *, timeout_ms: float, key: str = "") -> bool:
        """Until a wake-up on the topic (and key), or the timeout; True for a wake-up. One that came since the
        last wait counts."""
        ...

    def publish(self, event: Event) -> None: ...

    def subscribe(self, *, mailbox: str | None = None) -> AsyncIterator[Event]:
        """The events from now on, in order; a subscriber that falls too far behind is ended with an error."""
        ...
