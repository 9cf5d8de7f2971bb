"""Threads that serve calls from one queue, and the way their outcomes return to the callers' event loops.

Rule 1: callers may live on several event loops; a batch wakes each of them once.
Rule 2: every call that was taken in is answered, unless its caller has stopped waiting.
"""

import asyncio
import threading
from collections.abc import Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from holdfast.kernel.errors import HoldfastError, StoreUnavailable
from holdfast.store.script import Call
from holdfast.store.sqlite.batch import Outcome
from holdfast.store.sqlite.faults import translate
from holdfast.store.sqlite.thread import WorkerThread


class Pending:
    """A call whose caller waits on an event loop."""

    __slots__ = ("call", "future", "loop")

    def __init__(self, call: Call[Any]) -> None:
        self.call = call
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()


class PoolWorker:
    """What one thread of a crew does: serve some calls at a time, and clear up at the end."""

    def serve(self, calls: Sequence[Call[Any]]) -> list[Outcome]:
        raise NotImplementedError

    def rest(self) -> None:
        """Called after the outcomes are on their way, before the next calls are taken."""

    def leave(self) -> None:
        raise NotImplementedError


class ThreadPool:
    """One thread per desk, all taking from the same queue, at most `take_max` calls at a time."""

    def __init__(self, name: str, desks: Sequence[PoolWorker], *, take_max: int) -> None:
        self._queue: SimpleQueue[Pending | None] = SimpleQueue()  # None sends one thread home
        self._take_max = take_max
        self._closed = False
        self._door = threading.Lock()  # no call may slip in behind the last None
        self._hands = [WorkerThread(f"{name}-{n}", partial(self._work, desk)) for n, desk in enumerate(desks)]

    def submit(self, call: Call[Any]) -> asyncio.Future[Any]:
        """Queue a call of the running event loop and return the future of its value."""
        pending = Pending(call)
        with self._door:
            if self._closed:
                raise StoreUnavailable(f"{call.verb}: the store is closed")
            self._queue.put(pending)
        return pending.future

    async def close(self, timeout_s: float) -> None:
        """Serve what is queued, then end the threads; one that hangs is left behind after `timeout_s`."""
        with self._door:
            if not self._closed:
                self._closed = True
                for _ in self._hands:
                    self._queue.put(None)
        for hand in self._hands:
            await hand.ended(timeout_s)
        self._answer_the_rest()

    def _work(self, desk: PoolWorker) -> None:
        going = True
        while going:
            calls, going = self._take()
            if calls:
                answer(calls, self._serve(desk, [one.call for one in calls]))
                desk.rest()
        desk.leave()

    def _take(self) -> tuple[list[Pending], bool]:
        """Wait for calls and take what is there; False when this thread is to go home after them."""
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

    def _answer_the_rest(self) -> None:
        """Only a thread that hangs leaves calls behind."""
        while not self._queue.empty():
            call = self._queue.get()
            if call is not None:
                answer([call], [Outcome(error=StoreUnavailable(f"{call.call.verb}: the store closed"))])

    def _serve(self, desk: PoolWorker, calls: Sequence[Call[Any]]) -> list[Outcome]:
        try:
            return desk.serve(calls)
        except BaseException as error:  # noqa: BLE001 - a dead thread would leave its callers waiting for ever
            return [Outcome(error=translate(error, call.verb)) for call in calls]


def answer(calls: Sequence[Pending], outcomes: Sequence[Outcome]) -> None:
    """Hand every outcome to its caller, waking each event loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Outcome]]] = {}
    for call, outcome in zip(calls, outcomes, strict=True):
        by_loop.setdefault(call.loop, []).append((call.future, outcome))
    for loop, settled in by_loop.items():
        try:
            loop.call_soon_threadsafe(settle, settled)
        except RuntimeError:  # the loop is closed: nobody is left who could be told
            continue


def settle(settled: list[tuple[asyncio.Future[Any], Outcome]]) -> None:
    for future, (value, error) in settled:
        if future.done():  # cancelled: its caller stopped waiting
            continue
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)


def refuse(calls: Sequence[Call[Any]], error: HoldfastError) -> list[Outcome]:
    """The same refusal for every call, as an object of its own."""
    return [Outcome(error=type(error)(str(error), **error.context)) for _ in calls]
