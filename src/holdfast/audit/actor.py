"""The actor of the current task. The entry point sets it once; the store writes it into the audit trail.

Each request of the HTTP server and each command of the command line sets the actor. A task passes it to the tasks that
it starts, so no call has to carry it and none can drop it. A store verb reads it where the verb is called, before the
engine moves the script to another thread.

The actor of a program that uses the library and sets none is `PROGRAM`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from holdfast.audit.action import PROGRAM, By

_acting: ContextVar[By] = ContextVar("holdfast_acting", default=PROGRAM)


def acting() -> By:
    """The actor of this task."""
    return _acting.get()


@contextmanager
def acting_as(by: By) -> Iterator[None]:
    """Set the actor for the calls inside the block."""
    token = _acting.set(by)
    try:
        yield
    finally:
        _acting.reset(token)
