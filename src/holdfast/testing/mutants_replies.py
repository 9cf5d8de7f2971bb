"""Mutants of the reply ledger: answers that arrive twice or never."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdfast.outbox import reply_sender, reply_sql
from holdfast.outbox.post import Doubtful, NotSent, SendOutcome, Sent
from holdfast.outbox.reply import ReplyClaim, ReplySettlement, after_send
from holdfast.testing.mutant import Patch, mutant

NO_DOUBT = {
    f"case when doubts = 0 or {reply_sql.EDITS} then 'pending' else 'uncertain' end": "'pending'",
    f"case when doubts = 0 then 1 when {reply_sql.EDITS} then doubts else 2 end": "doubts",
}


def _replaced(sql: str, changes: dict[str, str]) -> str:
    for old, new in changes.items():
        assert old in sql, old
        sql = sql.replace(old, new)
    return sql


@mutant("I10", budget=20, posts=True, short=61)
def attempting_after_send() -> Sequence[Patch]:
    """A crash while a reply is sent looks like "not sent yet": it is sent again as if for the first time."""
    names = ("DOUBT_REPLIES", "DOUBT_ORPHANED_REPLIES")
    return [(reply_sql, name, _replaced(getattr(reply_sql, name), NO_DOUBT)) for name in names]


@mutant("I10", budget=20, posts=True, short=61)
def resend_without_doubt() -> Sequence[Patch]:
    """A reply whose answer was lost is sent again as if it had certainly not been posted."""

    def broken(claim: ReplyClaim, outcome: SendOutcome, **how: Any) -> ReplySettlement:  # noqa: ANN401
        if isinstance(outcome, Doubtful):
            outcome = NotSent(outcome.reason)
        return after_send(claim, outcome, **how)

    return [(reply_sender, "after_send", broken)]


@mutant("I10", budget=20, posts=True, short=61)
def third_send() -> Sequence[Patch]:
    """A reply whose outcome is unknown is resent until the platform answers."""

    def broken(claim: ReplyClaim, outcome: SendOutcome, **how: Any) -> ReplySettlement:  # noqa: ANN401
        if isinstance(outcome, Doubtful):
            return replace(after_send(replace(claim, doubts=0), outcome, **how), doubts=1)
        return after_send(claim, outcome, **how)

    return [(reply_sender, "after_send", broken)]


@mutant("I10", budget=10, posts=True, short=9)
def reply_out_of_order() -> Sequence[Patch]:
    """Replies are sent as soon as they are due, before earlier replies of the chat."""
    return [(reply_sql, "HEADS", reply_sql.HEADS.replace(reply_sql.FIRST_OF_ITS_ADDRESS, "1 = 1"))]


@mutant("I10", budget=60, posts=True, short=61)
def stale_settle() -> Sequence[Patch]:
    """A reply sender whose lease expired may still settle a reply."""
    fence = {"and state = 'attempting' and owner = :node and attempt = :attempt and part = :sent": ""}
    return [(reply_sql, "SETTLE", _replaced(reply_sql.SETTLE, fence))]


@mutant("I10", budget=40, posts=True, short=61)
def pieces_begin_again() -> Sequence[Patch]:
    """A long reply that was interrupted begins with its first piece again."""

    def broken(claim: ReplyClaim, outcome: SendOutcome, **how: Any) -> ReplySettlement:  # noqa: ANN401
        settlement = after_send(claim, outcome, **how)
        return settlement if isinstance(outcome, Sent) else replace(settlement, part=0)

    return [(reply_sender, "after_send", broken)]


@mutant("I10", "I15", budget=20, posts=True, short=13)
def uncertain_blocks() -> Sequence[Patch]:
    """An uncertain reply blocks the replies behind it."""
    broken = reply_sql.FIRST_OF_ITS_ADDRESS.replace(
        "('pending', 'attempting')", "('pending', 'attempting', 'uncertain')"
    )
    return [(reply_sql, "HEADS", reply_sql.HEADS.replace(reply_sql.FIRST_OF_ITS_ADDRESS, broken))]
