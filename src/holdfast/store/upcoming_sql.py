"""What is due next, for all loops of a node in one statement, whatever the number of agents, providers and accounts.

A node reads it about once a second: other processes make work due as well, and work becomes due with time. Each time is
read from the front of an index of open work. Lanes and replies are indexed by their provider and account; the statement
goes from one such group with open work to the next.
"""

from dataclasses import dataclass

from holdfast.kernel.ids import Instant
from holdfast.memory.lane_sql import WAITING_LANES
from holdfast.outbox.reply_sql import ORPHANED_REPLY, WAITING_REPLIES
from holdfast.store.script import Row, Script, one, verb

ORPHANED = f"""
select 1
 where exists (select 1 from mailbox
                where owner is not null and not exists (select 1 from node where node.id = mailbox.owner))
    or exists (select 1 from lane
                where owner is not null and not exists (select 1 from node where node.id = lane.owner))
    or exists (select 1 from finalisation
               where owner is not null and not exists (select 1 from node where node.id = finalisation.owner))
    or exists (select 1 from operation
                where ended_at is null and not exists (select 1 from node where node.id = operation.owner))
    or exists (select 1 from reply where {ORPHANED_REPLY})"""
COLUMNS = f"""
cast(:now as int8),
(select min(ready_at) from mailbox where owner is null and ready_at is not null),
(select min(due_at) from ({WAITING_LANES}) as lanes),
(select min(due_at) from cursor where due_at is not null),
(select min(due_at) from ({WAITING_REPLIES}) as replies),
(select min(due_at) from finalisation where owner is null and ended_at is null),
(select min(heartbeat_at) from node),
case when exists ({ORPHANED}) then 1 else 0 end"""
UPCOMING = f"select {COLUMNS}"


@dataclass(frozen=True, slots=True)
class Upcoming:
    """The next due times by the store's clock `now`; None where nothing waits."""

    now: Instant
    mail_at: Instant | None = None
    lane_at: Instant | None = None
    overdue_at: Instant | None = None  # pending turns that become a unit
    reply_at: Instant | None = None
    finish_at: Instant | None = None
    silent_since: Instant | None = None  # the oldest heartbeat of a node
    orphaned: int = 0  # whether a claim or an operation belongs to no node


@verb
def read_upcoming() -> Script[Upcoming]:
    return upcoming_of((yield from one(UPCOMING)) or (0,))


def upcoming_of(row: Row) -> Upcoming:
    return Upcoming(*row)
