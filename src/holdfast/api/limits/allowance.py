"""Use per client and per token within a window of time. The counts are in memory only and may be lost."""

from collections import OrderedDict

from holdfast.kernel.clock import Clock
from holdfast.kernel.ids import Instant

KEYS_MAX = 10_000


class Allowance:
    def __init__(self, clock: Clock, window_ms: int) -> None:
        self._clock = clock
        self._window_ms = window_ms
        self._used: OrderedDict[str, tuple[Instant, int]] = OrderedDict()

    def wait_ms(self, key: str, more: int, most: int) -> int:
        """Milliseconds until `more` fits below `most`; 0 if it fits now. An empty window accepts any amount once."""
        began, used = self._window(key)
        return 0 if used == 0 or used + more <= most else max(1, began + self._window_ms - self._clock.now())

    def use(self, key: str, amount: int) -> None:
        began, used = self._window(key)
        self._used[key] = (began, used + amount)
        self._used.move_to_end(key)
        if len(self._used) > KEYS_MAX:
            self._used.popitem(last=False)

    def _window(self, key: str) -> tuple[Instant, int]:
        now = self._clock.now()
        began, used = self._used.get(key, (now, 0))
        return (began, used) if 0 <= now - began < self._window_ms else (now, 0)
