"""How much there is to do now."""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.kernel.ids import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """What waits, in the store's own time."""

    at: Instant
    messages_waiting: Mapping[str, int]  # by agent; those of an open turn included
    oldest_ready_at: Instant | None  # since when the mailbox that has waited longest could have been served
    deliveries: Mapping[tuple[str, str], int]  # by provider and state, those that have not ended well
    replies: Mapping[tuple[str, str], int]  # by channel and state, those that have not been delivered
