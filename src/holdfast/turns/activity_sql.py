"""Storing and reading the activities of turns."""

import json
from collections.abc import Sequence
from typing import Any

from holdfast.inbox.mailbox import Claim
from holdfast.kernel.ids import SessionId
from holdfast.store.script import Columns, Script, many, run
from holdfast.turns.activity import Activity, ActivityKind

INSERT = """
insert into activity (session, turn, fence, kind, name, started_at, ended_at, outcome, call, tokens_in, tokens_out,
                      detail)
values (:session, :turn, :fence, :kind, :name, :started_at, :ended_at, :outcome, :call, :tokens_in, :tokens_out,
        :detail)"""
# The earlier claim may have ended in any way; the node's row says how.
RESUMED = """
insert into activity (session, turn, fence, kind, name, started_at, ended_at, outcome, detail)
select session, n, :fence, :kind, coalesce(node, ''), :now, :now, phase, :detail from turn
 where session = :session and n = :turn"""


def loaded_detail(raw: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bytes(raw))
    return found


ACTIVITY = Columns(Activity, detail=("detail", loaded_detail))
OF_TURN = f"select {ACTIVITY} from activity where session = :session and turn = :turn order by n"


def record_activities(claim: Claim, session: SessionId, turn: int, done: Sequence[Activity]) -> Script[None]:
    """Store what a claim did in a turn."""
    yield from many(
        INSERT,
        [
            {
                "session": session,
                "turn": turn,
                "fence": claim.fence,
                "kind": one.kind.value,
                "name": one.name,
                "started_at": one.started_at,
                "ended_at": one.ended_at,
                "outcome": one.outcome,
                "call": one.call,
                "tokens_in": one.tokens_in,
                "tokens_out": one.tokens_out,
                "detail": json.dumps(one.detail, separators=(",", ":")).encode(),
            }
            for one in done
        ],
    )


def record_resumption(claim: Claim, session: SessionId, turn: int) -> Script[None]:
    """Store that a claim took the turn over. Its name is the node that worked on the turn before."""
    kind = ActivityKind.RESUMPTION.value
    yield from run(RESUMED, session=session, turn=turn, fence=claim.fence, kind=kind, detail=b"{}")


def read_activities(session: str, turn: int) -> Script[list[Activity]]:
    return (yield from ACTIVITY.rows(OF_TURN, session=session, turn=turn))
