"""Retries: the delay before the next attempt, and the circuit breaker.

With a circuit breaker, a peer that fails repeatedly costs an occasional probe, not an attempt per call. Its state is in
RAM only: after a restart the first attempts determine it again.

Rule 1: consecutive failures open the circuit. A failure with a `cause` (such as the lane whose content may have caused
        it) counts once per cause, so that one bad unit never opens the circuit, and an outage on every lane does.
Rule 2: an open circuit allows one probe at a time. Any outcome but success keeps it open, with increasing delays.
Rule 3: a success closes the circuit. The number of concurrent calls then doubles with each further success, so that the
        backlog does not arrive all at once.
"""

from dataclasses import dataclass, field

from holdfast.kernel.ids import Instant

FAILURES_MAX = 3  # consecutive, before the circuit opens
RAMP_MAX = 64  # at this number of concurrent calls the recovery ends


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    delay_ms_base: int = 500
    delay_ms_max: int = 60_000

    def delay_ms(self, attempt: int, chance: float = 0.5) -> int:
        """An exponential delay, with up to a quarter of jitter in both directions."""
        full = min(self.delay_ms_max, self.delay_ms_base << min(max(attempt - 1, 0), 20))
        return int(full * (0.75 + chance / 2))


RETRY = RetryPolicy(delay_ms_base=1_000, delay_ms_max=30_000)


@dataclass(slots=True)
class CircuitBreaker:
    failures: int = 0
    reopens_at: Instant = Instant(0)
    is_probing: bool = False  # a probe beside the calls is running
    _causes: set[str] = field(default_factory=set)  # of failures since the last success
    _ramp: int = 0  # concurrent calls during recovery; 0 if not recovering

    @property
    def is_open(self) -> bool:
        return self.failures >= FAILURES_MAX

    def calls_allowed(self, now: Instant, calls_max: int) -> int:
        """The allowed number of concurrent calls: `calls_max` or the ramp, none, or one probe."""
        if now < self.reopens_at:
            return 0
        return 1 if self.is_open else min(calls_max, self._ramp or calls_max)

    def begin_probe(self, now: Instant) -> bool:
        """Whether a probe beside the calls is due; True only once until `is_probing` is reset."""
        if not self.is_open or self.is_probing or now < self.reopens_at:
            return False
        self.is_probing = True
        return True

    def succeeded(self) -> None:
        """Close the circuit. A wait that the peer asked for still applies."""
        ramp = 2 if self.is_open else self._ramp * 2
        if self.is_open:
            self.reopens_at = Instant(0)
        self.failures, self._ramp = 0, ramp if ramp < RAMP_MAX else 0
        self._causes.clear()

    def failed(self, now: Instant, chance: float, *, wait_ms: int = 0, cause: str | None = None) -> None:
        """Count a failure. `wait_ms` is the wait that the peer asked for."""
        if cause is not None and not self.is_open:
            if cause in self._causes:
                self.wait(now, wait_ms)
                return
            self._causes.add(cause)
        self.failures += 1
        delay_ms = RETRY.delay_ms(self.failures, chance) if self.is_open else 0
        self.wait(now, max(delay_ms, wait_ms))

    def wait(self, now: Instant, wait_ms: int) -> None:
        """Pause the calls, without counting a failure. Calls are concurrent, so the longest wait applies."""
        self.reopens_at = Instant(max(self.reopens_at, now + wait_ms))
