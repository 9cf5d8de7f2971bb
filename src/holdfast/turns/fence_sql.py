"""The fence: every write of a worker checks its claim here, inside its transaction.

`hold` locks the mailbox row until commit and compares the claim with it. A plain select of the fence would not suffice:
a newer claim could be taken between the select and the commit.
"""

from dataclasses import dataclass

from holdfast.inbox.mailbox import Claim
from holdfast.kernel.errors import ClaimLost
from holdfast.kernel.ids import SessionId
from holdfast.store.script import Query, Row, Script, run, together

HOLD = """
select id, fence, session_id, depth, unattended from mailbox where id in (:mailbox, :other) order by id /*lock*/"""


@dataclass(frozen=True, slots=True)
class Held:
    """A locked mailbox."""

    fence: int
    session: SessionId | None
    depth: int
    unattended: int


def hold(claim: Claim, *, session: SessionId | None = None, other: str = "") -> Script[Held]:
    """Lock the mailbox (and another, in id order) and verify the claim."""
    (found,) = yield from together(hold_query(claim, other=other))
    return held_of(claim, found, session)


def hold_query(claim: Claim, *, other: str = "") -> Query:
    """The statement that locks; `held_of` takes its rows."""
    return Query(HOLD, {"mailbox": claim.mailbox, "other": other})


def held_of(claim: Claim, found: list[Row], session: SessionId | None) -> Held:
    """The mailbox that was locked. Raises `ClaimLost`."""
    mine = next((row for row in found if row[0] == claim.mailbox), None)
    if mine is None or not stands(claim, mine[1]):
        raise ClaimLost(f"fence {claim.fence} is behind {mine and mine[1]}", mailbox=claim.mailbox)
    if session is not None and mine[2] != session:
        raise ClaimLost(f"session {session} is not live in {claim.mailbox}", mailbox=claim.mailbox)
    return Held(mine[1], mine[2], mine[3], mine[4])


def stands(claim: Claim, fence: int) -> bool:
    return claim.fence == fence


LIGHTEN = """
update mailbox
   set depth = depth - :count, owner = case when :release = 1 then null else owner end,
       ready_at = case when depth - :count > 0 then cast(:now as int8) else null end
 where id = :mailbox"""


def lighten(claim: Claim, count: int, *, release: bool = False) -> Script[None]:
    """Subtract `count` finished messages; the mailbox stays ready while any is left. `release` ends the claim."""
    yield from run(LIGHTEN, mailbox=claim.mailbox, count=count, release=int(release))
