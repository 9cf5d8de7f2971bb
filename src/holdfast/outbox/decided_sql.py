"""What a person decides about a reply: it is sent again, it is given up, or it did arrive.

The caller has locked the row of the reply and checked its state.
"""

from holdfast.outbox.reply import POSSIBLE_DUPLICATE
from holdfast.store.script import Script, rows, run

# A resend continues with the first piece that is not known to be posted; if all were posted, it starts over.
AGAIN = """
update reply
   set state = 'pending', due_at = :now, settled_at = null, doubts = case when doubts = 0 then 0 else 2 end,
       part = case when reason = :all_posted then 0 else part end, decided_by = null,
       reason = 'sent again by an operator'
 where n = :n"""
GIVE_UP = """
update reply
   set state = case when state <> 'pending' then state when doubts = 0 then 'failed' else 'uncertain' end,
       settled_at = coalesce(settled_at, :now), decided_by = :who,
       reason = case when reason is null then '' else reason || '; ' end || 'given up by ' || cast(:who as text)
 where n = :n returning state"""
ARRIVED = "update reply set state = 'delivered', settled_at = :now, decided_by = :who, reason = null where n = :n"


def send_again(n: int) -> Script[str]:
    """Send an uncertain or failed reply, whose row is locked, once more; returns its new state."""
    yield from run(AGAIN, n=n, all_posted=POSSIBLE_DUPLICATE)
    return "pending"


def give_up_reply(n: int, who: str) -> Script[str]:
    """Give up a reply, whose row is locked and which nobody sends; returns its new state."""
    ((state,),) = yield from rows(GIVE_UP, n=n, who=who)
    return str(state)


def settle_reply_as_arrived(n: int, who: str) -> Script[str]:
    """Settle an uncertain reply, whose row is locked, by the word of a person; returns its new state."""
    yield from run(ARRIVED, n=n, who=who)
    return "delivered"
