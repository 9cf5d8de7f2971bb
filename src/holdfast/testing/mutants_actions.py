"""Guarantees of the audit trail, broken on purpose."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from holdfast.audit import action_sql
from holdfast.audit.action import Act, By, digest_of
from holdfast.store.script import Call, R, Script
from holdfast.testing.mutant import Patch, mutant
from holdfast.testing.watched import NodeDatabase

BUDGET = 30
LATER_S = 0.4
Late = tuple[Act, By, str, dict[str, object]]


@mutant("I32", budget=BUDGET, first=6)
def act_without_row() -> Sequence[Patch]:
    """A decision about an approval has no row of the audit trail."""
    honest = action_sql.record

    def broken(act: Act, by: By, subject: str, **detail: object) -> Script[None]:
        if act is not Act.APPROVAL_DECIDED:
            yield from honest(act, by, subject, **detail)

    return [(action_sql, "record", broken)]


@mutant("I32", budget=BUDGET, short=52)
def row_outside_its_transaction() -> Sequence[Patch]:
    """The row of an act is written after the act, in another transaction."""
    honest, honest_write, pending = action_sql.record, NodeDatabase.write, list[Late]()
    kept: list[Any] = []

    def broken(act: Act, by: By, subject: str, **detail: object) -> Script[None]:
        pending.append((act, by, subject, detail))
        yield from ()

    async def late(db: NodeDatabase, rows: Sequence[Late]) -> None:
        await asyncio.sleep(LATER_S)
        for row in rows:
            await db.inner.write(Call("record_action", partial(_again, honest, row)))

    async def write(db: NodeDatabase, call: Call[R]) -> R:
        done = await honest_write(db, call)
        rows = pending[:]
        pending.clear()
        if rows:
            kept.append(asyncio.get_running_loop().create_task(late(db, rows), name="too late"))
        return done

    return [(action_sql, "record", broken), (NodeDatabase, "write", write)]


def _again(honest: Callable[..., Script[None]], row: Late) -> Script[None]:
    act, by, subject, detail = row
    yield from honest(act, by, subject, **detail)


@mutant("I32", budget=BUDGET, short=3)
def trail_rewritten() -> Sequence[Patch]:
    """A row does not contain the digest of the previous one."""

    def broken(action: Any, _before: bytes) -> bytes:  # noqa: ANN401
        return digest_of(action, b"")

    return [(action_sql, "digest_of", broken)]
