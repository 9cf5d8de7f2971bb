"""Where the tasks of a history wait."""

import asyncio
from collections.abc import Iterable
from typing import Any, TypeAlias

Fact: TypeAlias = str | bytes | int | float | None

PENDING_SHOWN_MAX = 30


def pending_tasks(tasks: Iterable[asyncio.Task[Any]]) -> str:
    """One line per task: its name and the innermost place it waits at."""
    lines = [f"  {task.get_name()} at {waiting_at(task.get_coro())}" for task in tasks]
    hidden = len(lines) - PENDING_SHOWN_MAX
    more = [f"  and {hidden} more"] if hidden > 0 else []
    return "\n".join(lines[:PENDING_SHOWN_MAX] + more) or "  no task at all"


def waiting_at(coroutine: Any) -> str:  # noqa: ANN401
    """Follow the chain of awaits to its end: `dispatcher.step (dispatcher.py:81)`."""
    place = coroutine
    while (inner := awaited_by(place)) is not None:
        place = inner
    frame = frame_of(place)
    if frame is None:
        return getattr(place, "__qualname__", repr(place))
    file = frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
    return f"{frame.f_code.co_qualname} ({file}:{frame.f_lineno})"


def awaited_by(place: Any) -> Any:  # noqa: ANN401
    """The coroutine or generator that another one is waiting for; None for futures and the like."""
    inner = getattr(place, "cr_await", None) or getattr(place, "gi_yieldfrom", None) or getattr(place, "ag_await", None)
    return inner if inner is not None and frame_of(inner) is not None else None


def frame_of(place: Any) -> Any:  # noqa: ANN401
    for attribute in ("cr_frame", "gi_frame", "ag_frame"):
        frame = getattr(place, attribute, None)
        if frame is not None:
            return frame
    return None
