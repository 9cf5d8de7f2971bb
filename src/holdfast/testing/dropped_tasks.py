"""How to drop a coroutine that must never run again.

Python has no such thing: a suspended coroutine that is freed gets a GeneratorExit and runs its `finally`
blocks, and an unfinished task complains in the log. So the loop keeps the tasks of dead nodes until the history
has ended and was judged, and then closes them here, where it has no effect:

- the loop is closed, so every await and every new timer fails;
- a task is closed in its own context, whose node is dead, so a verb behind `crashing` does nothing;
- errors, warnings and log lines of this clean-up are dropped, since they describe no real event.

Weakness: plain synchronous statements in a `finally` do run, after the verdict. They reach only objects
of the finished history, unless the code under test has globals.
"""

import asyncio
import gc
import logging
import sys
import warnings
from collections.abc import Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")

CLOSE_ATTEMPTS_MAX = 50  # a coroutine that awaits in `finally` takes one attempt per await

_restless: list[object] = []  # never closed, and therefore never freed: freeing them would log errors


class SimTask(asyncio.Task[T]):
    """A task whose position in a set depends on its number, not on its address.

    `asyncio.wait` and `TaskGroup` iterate over sets of tasks; by address, the same seed would give another
    order in another process.
    """

    def __init__(
        self,
        work: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        number: int,
        home: Context,
        **options: Any,  # noqa: ANN401
    ) -> None:
        self.number = number  # before __init__, which puts the task into a set
        self.home = home
        super().__init__(work, context=home, **options)

    def __hash__(self) -> int:
        return self.number


def close_dropped(tasks: list[SimTask[Any]], handles: list[asyncio.Handle]) -> None:
    """Close unfinished tasks, and the coroutines that steps were about to start, without any output.

    Both lists are emptied here: a coroutine that was handed to a task which never began is freed with it.
    """
    with _silence():
        for task in tasks:
            if not task.done():
                _close(task.get_coro(), task.home)
        for handle in handles:
            for argument in handle._args or ():  # noqa: SLF001
                if hasattr(argument, "close") and hasattr(argument, "throw"):
                    _close(argument, handle._context)  # type: ignore[attr-defined]  # noqa: SLF001
        task = handle = argument = None  # type: ignore[assignment]
        tasks.clear()
        handles.clear()
        gc.collect(1)  # everything of the history is young: collection was off while it ran


def _close(coroutine: Any, home: Context) -> None:  # noqa: ANN401
    attempts_left = CLOSE_ATTEMPTS_MAX
    while attempts_left:
        try:
            home.run(coroutine.close)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # noqa: BLE001 - its last words, or an await where it should have ended
            attempts_left -= 1
        else:
            return
    _restless.append(coroutine)


@contextmanager
def _silence() -> Iterator[None]:
    hook, level = sys.unraisablehook, logging.root.manager.disable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.unraisablehook = lambda _unraisable: None
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            sys.unraisablehook = hook
            logging.disable(level)
