"""Operators' decisions about people: each is recorded under its caller's id and takes effect once (D6).

A paused process may hold a request while another process repeats it, or while an opposite decision is made. The record
is written first, so of two requests with one id the second waits for the first and returns the same answer.
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
    """Start an operation. None if it is new; otherwise its recorded detail, empty if it changed nothing."""
    if (yield from one(START, id=operation, kind=kind, by=by)) is not None:
        return None
    row = yield from one(RECORDED, id=operation)
    recorded: dict[str, Any] = msgspec.json.decode(bytes(row[0])) if row is not None and row[0] is not None else {}
    return recorded


def finish(operation: OperationId, detail: Mapping[str, object], *, changed: bool = True) -> Script[None]:
    """Record the result of an operation, with ids and times only."""
    yield from run(FINISH, id=operation, outcome="done" if changed else "nothing", detail=msgspec.json.encode(detail))
