"""Ports for parts that a test assembles by itself, and a database whose verbs are methods of a fake."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from holdfast.kernel.machine import AsyncTasks
from holdfast.kernel.notifier import Notifier
from holdfast.kernel.ports import Clock, Entropy, Tasks
from holdfast.store.ports import Database, Ports
from holdfast.store.script import Call, Verb
from holdfast.testing import ManualClock, SeededEntropy

SECRET = b"a secret of the tests"
AnyVerb: TypeAlias = Callable[..., Awaitable[Any]]


class VerbMethods:
    """Implements `Database`: a call of a verb is a call of the method of that name."""

    def __init__(self, fake: Any) -> None:
        self.fake = fake

    async def write(self, call: Call[Any]) -> Any:
        made: Any = call.script  # a partial over the verb's arguments
        return await getattr(self.fake, call.verb)(*made.args, **made.keywords)

    read = write

    async def changed(self) -> bool:
        return False

    async def scrub(self) -> str:
        return ""

    def wal_bytes(self) -> int:
        return 0

    async def close(self) -> None: ...


def make_ports(
    db: Database,
    *,
    clock: Clock | None = None,
    entropy: Entropy | None = None,
    tasks: Tasks | None = None,
    notifier: Notifier | None = None,
) -> Ports:
    return Ports(
        db=db,
        secret=SECRET,
        clock=clock or ManualClock(),
        entropy=entropy or SeededEntropy("ports"),
        tasks=tasks or AsyncTasks(),
        notifier=notifier or Notifier(),
    )


def verb_on(db: Any, verb: Verb[..., Any], *, reads: bool = False) -> AnyVerb:
    """The verb as a function that runs it on the current database, even if it is replaced later."""
    run = db.read if reads else db.write
    return lambda *args, **options: run(verb(*args, **options))


def replace_verb(patch: pytest.MonkeyPatch, db: Any, verb: Verb[..., Any], instead: AnyVerb) -> None:
    """Have `instead` called in the place of one verb on this database."""
    for way in ("write", "read"):
        patch.setattr(db, way, _instead(getattr(db, way), verb, instead))


def _instead(honest: AnyVerb, verb: Verb[..., Any], instead: AnyVerb) -> AnyVerb:
    async def run(call: Call[Any]) -> Any:
        made: Any = call.script
        return await (instead(*made.args, **made.keywords) if call.verb == verb.name else honest(call))

    return run
