"""Gauges: the current amounts of waiting work."""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.kernel.ids import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """Counts of waiting work, at the store's own time."""

    at: Instant
    messages_waiting: Mapping[str, int]  # by agent, including those of an open turn
    oldest_ready_at: Instant | None  # when the longest-waiting mailbox became ready
    deliveries: Mapping[tuple[str, str], int]  # by provider and state, without delivered ones
    replies: Mapping[tuple[str, str], int]  # by channel and state, without delivered ones
