"""Queues: what waits now, by agent, memory provider and channel, and since when."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.kernel.ids import Instant
from holdfast.memory.lane import LaneKey

OPEN_DELIVERIES = ("scheduled", "sending", "uncertain")
OPEN_REPLIES = ("pending", "attempting")


class AgentOnChannel(NamedTuple):
    agent: str
    channel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The items of one queue, by state, and when the oldest open one came; None without an open one."""

    states: Mapping[str, int] = field(default_factory=dict)
    oldest_at: Instant | None = None

    def count(self, *states: str) -> int:
        return sum(self.states.get(state, 0) for state in states)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queues:
    at: Instant  # the store's time
    messages: Mapping[str, Queue]  # by agent: waiting and in_turn
    deliveries: Mapping[LaneKey, Queue]  # scheduled, sending, uncertain and parked
    replies: Mapping[AgentOnChannel, Queue]  # every state but delivered

    def age_ms(self, queue: Queue) -> int:
        """How old the oldest open item is."""
        return 0 if queue.oldest_at is None else max(0, self.at - queue.oldest_at)
