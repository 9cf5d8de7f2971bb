"""Time, as a port: the simulator owns it, and nothing else may ask the machine."""

from typing import Protocol

from holdfast.kernel.ids import Instant


class Clock(Protocol):
    def now(self) -> Instant:
        """Milliseconds since the Unix epoch, UTC."""
        ...
