"""Gauges: the current amounts of waiting work. A partial index over open rows answers each query."""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.kernel.ids import Instant
from holdfast.store.script import Script, one, rows, verb

WAITING = """
select mailbox.agent, count(*) from inbound join mailbox on mailbox.id = inbound.mailbox
 where inbound.state in ('waiting', 'in_turn') group by mailbox.agent"""
OLDEST = """
select cast(:now as int8),
       (select min(ready_at) from mailbox where owner is null and ready_at <= :now)"""
DELIVERIES = """
select provider, state, count(*) from delivery
 where state in ('scheduled', 'sending', 'uncertain') group by provider, state"""
PARKED = "select provider, state, count(*) from delivery where state = 'parked' group by provider, state"
REPLIES = "select channel, state, count(*) from reply where state <> 'delivered' group by channel, state"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """Counts of waiting work, at the store's own time."""

    at: Instant
    messages_waiting: Mapping[str, int]  # by agent, including those of an open turn
    oldest_ready_at: Instant | None  # when the longest-waiting mailbox became ready
    deliveries: Mapping[tuple[str, str], int]  # by provider and state, without delivered ones
    replies: Mapping[tuple[str, str], int]  # by channel and state, without delivered ones


@verb
def read_gauges() -> Script[Gauges]:
    at, oldest = (yield from one(OLDEST)) or (0, None)
    waiting = yield from rows(WAITING)
    open_ = yield from rows(DELIVERIES)
    parked = yield from rows(PARKED)
    replies = yield from rows(REPLIES)
    return Gauges(
        at=Instant(at),
        messages_waiting=dict(waiting),
        oldest_ready_at=None if oldest is None else Instant(oldest),
        deliveries={(provider, state): count for provider, state, count in [*open_, *parked]},
        replies={(channel, state): count for channel, state, count in replies},
    )
