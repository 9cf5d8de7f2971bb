"""Retries: the delay before the next attempt."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    delay_ms_base: int = 500
    delay_ms_max: int = 60_000

    def delay_ms(self, attempt: int, chance: float = 0.5) -> int:
        """An exponential delay, with up to a quarter of jitter in both directions."""
        full = min(self.delay_ms_max, self.delay_ms_base << min(max(attempt - 1, 0), 20))
        return int(full * (0.75 + chance / 2))
