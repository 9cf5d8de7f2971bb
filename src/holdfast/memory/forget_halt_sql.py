"""Ending what is under way with words that are being forgotten: an open turn, mail that waits.

The claim on the mailbox is voided first, so a worker that still thinks about those words can no longer write them.
"""

from collections.abc import Iterable, Sequence

from holdfast.kernel.ids import AgentName, Principal, SessionId
from holdfast.store.script import Row, Script, one, rows, run
from holdfast.turns import approval_sql
from holdfast.turns.fence_sql import LIGHTEN
from holdfast.turns.turn import Phase, TurnEvent, advance

FORGOTTEN = "forgotten"  # the reason that the envelopes keep
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
    """End the open turn, if there is one (and it is among `turns`, where they are given)."""
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
    yield from run(LIGHTEN, mailbox=box[0], count=len(ended))


def void_claim(session: SessionId) -> Script[None]:
    """Whoever runs the open turn of the session loses it; the turn is resumed with a context that is read anew."""
    box = yield from one(LIVE_IN, session=session)
    if box is not None and (yield from one(IS_OPEN, session=session)) is not None:
        yield from run(VOID, mailbox=box[0])


def leave_mailbox(session: SessionId) -> Script[None]:
    """No mailbox is in the session any more, and no claim thinks that it is."""
    box = yield from one(LIVE_IN, session=session)
    if box is not None:
        yield from run(VOID, mailbox=box[0])
        yield from run(LEAVE, session=session)


def drop_mail(agent: AgentName, person: Principal) -> Script[int]:
    """Mail of a person that waits to be answered is not answered any more; how much there was."""
    found = yield from rows(WAITING, agent=agent, person=person, reason=FORGOTTEN, blank=b"")
    return (yield from _lightened([mailbox for (mailbox,) in found]))


def drop_letters(messages: Iterable[str]) -> Script[int]:
    """Messages of other agents that wait are not answered any more; how many there were."""
    boxes: list[str] = []
    for message in sorted(messages):
        boxes += [row[0] for row in (yield from rows(LETTER, message=message, reason=FORGOTTEN, blank=b""))]
    return (yield from _lightened(boxes))


def _lightened(boxes: Sequence[str]) -> Script[int]:
    """One message less for each time that a mailbox is named."""
    for mailbox in sorted(set(boxes)):
        yield from run(VOID, mailbox=mailbox)
        yield from run(LIGHTEN, mailbox=mailbox, count=boxes.count(mailbox))
    return len(boxes)
