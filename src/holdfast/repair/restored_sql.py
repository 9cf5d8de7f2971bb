"""Settling a store that was restored from a backup, before anything serves it.

What the backup calls under way may have happened after it was made: a reply may have been sent, a delivery may have
landed. A reply is uncertain from here on, and sent only if a person says so; of a delivery the provider is asked first.
A message between agents of one store stays pending: its mailbox recognises a repetition.
"""

from dataclasses import dataclass

from holdfast.audit import action_sql
from holdfast.audit.action import PROGRAM, Act, By
from holdfast.store.script import Script, one, rows, run, verb

SINCE_THE_BACKUP = "it was open in the backup that was restored, and may have been sent since"
DOUBT_REPLIES = """
update reply
   set state = 'uncertain', doubts = 2, owner = null, claim = null, settled_at = cast(:now as int8), reason = :reason
 where state in ('pending', 'attempting') and channel <> 'agent' returning n"""
DOUBT_DELIVERIES = """
update delivery set state = 'uncertain', uncertain_at = coalesce(uncertain_at, cast(:now as int8)), reason = :reason
 where state in ('scheduled', 'sending', 'uncertain') and state <> 'uncertain' returning n"""
WAITING = "select count(*) from inbound where state in ('waiting', 'in_turn')"
DRAFTS = "delete from draft"


@dataclass(frozen=True, slots=True)
class SettledStore:
    """How many replies and deliveries are in doubt now, and how many messages are answered at the next start."""

    replies: int
    deliveries: int
    messages: int


@verb
def settle_restored(backup: str, *, made_at: int, moved: bool, by: By = PROGRAM) -> Script[SettledStore]:
    """Settle what was under way. With `moved` nothing served the original after the backup, so nothing is in doubt."""
    replies: list[object] = []
    deliveries: list[object] = []
    if not moved:
        replies += yield from rows(DOUBT_REPLIES, reason=SINCE_THE_BACKUP)
        deliveries += yield from rows(DOUBT_DELIVERIES, reason=SINCE_THE_BACKUP)
        yield from run(DRAFTS)  # nobody knows what their chats show now
    (messages,) = (yield from one(WAITING)) or (0,)
    doubted = {"replies": len(replies), "deliveries": len(deliveries)}
    yield from action_sql.record(Act.DATA_RESTORED, by, backup, made_at=made_at, **doubted)
    return SettledStore(replies=len(replies), deliveries=len(deliveries), messages=int(messages))
