"""What operators decide about people: each decision is recorded under its caller's id, and takes effect once (D6).

A request may be held by a process that sleeps while it is repeated through another one, and while it is decided
otherwise meanwhile. Its record is written first, so of two that carry the same id the second waits for the first and
then only repeats its answer.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.kernel.ids import OperationId
from holdfast.store.script import Script, one, run

START = """
insert into operation (id, kind, session, owner, fence, started_at, ended_at, outcome, detail)
values (:id, :kind, '', :by, 0, :now, :now, 'nothing', null) on conflict (id) do nothing returning id"""
FINISH = "update operation set outcome = :outcome, detail = :detail where id = :id"
RECORDED = "select detail from operation where id = :id"


def start(operation: OperationId, kind: str, by: str) -> Script[dict[str, Any] | None]:
    """None for an operation that is new; otherwise what was recorded of it, empty where it changed nothing."""
    if (yield from one(START, id=operation, kind=kind, by=by)) is not None:
        return None
    row = yield from one(RECORDED, id=operation)
    recorded: dict[str, Any] = msgspec.json.decode(bytes(row[0])) if row is not None and row[0] is not None else {}
    return recorded


def finish(operation: OperationId, detail: Mapping[str, object], *, changed: bool = True) -> Script[None]:
    """What was done. Ids and times only."""
    yield from run(FINISH, id=operation, outcome="done" if changed else "nothing", detail=msgspec.json.encode(detail))
