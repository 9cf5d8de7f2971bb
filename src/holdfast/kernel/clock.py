"""The clock port. No other code reads the time; the simulator supplies its own clock."""

from typing import Protocol

from holdfast.kernel.ids import Instant


class Clock(Protocol):
    def now(self) -> Instant:
        """Milliseconds since the Unix epoch, UTC."""
        ...
