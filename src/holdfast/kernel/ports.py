"""The ports of the machine: clock, entropy and tasks. No other code reads the time, draws chance or starts a task.

`kernel/machine.py` has the real ones. The simulator supplies its own: it runs threads inline and chooses the next task.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from holdfast.kernel.ids import Instant

T = TypeVar("T")


class Clock(Protocol):
    def now(self) -> Instant:
        """Milliseconds since the Unix epoch, UTC."""
        ...


class Entropy(Protocol):
    """The only source of random ids, jitter and tokens."""

    def bits(self, count: int) -> int:
        """An integer of `count` random bits."""
        ...

    def fraction(self) -> float:
        """A float in [0, 1)."""
        ...


class Task(Protocol):
    def cancel(self) -> bool: ...

    def done(self) -> bool: ...


class Tasks(Protocol):
    def start(self, work: Coroutine[Any, Any, None], *, name: str) -> Task:
        """Start a coroutine as a task. The coroutine must handle its own exceptions."""
        ...

    async def sleep(self, delay_ms: float) -> None: ...

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Run a blocking call off the event loop."""
        ...
