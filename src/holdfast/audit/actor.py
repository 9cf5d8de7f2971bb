"""Who acts in this task. The surface that let somebody in says so once; the store writes it into the audit trail.

The actor is set at the edge: for each request of the HTTP server, for each command of the command line. It follows the
task and the tasks that it starts, so no call on the way has to carry it and none can drop it. A store verb reads it
where the verb is called, before the engine takes the script to another thread.

A program that uses the library and says nothing is `PROGRAM`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from holdfast.audit.action import PROGRAM, By

_acting: ContextVar[By] = ContextVar("holdfast_acting", default=PROGRAM)


def acting() -> By:
    """Who acts here and now."""
    return _acting.get()


@contextmanager
def acting_as(by: By) -> Iterator[None]:
    """Have everything inside done in the name of `by`."""
    token = _acting.set(by)
    try:
        yield
    finally:
        _acting.reset(token)
