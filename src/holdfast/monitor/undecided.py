"""What waits at memory providers: lanes with their heads, and what replaying a parked delivery would do."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.kernel.ids import Instant
from holdfast.memory.delivery import DeliveryView

STUCK_SUSPECT = 2  # failures of one delivery between which the provider took others


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingLane:
    """A lane that is not empty. Its head decides when the others are sent."""

    agent: str
    provider: str
    place: str
    waiting: int
    oldest_at: Instant
    through_turn: int  # the last turn that waits
    id: str  # of the head, with the following
    state: str
    attempt: int
    from_turn: int
    due_at: Instant
    suspect: int
    reason: str | None

    @property
    def is_stuck(self) -> bool:
        return self.suspect >= STUCK_SUSPECT


@dataclass(frozen=True, slots=True, kw_only=True)
class LanesView:
    """The lanes whose oldest delivery is the oldest, and how many there are."""

    lanes: Sequence[WaitingLane]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """What replaying a delivery would do."""

    delivery: DeliveryView
    asks_first: bool  # it was parked in doubt: the provider is asked before it is sent
    waiting: int  # deliveries of its lane
    newer: int  # deliveries of its lane that the provider has already, and that are newer
    parked_at: Instant | None
