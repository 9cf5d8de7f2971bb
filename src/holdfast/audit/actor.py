"""The actor of the current task. The entry point sets it once; the store writes it into the audit trail.

Each request of the HTTP server and each command of the command line sets the actor. A task passes it to the tasks that
it starts, so no call has to carry it and none can drop it. A store verb reads it where the verb is called, before the
engine moves the script to another thread.

The actor of a program that uses the library and sets none is `PROGRAM`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from holdfast.audit.action import PROGRAM, Act, By
from holdfast.audit.action_sql import refuse_action
from holdfast.kernel import log
from holdfast.store.ports import Database

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


async def record_refusal(db: Database, act: Act, subject: str, code: str) -> None:
    """Record that the actor's attempt at an act was refused before any verb ran."""
    await db.write(refuse_action(act, subject, code, by=acting()))
    log.warning("action.refused", act=act.stored, actor=acting().id, code=code)
