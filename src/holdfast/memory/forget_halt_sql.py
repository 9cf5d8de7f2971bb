"""Halting for forgetting: the open turn and the waiting messages that contain forgotten words are ended.

The mailbox's claim is voided first, so that a worker that still has the words can no longer write them.
"""

from collections.abc import Iterable, Sequence

from holdfast.kernel.ids import AgentName, Principal, SessionId
from holdfast.store.script import Row, Script, one, rows, run
from holdfast.turns import approval_sql
from holdfast.turns.fence_sql import LIGHTEN
from holdfast.turns.turn import Phase, TurnEvent, advance

FORGOTTEN = "forgotten"  # the reason stored with the envelopes
LIVE_IN = "select id from mailbox where session_id = :session"
VOID = "update mailbox set owner = null, claim = null, fence = fence + 1 where id = :mailbox"
LEAVE = "update mailbox set session_id = null where session_id = :session"
OPEN_TURN = """
select turn.n, turn.phase from session join turn on turn.session = session.id and turn.n = session.open_turn
 where session.id = :session"""
CLOSE_TURN = """
update turn
   set phase = :phase, closed_at = :now, reason = :reason,
       fence = (select fence from mailbox where id = :mailbox),
       lease_fence = (select fence from mailbox where id = :mailbox)
 where session = :session and n = :n"""
CLOSE_SESSION = "update session set open_turn = null, committed_seq = last_seq where id = :session"
IN_TURN = """
update inbound set state = 'interrupted', reason = :reason
 where mailbox = :mailbox and state in ('waiting', 'in_turn') and state = 'in_turn' returning message"""
WAITING = """
update inbound set state = 'interrupted', reason = :reason, body = :blank
 where state in ('waiting', 'in_turn') and state = 'waiting' and principal = :person
   and mailbox in (select id from mailbox where agent = :agent) returning mailbox"""

IS_OPEN = "select 1 from session where id = :session and open_turn is not null"
LETTER = """
update inbound set state = 'interrupted', reason = :reason, body = :blank
 where message = :message and state in ('waiting', 'in_turn') and state = 'waiting' returning mailbox"""


def halt_turn(session: SessionId, turns: frozenset[int] | None = None) -> Script[None]:
    """End the open turn, if there is one; with `turns`, only if it is one of them."""
    found: Row | None = yield from one(OPEN_TURN, session=session)
    box = yield from one(LIVE_IN, session=session)
    if found is None or box is None or (turns is not None and found[0] not in turns):
        return
    phase = advance(Phase(found[1]), TurnEvent.INTERRUPTED)
    yield from run(VOID, mailbox=box[0])
    yield from run(CLOSE_TURN, session=session, n=found[0], phase=phase.value, reason=FORGOTTEN, mailbox=box[0])
    yield from run(CLOSE_SESSION, session=session)
    yield from approval_sql.close(box[0], session, found[0])
    ended = yield from rows(IN_TURN, mailbox=box[0], reason=FORGOTTEN)
    yield from run(LIGHTEN, mailbox=box[0], count=len(ended), release=0)


def void_claim(session: SessionId) -> Script[None]:
    """Void the claim on the session's open turn; the turn is resumed with a newly read context."""
    box = yield from one(LIVE_IN, session=session)
    if box is not None and (yield from one(IS_OPEN, session=session)) is not None:
        yield from run(VOID, mailbox=box[0])


def leave_mailbox(session: SessionId) -> Script[None]:
    """Detach the session from its mailbox, and void the mailbox's claim."""
    box = yield from one(LIVE_IN, session=session)
    if box is not None:
        yield from run(VOID, mailbox=box[0])
        yield from run(LEAVE, session=session)


def drop_mail(agent: AgentName, person: Principal) -> Script[int]:
    """Drop the waiting messages of a person; their number."""
    found = yield from rows(WAITING, agent=agent, person=person, reason=FORGOTTEN, blank=b"")
    return (yield from _decrement([mailbox for (mailbox,) in found]))


def drop_agent_messages(messages: Iterable[str]) -> Script[int]:
    """Drop waiting messages of other agents; their number."""
    boxes: list[str] = []
    for message in sorted(messages):
        boxes += [row[0] for row in (yield from rows(LETTER, message=message, reason=FORGOTTEN, blank=b""))]
    return (yield from _decrement(boxes))


def _decrement(boxes: Sequence[str]) -> Script[int]:
    """Decrement each mailbox's message count by its number of occurrences."""
    for mailbox in sorted(set(boxes)):
        yield from run(VOID, mailbox=mailbox)
        yield from run(LIGHTEN, mailbox=mailbox, count=boxes.count(mailbox), release=0)
    return len(boxes)
