"""observe_messages: the holder of a claim journals messages that open no turn (D12)."""

from collections.abc import Sequence

from holdfast.inbox.mailbox import Claim
from holdfast.inbox.message import MessageState
from holdfast.kernel.errors import InvariantBroken
from holdfast.kernel.ids import MessageId, Principal, SessionId
from holdfast.store.script import Script, many, one, run, verb
from holdfast.turns.fence_sql import hold, lighten
from holdfast.turns.journal import Observed
from holdfast.turns.journal_sql import append
from holdfast.turns.turn import Committed
from holdfast.turns.turn_sql import live_session

READ_WAITING = """
select message, principal, event_id, body, sender_name from inbound
 where message = :message and mailbox = :mailbox and state = 'waiting'"""
OBSERVE = "update inbound set state = :state, reason = :reason, session = :session where message = :message"
OBSERVED_SESSION = """
update session
   set last_seq = :last_seq, committed_seq = :last_seq, active_at = :now,
       several = case when :alone = 1 and principal = :principal then several else 1 end
 where id = :session"""


@verb
def observe_messages(
    claim: Claim, session: SessionId, messages: Sequence[MessageId], *, held: str | None = None
) -> Script[Committed]:
    claimed = yield from hold(claim)
    waiting = []
    for message in messages:
        found = yield from one(READ_WAITING, message=message, mailbox=claim.mailbox)
        if found is not None:
            waiting.append(found)
    if not waiting:
        return Committed(claimed.depth)
    row = yield from live_session(claim, claimed, session, Principal(waiting[0][1]))
    if row[2] is not None:
        raise InvariantBroken(f"talk is observed while turn {row[2]} of {session} is open", session=session)
    bodies = [
        Observed(text=bytes(body).decode(), principal=principal, message=message, event_id=event_id, name=name or "")
        for message, principal, event_id, body, name in waiting
    ]
    last_seq = yield from append(session, 0, row[0], bodies, claim)
    state = MessageState.HELD if held else MessageState.OBSERVED
    yield from many(
        OBSERVE,
        [{"message": found[0], "state": state.value, "reason": held, "session": session} for found in waiting],
    )
    speakers = {found[1] for found in waiting}
    alone = int(len(speakers) == 1)
    yield from run(OBSERVED_SESSION, session=session, last_seq=last_seq, principal=min(speakers), alone=alone)
    yield from lighten(claim, len(waiting))
    return Committed(claimed.depth - len(waiting))
