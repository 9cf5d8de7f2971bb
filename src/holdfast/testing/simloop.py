"""An event loop in which the seed decides which step runs next, and what time it is.

Rule 1: one step at a time. Each ready step is equally likely to run next, so a seed is an interleaving.
Rule 2: time passes only when no step is ready: the clock then jumps to the next timer. Hours cost nothing.
Rule 3: threads are inlined: their call runs whole, after a seeded delay. Sockets do not exist here.
Rule 4: every step belongs to a node or to the world around the nodes (`holdfast.testing.node`). Steps of a
        dead node are kept until the end without running, those of a paused node wait.
Rule 5: nothing depends on the machine. Garbage collection is off while the loop runs (it would finalise
        abandoned coroutines at arbitrary steps), tasks hash by number, names are counted per loop.

Steps take no virtual time: code that never blocks reaches `steps_max`, not its timeout. A set of bare
futures still iterates by address; use tasks or lists where order matters.
"""

# ruff: noqa: SLF001 - handles are the loop's own; asyncio gives their parts no public names

import asyncio
import contextvars
import gc
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from types import TracebackType
from typing import Any, NoReturn, Self

from holdfast.testing.dropped_tasks import SimTask, close_dropped
from holdfast.testing.node import NODE, Crash, SimNode
from holdfast.testing.trace import Fact, pending_tasks

STEPS_MAX = 1_000_000  # per loop; a normal history has some thousand steps
THREAD_DELAY_MAX_S = 0.02
TASKS_PRUNE_MIN = 256
TIMERS_PRUNE_MIN = 100  # as asyncio does: cancelled timers leave when they are the majority


class Deadlock(RuntimeError):
    """No step is ready and no timer is set, so the history would never continue."""


class StepLimitReached(RuntimeError):
    """The history exceeded its limit of steps, so some code loops without blocking."""


@dataclass(frozen=True, slots=True)
class Escaped:
    """An exception of a task or callback that no code awaits."""

    where: str
    error: BaseException | None


