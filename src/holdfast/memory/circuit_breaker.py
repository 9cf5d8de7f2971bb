"""The circuit breaker: an unreachable provider costs an occasional probe, not an attempt per lane or per turn.

Its state is in RAM only: after a restart the first attempts determine it again.

Rule 1: consecutive failures open the circuit. A failure that may be caused by the content of one lane counts once per
        lane, so that one bad unit never opens the circuit, and an outage that answers 500 to every call does.
Rule 2: an open circuit allows one probe at a time. Any outcome but success keeps it open, with increasing delays.
Rule 3: a success closes the circuit. The number of concurrent calls then doubles with each further success, so that the
        backlog does not arrive all at once.
"""

from dataclasses import dataclass, field, replace

from holdfast.kernel.ids import Instant
from holdfast.kernel.retry import RetryPolicy
from holdfast.memory.delivery import Delivered, Outcome, Refused, Uncertain, Unreachable

FAILURES_MAX = 3  # consecutive, before the circuit opens
RAMP_MAX = 64  # at this number of concurrent calls the recovery ends


@dataclass(frozen=True, slots=True)
class Circuit:
    failures: int = 0
    reopens_at: Instant = Instant(0)
    doubted: frozenset[str] = frozenset()  # lanes with possibly content-related failures since the last success
    ramp: int = 0  # concurrent calls during recovery; 0 if not recovering
    retry: RetryPolicy = field(default_factory=lambda: RetryPolicy(delay_ms_base=1_000, delay_ms_max=30_000))

    @property
    def is_open(self) -> bool:
        return self.failures >= FAILURES_MAX

    def calls_allowed(self, now: Instant, calls_max: int) -> int:
        """The allowed number of concurrent calls: `calls_max` or the ramp, none, or one probe."""
        if now < self.reopens_at:
            return 0
        return 1 if self.is_open else min(calls_max, self.ramp or calls_max)

    def after(self, outcome: Outcome, now: Instant, chance: float, lane: str = "") -> "Circuit":
        match outcome:
            case Delivered() | Refused():
                return self.succeeded()
            case Unreachable(retry_after_ms=wait_ms, suspect=False):
                return self.failed(now, chance, wait_ms or 0)
            case Unreachable(retry_after_ms=wait_ms) | Uncertain(retry_after_ms=wait_ms, away=True):
                if lane in self.doubted and not self.is_open:
                    return replace(self, reopens_at=Instant(max(self.reopens_at, now + (wait_ms or 0))))
                known = self if self.is_open else replace(self, doubted=self.doubted | {lane})
                return known.failed(now, chance, wait_ms or 0)
            case Uncertain():
                return self.failed(now, chance) if self.is_open else self

    def succeeded(self) -> "Circuit":
        ramp = 2 if self.is_open else self.ramp * 2
        return Circuit(ramp=ramp if ramp < RAMP_MAX else 0, retry=self.retry)

    def failed(self, now: Instant, chance: float, wait_ms: int = 0) -> "Circuit":
        """The circuit after one more failure; `wait_ms` is the wait that the provider asked for."""
        failures = self.failures + 1
        delay_ms = self.retry.delay_ms(failures, chance) if failures >= FAILURES_MAX else 0
        return replace(self, failures=failures, reopens_at=Instant(now + max(delay_ms, wait_ms)))
