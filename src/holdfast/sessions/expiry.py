"""Expiry: when a session has been inactive for so long that its epoch ends.

Rule 1: the decision uses only the store's time and the session's last activity; no state is kept between two checks.
Rule 2: a local day has exactly one boundary, even on a day with a clock change. A time that the change skips is
        computed with the offset before the change, so the boundary falls later by the skipped interval; a time that
        occurs twice counts the first time.
Rule 3: time zone rules are files of the machine, so they arrive as a function from an instant to an offset.
"""

from dataclasses import dataclass

from holdfast.kernel.dates import Offset
from holdfast.kernel.ids import Instant
from holdfast.turns.policy import DAY_MS, ExpiryPolicy


@dataclass(frozen=True, slots=True)
class Cutoffs:
    """Expiry instants: a session that was last active at or before one of them has expired; None if not configured."""

    idle: Instant | None = None
    daily: Instant | None = None

    @property
    def latest(self) -> Instant | None:
        return max((each for each in (self.idle, self.daily) if each is not None), default=None)

    def cause(self, active_at: Instant) -> str:
        """The cause of expiry for a session that was last active at this instant."""
        return "idle" if self.idle is not None and active_at <= self.idle else "daily"


def cutoffs(policy: ExpiryPolicy, now: Instant, offset: Offset) -> Cutoffs:
    idle = None if policy.idle_ms is None else Instant(now - policy.idle_ms)
    daily = None if policy.daily_ms is None else Instant(last_boundary(now, policy.daily_ms, offset) - 1)
    return Cutoffs(idle, daily)


def last_boundary(now: Instant, daily_ms: int, offset: Offset) -> Instant:
    """The newest daily boundary that is not in the future."""
    today = (now + offset(now)) // DAY_MS
    # A skipped time may lie in the next local day, so the adjacent days are checked too.
    around = [boundary_of(day, daily_ms, offset) for day in range(today - 2, today + 2)]
    return max(boundary for boundary in around if boundary <= now)


def boundary_of(day: int, daily_ms: int, offset: Offset) -> Instant:
    """The instant at which a local day, counted from 1970-01-01, reaches its time of day."""
    local = day * DAY_MS + daily_ms
    before, after = offset(Instant(local - DAY_MS)), offset(Instant(local + DAY_MS))
    met = [Instant(local - ahead) for ahead in (before, after) if offset(Instant(local - ahead)) == ahead]
    return min(met, default=Instant(local - before))
