"""A pool of threads that serve calls from one queue and return the outcomes to the callers' event loops.

Rule 1: callers may run on several event loops; a batch wakes each of them once.
Rule 2: every queued call gets an outcome, unless its caller has stopped waiting.

Only this module of the engine starts threads.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from holdfast.kernel.errors import HoldfastError, StoreUnavailable
from holdfast.store.script import Call
from holdfast.store.sqlite.batch import Outcome
from holdfast.store.sqlite.faults import translate


class WorkerThread:
    """A daemon thread whose end can be awaited. It runs `work` once, which must handle its own exceptions."""

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


class Pending(NamedTuple):
    """A call with a caller that waits on an event loop."""

    call: Call[Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class PoolWorker:
    """The work of one pool thread: serves a batch of calls, and closes its resources at the end."""

    def serve(self, calls: Sequence[Call[Any]]) -> list[Outcome]:
        raise NotImplementedError

    def rest(self) -> None:
        """Called after a batch's outcomes are sent, before the next calls are taken."""

    def leave(self) -> None:
        raise NotImplementedError


class ThreadPool:
    """One thread per worker; all take from one queue, at most `take_max` calls at a time."""

    def __init__(self, name: str, workers: Sequence[PoolWorker], *, take_max: int) -> None:
        self._queue: SimpleQueue[Pending | None] = SimpleQueue()  # None ends one thread
        self._take_max = take_max
        self._closed = False
        self._submitting = threading.Lock()  # no call may follow the last None
        self._threads = [WorkerThread(f"{name}-{n}", partial(self._work, worker)) for n, worker in enumerate(workers)]

    def submit(self, call: Call[Any]) -> asyncio.Future[Any]:
        """Queue a call of the running event loop and return the future of its value."""
        loop = asyncio.get_running_loop()
        pending = Pending(call, loop, loop.create_future())
        with self._submitting:
            if self._closed:
                raise StoreUnavailable(f"{call.verb}: the store is closed")
            self._queue.put(pending)
        return pending.future

    async def close(self, timeout_s: float) -> None:
        """Serve the queued calls, then end the threads; a thread that hangs is abandoned after `timeout_s`."""
        with self._submitting:
            if not self._closed:
                self._closed = True
                for _ in self._threads:
                    self._queue.put(None)
        for thread in self._threads:
            await thread.ended(timeout_s)
        while not self._queue.empty():  # only if a thread hangs
            call = self._queue.get()
            if call is not None:
                answer([call], [Outcome(error=StoreUnavailable(f"{call.call.verb}: the store closed"))])

    def _work(self, worker: PoolWorker) -> None:
        going = True
        while going:
            calls, going = self._take()
            if not calls:
                continue
            waiting = [one.call for one in calls]
            try:
                outcomes = worker.serve(waiting)
            except BaseException as error:  # noqa: BLE001 - a dead thread would leave its callers waiting for ever
                outcomes = [Outcome(error=translate(error, call.verb)) for call in waiting]
            answer(calls, outcomes)
            worker.rest()
        worker.leave()

    def _take(self) -> tuple[list[Pending], bool]:
        """Wait for calls and take the queued ones; False if this thread must end after them."""
        calls: list[Pending] = []
        item = self._queue.get()
        while item is not None:
            calls.append(item)
            if len(calls) == self._take_max:
                return calls, True
            try:
                item = self._queue.get_nowait()
            except Empty:
                return calls, True
        return calls, False


def answer(calls: Sequence[Pending], outcomes: Sequence[Outcome]) -> None:
    """Send every outcome to its caller, waking each event loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Outcome]]] = {}
    for call, outcome in zip(calls, outcomes, strict=True):
        by_loop.setdefault(call.loop, []).append((call.future, outcome))
    for loop, settled in by_loop.items():
        try:
            loop.call_soon_threadsafe(settle, settled)
        except RuntimeError:  # the loop is closed, so no caller is waiting
            continue


def settle(settled: list[tuple[asyncio.Future[Any], Outcome]]) -> None:
    for future, (value, error) in settled:
        if future.done():  # cancelled: the caller stopped waiting
            continue
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)


def refuse(calls: Sequence[Call[Any]], error: HoldfastError) -> list[Outcome]:
    """The same error for every call, as separate objects."""
    return [Outcome(error=type(error)(str(error), **error.context)) for _ in calls]
