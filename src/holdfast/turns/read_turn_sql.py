"""The open turn of a session, as its claim holder reads it."""

from collections.abc import Sequence

from holdfast.inbox.agent_chain import loaded
from holdfast.inbox.mailbox import Claim
from holdfast.kernel.errors import InvariantBroken
from holdfast.kernel.ids import ApprovalId, Instant, MessageId, Principal, SessionId
from holdfast.memory.delivery import CallerDirectory
from holdfast.store.script import Query, Row, Script, together
from holdfast.turns import approval_sql
from holdfast.turns.turn import Phase, Turn

READ_TURN = """
select phase, attempt, principal, first_seq, last_seq, stop_at, fence, opened_at,
       (select epoch from session where id = :session), approval, directory, repo, chain,
       (select shared from mailbox where id = turn.mailbox)
  from turn where session = :session and n = :n"""
TURN_MESSAGES = """
select message, hop from inbound
 where mailbox = :mailbox and state in ('waiting', 'in_turn') and state = 'in_turn' order by seq"""


def read_turn(claim: Claim, session: SessionId, n: int, last_seq: int) -> Script[Turn]:
    found = yield from together(*turn_queries(claim, session, n))
    return (yield from turn_of(session, n, last_seq, found))


def turn_queries(claim: Claim, session: SessionId, n: int) -> tuple[Query, Query]:
    """The queries whose rows `turn_of` takes."""
    return Query(READ_TURN, {"session": session, "n": n}), Query(TURN_MESSAGES, {"mailbox": claim.mailbox})


def turn_of(session: SessionId, n: int, last_seq: int, found: Sequence[list[Row]]) -> Script[Turn]:
    row, messages = found[0][0] if found[0] else None, found[1]
    if row is None:
        raise InvariantBroken(f"the open turn {n} of {session} has no row", session=session)
    phase, attempt, principal, first_seq, _, stop_at, _, opened_at, epoch, approval, directory, *more = row
    repo, chain, shared = more
    awaited = (yield from approval_sql.read_approval(ApprovalId(approval))) if phase == Phase.AWAITING.value else None
    return Turn(
        session=session,
        n=n,
        phase=Phase(phase),
        attempt=attempt,
        principal=Principal(principal),
        messages=tuple(MessageId(message) for message, _ in messages),
        first_seq=first_seq,
        last_seq=last_seq,
        epoch=epoch,
        stopping=stop_at is not None,
        opened_at=Instant(opened_at),
        hop=max((hop for _, hop in messages), default=0),
        approval=awaited,
        where=CallerDirectory(directory or "", repo or ""),
        chain=loaded(chain),
        shared=bool(shared),
    )
