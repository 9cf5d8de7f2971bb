"""The ports of the machine: clock, entropy and tasks. No other code reads the time, draws chance or starts a task.
Ids are made from the first two.

`kernel/machine.py` has the real ones. The simulator supplies its own: it runs threads inline and chooses the next task.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from holdfast.kernel.ids import Instant

T = TypeVar("T")
ID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford base 32: no i, l, o, u
ID_TIME_CHARS = 9
ID_RANDOM_BITS = 80
_ID_CHARS = ID_TIME_CHARS + ID_RANDOM_BITS // 5
_TIME_MASK, _RANDOM_MASK = (1 << ID_TIME_CHARS * 5) - 1, (1 << ID_RANDOM_BITS) - 1
# Two characters at a time take a third of the time of the standard library's base 32.
_PAIRS = tuple(first + second for first in ID_ALPHABET for second in ID_ALPHABET)
_PAIR_BITS, _PAIR_MASK = 10, 1023
_SHIFTS = tuple(range((_ID_CHARS * 5 - 5), -1, -_PAIR_BITS))  # of a value with one more character at its end


class Clock(Protocol):
    def now(self) -> Instant:
        """Milliseconds since the Unix epoch, UTC."""


class Entropy(Protocol):
    """The only source of random ids, jitter and tokens."""

    def bits(self, count: int) -> int:
        """An integer of `count` random bits."""

    def fraction(self) -> float:
        """A float in [0, 1)."""


class Task(Protocol):
    def cancel(self) -> bool: ...

    def done(self) -> bool: ...


class Tasks(Protocol):
    def start(self, work: Coroutine[Any, Any, None], *, name: str) -> Task:
        """Start a coroutine as a task. The coroutine must handle its own exceptions."""

    async def sleep(self, delay_ms: float) -> None: ...

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Run a blocking call off the event loop."""


def new_id(clock: Clock, entropy: Entropy, prefix: str) -> str:
    return make_id(prefix, clock.now(), entropy.bits(ID_RANDOM_BITS))


def make_id(prefix: str, now: Instant, chance: int) -> str:
    """A sortable id: `prefix_` + time + 80 random bits.

    The caller draws `chance`; only its low 80 bits are used.
    """
    value = ((int(now) & _TIME_MASK) << ID_RANDOM_BITS | chance & _RANDOM_MASK) << 5
    digits = "".join([_PAIRS[value >> shift & _PAIR_MASK] for shift in _SHIFTS])
    return f"{prefix}_{digits[:_ID_CHARS]}"
