"""The circuit: a provider that is away costs one probe now and then, not an attempt per lane.

It lives in RAM and may vanish: after a restart the first attempts find out again.
"""

from dataclasses import dataclass, field, replace

from holdfast.core.delivery import Outcome, Uncertain, Unreachable
from holdfast.core.ids import Instant
from holdfast.core.policy import RetryPolicy

FAILURES_MAX = 3  # in a row, before the circuit opens


@dataclass(frozen=True, slots=True)
class Circuit:
    failures: int = 0
    reopens_at: Instant = Instant(0)
    retry: RetryPolicy = field(default_factory=lambda: RetryPolicy(delay_ms_base=1_000, delay_ms_max=30_000))

    def calls_allowed(self, now: Instant, calls_max: int) -> int:
        """How many calls may run at once: all, none, or one that finds out."""
        if self.failures < FAILURES_MAX:
            return calls_max if now >= self.reopens_at else 0
        return 1 if now >= self.reopens_at else 0

    def after(self, outcome: Outcome, now: Instant, chance: float) -> "Circuit":
        """A fault that may be about the words alone says nothing of the provider."""
        match outcome:
            case Unreachable(suspect=True):
                return self
            case Unreachable(retry_after_ms=wait_ms):
                failures = self.failures + 1
                delay_ms = self.retry.delay_ms(failures, chance) if failures >= FAILURES_MAX else 0
                return replace(self, failures=failures, reopens_at=Instant(now + max(delay_ms, wait_ms or 0)))
            case Uncertain():
                return self
            case _:
                return Circuit(retry=self.retry)
