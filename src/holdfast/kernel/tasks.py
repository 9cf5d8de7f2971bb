"""The concurrency port: the simulator runs threads inline and chooses the next task."""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


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
