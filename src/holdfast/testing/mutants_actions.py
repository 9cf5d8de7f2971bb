"""Guarantees of the audit trail, broken on purpose."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from holdfast.audit import action_sql
from holdfast.audit.action import Act, By, digest_of
from holdfast.audit.actor import acting
from holdfast.store.script import R, Script
from holdfast.store.verbs.action_verbs import ActionVerbs
from holdfast.testing.mutant import Patch, mutant

BUDGET = 30
LATER_S = 0.4
Late = tuple[Act, By, str, dict[str, object]]


@mutant("I32", budget=BUDGET)
def act_without_row() -> Sequence[Patch]:
    """A decision about an approval is not on record."""
    honest = action_sql.record

    def broken(act: Act, by: By, subject: str, **detail: object) -> Script[None]:
        if act is not Act.APPROVAL_DECIDED:
            yield from honest(act, by, subject, **detail)

    return [(action_sql, "record", broken)]


@mutant("I32", budget=BUDGET)
def row_outside_its_transaction() -> Sequence[Patch]:
    """The row of an act is written a moment after the act, in a transaction of its own."""
    honest, pending = action_sql.record, list[Late]()
    kept: list[Any] = []

    def broken(act: Act, by: By, subject: str, **detail: object) -> Script[None]:
        pending.append((act, by, subject, detail))
        yield from ()

    async def late(store: ActionVerbs, rows: Sequence[Late]) -> None:
        await asyncio.sleep(LATER_S)
        for row in rows:
            await store._db.write("record_action", partial(_again, honest, row))  # noqa: SLF001

    async def write(store: ActionVerbs, verb: str, script: Callable[[By], Script[R]], *, name: str = "") -> R:
        by = acting()
        done = await store._db.write(verb, lambda: script(by), name=name)  # noqa: SLF001
        rows = pending[:]
        pending.clear()
        if rows:
            kept.append(asyncio.get_running_loop().create_task(late(store, rows), name="too late"))
        return done

    return [(action_sql, "record", broken), (ActionVerbs, "_act", write)]


def _again(honest: Callable[..., Script[None]], row: Late) -> Script[None]:
    act, by, subject, detail = row
    yield from honest(act, by, subject, **detail)


@mutant("I32", budget=BUDGET)
def trail_rewritten() -> Sequence[Patch]:
    """A row does not carry the digest of the one before."""

    def broken(action: Any, _before: bytes) -> bytes:  # noqa: ANN401
        return digest_of(action, b"")

    return [(action_sql, "digest_of", broken)]
