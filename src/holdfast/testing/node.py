"""A simulated process: a name that every piece of its work carries, so that it can be killed or paused.

Rule 1: work belongs to the node in whose context it was scheduled. Tasks, timers, callbacks and inlined
        threads inherit the context, so nothing a node starts can outlive it.
Rule 2: a killed node never runs again: no `except`, no `finally`, no `__aexit__`. As with SIGKILL, only
        what it already did to the world remains.
Rule 3: a paused node keeps its work and its place in every queue, while the clock and the others go on,
        as with SIGSTOP or a suspended virtual machine. After the thaw everything overdue runs at once.

Death is final: a restart is another node. A node knows nothing about stores, leases or messages; whoever
gives it resources (a database connection) takes them away in `on_death`.
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
    """The node died, so nobody will answer; whether the work was done is unknown."""


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
        """Run work on this node. What it raises is kept in `loop.escaped`; work of a dead node never runs."""
        task = self._spawn(work, name, context)
        task.add_done_callback(self._ended, context=self.context)
        return task

    async def call(self, work: Coroutine[Any, Any, T], *, name: str) -> T:
        """Run work on this node and wait for it from outside, as a client of the process would.

        Raises `NodeDown` when the node dies first: the caller cannot know how far the work came.
        """
        task: asyncio.Task[T] = self._spawn(work, name)
        either: list[asyncio.Future[Any]] = [task, self._gone]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise NodeDown(f"{self.name} died during {name}")
        return task.result()

    def _spawn(self, work: Coroutine[Any, Any, Any], name: str, context: Context | None = None) -> asyncio.Task[Any]:
        # A copy, because contextvars set by one task must not show up in its sisters.
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
        """Die now. The step that is running, if it is ours, ends at its next await."""
        if not self.alive:
            return
        self.alive = self.runs = False
        self._loop.entomb(self._set_aside)
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
        """Go on. What fell due during the pause is ready now, all of it."""
        if not self.alive or not self.paused:
            return
        self.paused = False
        self.runs = True
        self._loop.resume(self._set_aside)
        self._set_aside = []

    def on_death(self, release: Callable[[], object]) -> None:
        """What the operating system does to a dead process's resources, such as closing its files."""
        self._on_death.append(release)

    def set_aside(self, handle: asyncio.Handle) -> None:
        """For the loop: take a step that may not run now."""
        if self.alive:
            self._set_aside.append(handle)
        else:
            self._loop.entomb([handle])

    @property
    def waiting(self) -> int:
        """How many steps a pause is holding back."""
        return len(self._set_aside)


class _Never:
    """Awaited by dead work: gives the step back to the loop, which never runs another one of that node."""

    def __await__(self) -> Generator[None, None, NoReturn]:
        while True:
            yield


NEVER = _Never()


def is_dead() -> bool:
    """Whether the code that asks belongs to a dead node."""
    node = NODE.get()
    return node is not None and not node.alive


def die(what: str) -> NoReturn:
    """Kill the node whose code this is, and stop that code.

    The node is dead before the `Crash` is raised, so a handler that catches it cannot do any more than run
    on to its next await.
    """
    node = NODE.get()
    if node is not None:
        node.kill()
    raise Crash(what)
