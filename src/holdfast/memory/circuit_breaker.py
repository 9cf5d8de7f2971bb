"""The circuit breaker: a provider that is away costs one probe now and then, not an attempt per lane or per turn.

It lives in RAM and may vanish: after a restart the first attempts find out again.

Rule 1: failures in a row open it. A failure that may be about one lane's own words counts once per lane, so that one
        bad unit never opens the circuit and an outage that answers 500 to everybody does.
Rule 2: while it is open one call at a time finds out. Whatever is not a success keeps it open, for longer and longer.
Rule 3: a success closes it. The number of calls at once then doubles with each further success, so that everything
        that waited does not arrive in one moment.
"""

from dataclasses import dataclass, field, replace

from holdfast.kernel.ids import Instant
from holdfast.kernel.retry import RetryPolicy
from holdfast.memory.delivery import Delivered, Outcome, Refused, Uncertain, Unreachable

FAILURES_MAX = 3  # in a row, before the circuit opens
RAMP_MAX = 64  # calls at once from which on nothing is held back


@dataclass(frozen=True, slots=True)
class Circuit:
    failures: int = 0
    reopens_at: Instant = Instant(0)
    doubted: frozenset[str] = frozenset()  # lanes whose failures may be about their own words, since the last success
    ramp: int = 0  # how many calls at once while it recovers; 0 when it is not recovering
    retry: RetryPolicy = field(default_factory=lambda: RetryPolicy(delay_ms_base=1_000, delay_ms_max=30_000))

    @property
    def is_open(self) -> bool:
        return self.failures >= FAILURES_MAX

    def calls_allowed(self, now: Instant, calls_max: int) -> int:
        """How many calls may run at once: all, none, or one that finds out."""
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
        """One more failure in a row; `wait_ms` is what the provider asked for."""
        failures = self.failures + 1
        delay_ms = self.retry.delay_ms(failures, chance) if failures >= FAILURES_MAX else 0
        return replace(self, failures=failures, reopens_at=Instant(now + max(delay_ms, wait_ms)))
