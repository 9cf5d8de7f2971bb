"""The turn limit: how many turns may use the processor at once, decided by how long accepting a message takes.

A sender waits while a message is accepted; a turn waits for a model anyway. So the limit falls while accepting is slow
and rises while it is quick (additive increase, multiplicative decrease). A turn that waits for a model, a tool or
memory uses no processor and does not count. The limit never falls below a few turns: where every commit is slow,
holding turns back would make nothing quicker.
"""

TURNS_MAX = 64  # claimed mailboxes of one process, those that wait included
SLOW_MS = 12  # an accept that takes longer lowers the limit
DECREASE = 0.6
INCREASE = 0.5  # divided by the limit: the lower it is, the quicker it rises
ACTIVE_MIN = 4
DECREASE_EVERY_MS = 20  # the accepts of one commit are slow together and count once
CALM_MS = 500  # without a message for this long, there is no limit to observe


class TurnLimit:
    def __init__(self, turns_max: int = TURNS_MAX) -> None:
        self._turns_max = turns_max
        self._active_max = float(turns_max)
        self._decreased_at = 0
        self._accepted_at = 0

    def accepted(self, now: int, took_ms: int) -> None:
        """Note how long the store took to accept a message."""
        self._active_max = self._current(now)
        self._accepted_at = now
        if took_ms <= SLOW_MS:
            self._active_max = min(self._turns_max, self._active_max + INCREASE / self._active_max)
        elif not 0 <= now - self._decreased_at < DECREASE_EVERY_MS:
            self._decreased_at = now
            self._active_max = max(min(ACTIVE_MIN, self._turns_max), self._active_max * DECREASE)

    def active_max(self, now: int) -> int:
        """The number of turns that may be active now."""
        return int(self._current(now))

    def is_reduced(self, now: int) -> bool:
        return self.active_max(now) < self._turns_max

    def _current(self, now: int) -> float:
        is_calm = not 0 <= now - self._accepted_at < CALM_MS
        return float(self._turns_max) if is_calm else self._active_max
