"""Guarantees of the composed transactions of a worker, broken on purpose: each is split where a node may die."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdfast.inbox.mailbox import Claim, Mail
from holdfast.store.script import Call, Script, run
from holdfast.testing.mutant import Patch, arguments, mutant
from holdfast.testing.watched import NodeDatabase
from holdfast.turns import work_sql
from holdfast.turns.turn import Turn
from holdfast.turns.work_sql import KnownContexts, Planner, Work

BUDGET = 30
RELEASE = """
update mailbox set owner = null, ready_at = null, depth = depth - :count
 where id = :mailbox and fence = :fence and depth = :count"""


@mutant("I9", budget=BUDGET, short=3)
def context_outside_the_claim() -> Sequence[Patch]:
    """A worker starts with the context from before its claim, which lacks the message that opened the turn."""
    honest = work_sql._begin  # noqa: SLF001

    def broken(claim: Claim, mail: Mail, planner: Planner, known: KnownContexts) -> Script[Work | None]:
        work = yield from honest(claim, mail, planner, known)
        if work is None or work.turn is None or work.context is None:
            return work
        before = known(work.turn.session)
        return work if before is None else replace(work, context=replace(before, open_turn=work.turn.n))

    return [(work_sql, "_begin", broken)]


@mutant("I15", budget=BUDGET, short=62)
def released_before_the_commit() -> Sequence[Patch]:
    """The mailbox is released in a transaction before the one that ends its last turn."""
    honest = NodeDatabase.write

    async def broken(db: NodeDatabase, call: Call[Any]) -> Any:  # noqa: ANN401
        if call.verb == work_sql.end_turn.name:
            claim, turn, *_ = arguments(call)
            await honest(db, Call(call.verb, lambda: _release(claim, turn)))
        return await honest(db, call)

    return [(NodeDatabase, "write", broken)]


def _release(claim: Claim, turn: Turn) -> Script[None]:
    yield from run(RELEASE, mailbox=claim.mailbox, fence=claim.fence, count=len(turn.messages))
