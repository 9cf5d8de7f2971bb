"""Concurrency, as a port: the simulator inlines threads and decides which task runs next."""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Task(Protocol):
    def cancel(self) -> bool: ...

    def done(self) -> bool: ...


class Tasks(Protocol):
    def start(self, work: Coroutine[Any, Any, None], *, name: str) -> Task:
        """Run a coroutine beside the others. What it raises is the work's own to handle."""
        ...

    async def sleep(self, delay_ms: float) -> None: ...

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Run a blocking call off the event loop."""
        ...
