"""Ends the tasks of a channel that closes."""

from collections.abc import Iterable

from holdfast.kernel.ports import Task, Tasks

STEPS_MAX = 100
STEP_MS = 20


async def cancel_all(running: Iterable[Task], tasks: Tasks) -> None:
    """Cancel the tasks and wait until they have ended, at most for two seconds."""
    cancelled = list(running)
    for task in cancelled:
        task.cancel()
    for _ in range(STEPS_MAX):
        if all(task.done() for task in cancelled):
            return
        await tasks.sleep(STEP_MS)