class SimLoop(asyncio.BaseEventLoop):
    _ready: deque[Any]
    _scheduled: list[Any]
    _stopping: bool
    _timer_cancelled_count: int

    def __init__(self, seed: int | str, *, steps_max: int = STEPS_MAX) -> None:
        super().__init__()
        self.rng = random.Random(seed)
        self.steps = 0
        self.escaped: list[Escaped] = []
        self.nodes: list[SimNode] = []
        self._now = 0.0
        self._steps_max = steps_max
        self._alarms: list[tuple[int, int, Callable[[], object]]] = []
        self._alarm_step = steps_max
        self._alarm_count = 0
        self._trace = blake2b(digest_size=16)
        self._tasks: list[SimTask[Any]] = []
        self._tasks_prune_at = TASKS_PRUNE_MIN
        self._task_count = 0
        self._tomb: list[Any] = []
        self.set_exception_handler(_keep_escaped)

    # --- for the world ---------------------------------------------------------------------

    def time(self) -> float:
        """Virtual seconds since the history began."""
        return self._now

    def at_step(self, step: int, action: Callable[[], object]) -> None:
        """Call a function, outside every node, just before step number `step`."""
        self._alarm_count += 1
        heapq.heappush(self._alarms, (step, self._alarm_count, action))
        self._alarm_step = min(self._steps_max, self._alarms[0][0])

    def note(self, *facts: Fact) -> None:
        """Feed the digest. Facts are scalars: the order of a set would differ between processes."""
        self._trace.update(repr((self._now, facts)).encode("utf-8", "surrogatepass"))

    def digest(self) -> str:
        """A digest of all facts and all random choices so far, in 32 hexadecimal digits."""
        trace = self._trace.copy()
        trace.update(repr((self._now, self.steps, self._task_count, self.rng.getstate())).encode())
        return trace.hexdigest()

    def escape(self, where: str, error: BaseException | None) -> None:
        self.escaped.append(Escaped(where, error))

    # --- for nodes --------------------------------------------------------------------------

    def add_node(self, node: SimNode) -> None:
        self.nodes.append(node)

    def sweep(self, node: SimNode) -> None:
        """Remove every step and timer of a dead node, so that the clock does not jump to its timers."""
        ready, scheduled = list(self._ready), list(self._scheduled)
        self._ready.clear()
        self._ready.extend(handle for handle in ready if handle._context.get(NODE) is not node)
        self._scheduled[:] = [timer for timer in scheduled if timer._context.get(NODE) is not node]
        heapq.heapify(self._scheduled)
        self.keep_unrun(handle for handle in ready + scheduled if handle._context.get(NODE) is node)

    def keep_unrun(self, handles: Iterable[asyncio.Handle]) -> None:
        """Keep handles that must neither run nor be freed before the history ends."""
        self._tomb.extend(handles)

    def resume(self, handles: Iterable[asyncio.Handle]) -> None:
        self._ready.extend(handles)

    # --- the steps -------------------------------------------------------------------------------

    def _run_once(self) -> None:
        """Run steps until told to stop. asyncio calls this in a loop; one call per step would be slower."""
        ready, scheduled, chance = self._ready, self._scheduled, self.rng.random
        while not self._stopping:
            if self.steps >= self._alarm_step:
                self._sound_alarms()
            if scheduled and (not ready or scheduled[0]._when <= self._now):
                self._wake_timers()
            count = len(ready)
            if count == 0:
                self._report_deadlock()
            handle = ready.pop()
            if count > 1:  # swap with a random one: cheaper than removing from the middle
                chosen = int(chance() * count)
                if chosen < count - 1:
                    handle, ready[chosen] = ready[chosen], handle
            if handle._cancelled:
                continue
            node = handle._context.get(NODE)
            if node is not None and not node.runs:
                node.set_aside(handle)
                continue
            self.steps += 1
            handle._run()

    def _wake_timers(self) -> None:
        """Make due timers ready; first jump to the next timer if no step is ready."""
        scheduled = self._scheduled
        if len(scheduled) > TIMERS_PRUNE_MIN and self._timer_cancelled_count > len(scheduled) // 2:
            self._prune_timers()
        while scheduled and (scheduled[0]._cancelled or scheduled[0]._when <= self._now or not self._ready):
            timer = heapq.heappop(scheduled)
            timer._scheduled = False
            if timer._cancelled:
                self._timer_cancelled_count -= 1
            else:
                self._now = max(self._now, timer._when)
                self._ready.append(timer)

    def _prune_timers(self) -> None:
        for timer in self._scheduled:
            timer._scheduled = not timer._cancelled
        self._scheduled[:] = [timer for timer in self._scheduled if timer._scheduled]
        heapq.heapify(self._scheduled)
        self._timer_cancelled_count = 0

    def _report_deadlock(self) -> NoReturn:
        paused = [f"{node.name} ({node.waiting} steps held)" for node in self.nodes if node.paused]
        pauses = f"; paused: {', '.join(paused)}" if paused else ""
        raise Deadlock(f"everybody waits and no timer is set{pauses}; waiting:\n{self.pending()}")

    def _sound_alarms(self) -> None:
        if self.steps >= self._steps_max:
            raise StepLimitReached(f"{self.steps} steps at {self._now:.3f} s; unfinished:\n{self.pending()}")
        while self._alarms and self._alarms[0][0] <= self.steps:
            heapq.heappop(self._alarms)[2]()
        self._alarm_step = min(self._steps_max, self._alarms[0][0]) if self._alarms else self._steps_max

    def pending(self) -> str:
        """The unfinished tasks of live nodes and the world, one per line, with the place where each waits."""
        return pending_tasks(task for task in self._tasks if _may_still_run(task))

    # --- for asyncio -----------------------------------------------------------------------

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
        **options: Any,  # noqa: ANN401 - grows with Python: eager_start in 3.14
    ) -> SimTask[Any]:
        self._check_closed()  # type: ignore[attr-defined]
        self._task_count += 1
        task: SimTask[Any] = SimTask(
            coro,
            number=self._task_count,
            home=contextvars.copy_context() if context is None else context,
            loop=self,
            name=f"task-{self._task_count}" if name is None else name,
            **options,
        )
        if len(self._tasks) >= self._tasks_prune_at:
            self._tasks = [known for known in self._tasks if not known.done()]
            self._tasks_prune_at = TASKS_PRUNE_MIN + 2 * len(self._tasks)
        self._tasks.append(task)
        return task

    def run_in_executor(  # type: ignore[override]
        self,
        executor: object,  # noqa: ARG002 - there are no threads to choose from
        func: Callable[..., Any],
        *args: Any,  # noqa: ANN401
    ) -> asyncio.Future[Any]:
        """Run the whole call at one later step. As with a thread, cancelling the future does not stop it."""
        future = self.create_future()
        self.call_later(self.rng.random() * THREAD_DELAY_MAX_S, _run_inline, future, func, args)
        return future

    async def getaddrinfo(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError("there is no network in a simulation; give the code a simulated port")

    def _write_to_self(self) -> None:
        """No other thread has to be woken."""

    def _process_events(self, event_list: list[Any]) -> None:
        """There is no selector, hence no event."""

    def run_forever(self) -> None:
        was_on = gc.isenabled()
        gc.disable()
        try:
            super().run_forever()
        finally:
            if was_on:
                gc.enable()

    def close(self) -> None:
        """End the history: every node dies, and unfinished work is dropped without any output."""
        if self.is_closed():
            return
        for node in self.nodes:
            node.kill()
        handles = [*self._ready, *self._scheduled, *self._tomb]
        self._tomb.clear()
        super().close()
        self.set_exception_handler(lambda _loop, _context: None)
        close_dropped(self._tasks, handles)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


def _may_still_run(task: SimTask[Any]) -> bool:
    node = task.home.get(NODE)
    return not task.done() and (node is None or node.alive)


def _run_inline(future: asyncio.Future[Any], call: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        result = call(*args)
    except (Crash, Exception) as error:  # noqa: BLE001 - raised to the code that awaits the thread
        node = NODE.get()
        if isinstance(error, Crash) and node is not None:
            node.kill()
        if not future.cancelled():
            future.set_exception(error)
    else:
        if not future.cancelled():
            future.set_result(result)


def _keep_escaped(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    assert isinstance(loop, SimLoop)
    error = context.get("exception")
    if not isinstance(error, Crash):
        loop.escape(str(context.get("message")), error)
