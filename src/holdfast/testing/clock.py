"""Clocks that are independent of the machine's clock."""

from holdfast.kernel.ids import Instant
from holdfast.testing.simloop import SimLoop

START_MS = 1_700_000_000_000
ROUNDING_MS = 1e-6  # 0.3 s is slightly less than 300 ms in binary; without this a timer wakes 1 ms early


class SimClock:
    """The loop's virtual time as a wall clock. Each node may have one of its own, wrong by `skew_ms`."""

    def __init__(self, loop: SimLoop, *, skew_ms: int = 0) -> None:
        self._loop = loop
        self.skew_ms = skew_ms

    def now(self) -> Instant:
        return Instant(START_MS + self.skew_ms + int(self._loop.time() * 1000 + ROUNDING_MS))


class ManualClock:
    """A clock that moves only when told, for tests that run on an ordinary event loop."""

    def __init__(self, start: int = START_MS) -> None:
        self._now = start

    def now(self) -> Instant:
        return Instant(self._now)

    def advance(self, delay_ms: int) -> None:
        self.jump_to(Instant(self._now + delay_ms))

    def jump_to(self, when: Instant) -> None:
        if when < self._now:
            raise ValueError(f"time does not run backwards here: {when} is before {self._now}")
        self._now = when
