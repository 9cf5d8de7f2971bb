"""A simulated process: all of its work carries its name, so that it can be killed or paused.

Rule 1: work belongs to the node in whose context it was scheduled. Tasks, timers, callbacks and inlined
        threads inherit the context, so nothing a node starts can outlive it.
Rule 2: a killed node never runs again: no `except`, no `finally`, no `__aexit__`. As with SIGKILL, only
        its earlier effects remain.
Rule 3: a paused node keeps its work and its place in every queue, while the clock and the other nodes continue,
        as with SIGSTOP or a suspended virtual machine. After `thaw` all overdue work runs at once.

Death is final: a restart is another node. A node knows nothing about stores, leases or messages; the code
that gives it a resource (a database connection) releases it in `on_death`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from holdfast.testing.simloop import SimLoop

T = TypeVar("T")

NODE: ContextVar["SimNode | None"] = ContextVar("node", default=None)


class Crash(BaseException):
    """The process died. A BaseException, so that no handler of ours survives it."""


class NodeDown(ConnectionError):
    """The node died, so there will be no answer; whether the work was done is unknown."""


class SimNode:
    def __init__(self, loop: "SimLoop", name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.runs = True  # alive and not paused, in one attribute because the loop asks at every step
        self.context = copy_context()
        self.context.run(NODE.set, self)
        self._loop = loop
        self._set_aside: list[asyncio.Handle] = []
        self._on_death: list[Callable[[], object]] = []
        self._gone: asyncio.Future[None] = loop.create_future()
        loop.add_node(self)

    def __repr__(self) -> str:
        state = "dead" if not self.alive else "paused" if self.paused else "running"
        return f"<SimNode {self.name} {state}>"

    # --- work ------------------------------------------------------------------------------------

    def start(self, work: Coroutine[Any, Any, Any], *, name: str, context: Context | None = None) -> asyncio.Task[Any]:
        """Run work on this node. Its exceptions are kept in `loop.escaped`; work of a dead node never runs."""
        task = self._spawn(work, name, context)
        task.add_done_callback(self._ended, context=self.context)
        return task

    async def call(self, work: Coroutine[Any, Any, T], *, name: str) -> T:
        """Run work on this node and wait for it from outside, as a client of the process would.

        Raises `NodeDown` if the node dies first: the caller cannot know how much of the work was done.
        """
        task: asyncio.Task[T] = self._spawn(work, name)
        either: list[asyncio.Future[Any]] = [task, self._gone]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise NodeDown(f"{self.name} died during {name}")
        return task.result()

    def _spawn(self, work: Coroutine[Any, Any, Any], name: str, context: Context | None = None) -> asyncio.Task[Any]:
        # A copy, because context variables set by one task must not be visible in others.
        home = self.context.copy() if context is None else context
        return self._loop.create_task(work, name=f"{self.name}/{name}", context=home)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, Crash):
            self.kill()
        else:
            self._loop.escape(task.get_name(), error)

    # --- life and death --------------------------------------------------------------------------

    def kill(self) -> None:
        """Die now. A running step of this node ends at its next await."""
        if not self.alive:
            return
        self.alive = self.runs = False
        self._loop.keep_unrun(self._set_aside)
        self._set_aside = []
        self._loop.sweep(self)
        for release in self._on_death:
            release()
        if not self._gone.done():
            self._gone.set_result(None)

    def pause(self) -> None:
        if self.alive:
            self.paused = True
            self.runs = False

    def thaw(self) -> None:
        """End the pause. All work that became due meanwhile is ready now."""
        if not self.alive or not self.paused:
            return
        self.paused = False
        self.runs = True
        self._loop.resume(self._set_aside)
        self._set_aside = []

    def on_death(self, release: Callable[[], object]) -> None:
        """Register what the operating system does with a dead process's resources, such as closing its files."""
        self._on_death.append(release)

    def set_aside(self, handle: asyncio.Handle) -> None:
        """For the loop: keep a step that may not run now."""
        if self.alive:
            self._set_aside.append(handle)
        else:
            self._loop.keep_unrun([handle])

    @property
    def waiting(self) -> int:
        """How many steps wait for the end of the pause."""
        return len(self._set_aside)


class _Never:
    """Awaited by work of a dead node: returns control to the loop, which never runs that node again."""

    def __await__(self) -> Generator[None, None, NoReturn]:
        while True:
            yield


NEVER = _Never()


def is_dead() -> bool:
    """Whether the calling code belongs to a dead node."""
    node = NODE.get()
    return node is not None and not node.alive


def die(what: str) -> NoReturn:
    """Kill the node of the calling code, and stop that code.

    The node is dead before the `Crash` is raised, so a handler that catches it can only run
    up to its next await.
    """
    node = NODE.get()
    if node is not None:
        node.kill()
    raise Crash(what)
