"""A daemon thread whose end can be awaited. Only this module of the engine starts threads."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future


class WorkerThread:
    """Starts a thread that runs `work` once. `work` must handle its own exceptions."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(work,), name=name, daemon=True)
        self._thread.start()

    async def ended(self, timeout_s: float) -> bool:
        """Wait for the thread to end; False after the timeout."""
        done, _ = await asyncio.wait({asyncio.wrap_future(self._ended)}, timeout=timeout_s)
        if done:
            self._thread.join()
        return bool(done)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            self._ended.set_result(None)
