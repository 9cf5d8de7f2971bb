"""Reading what waits. Partial indexes over open rows answer every query."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from holdfast.kernel.ids import AgentName, Instant, Provider
from holdfast.memory.lane import LaneKey
from holdfast.monitor.queues import OPEN_DELIVERIES, OPEN_REPLIES, AgentOnChannel, Queue, Queues
from holdfast.store.script import Script, rows, verb

# One statement: an idle node reads it every minute.
QUEUES = """
select 'now' as what, '' as agent, '' as name, '' as state, 0 as n, cast(:now as int8) as oldest
union all
select 'messages', mailbox.agent, '', inbound.state, count(*), min(inbound.at)
  from inbound join mailbox on mailbox.id = inbound.mailbox
 where inbound.state in ('waiting', 'in_turn') group by mailbox.agent, inbound.state
union all
select 'deliveries', agent, provider, state, count(*), min(at) from delivery
 where state in ('scheduled', 'sending', 'uncertain') group by agent, provider, state
union all
select 'deliveries', agent, provider, state, count(*), min(at) from delivery
 where state = 'parked' and decided_by is null group by agent, provider, state
union all
select 'replies', agent, channel, state, count(*), min(at) from reply
 where state <> 'delivered' and decided_by is null group by agent, channel, state"""
K = TypeVar("K")


class QueueRow(NamedTuple):
    what: str
    agent: str
    name: str  # of the provider or the channel
    state: str
    found: int
    oldest_at: Instant


@verb
def read_queues() -> Script[Queues]:
    found = [QueueRow._make(row) for row in (yield from rows(QUEUES))]
    of = {what: [row for row in found if row.what == what] for what in ("now", "messages", "deliveries", "replies")}
    return Queues(
        at=of["now"][0].oldest_at,
        messages=_queues(of["messages"], lambda row: row.agent, ("waiting", "in_turn")),
        deliveries=_queues(of["deliveries"], _lane_key, OPEN_DELIVERIES),
        replies=_queues(of["replies"], lambda row: AgentOnChannel(row.agent, row.name), OPEN_REPLIES),
    )


def _lane_key(row: QueueRow) -> LaneKey:
    return LaneKey(AgentName(row.agent), Provider(row.name))


def _queues(found: Iterable[QueueRow], key: Callable[[QueueRow], K], open_states: tuple[str, ...]) -> dict[K, Queue]:
    states: defaultdict[K, dict[str, int]] = defaultdict(dict)
    oldest: dict[K, Instant] = {}
    for row in found:
        name = key(row)
        states[name][row.state] = row.found
        if row.state in open_states:
            oldest[name] = min(row.oldest_at, oldest.get(name, row.oldest_at))
    return {name: Queue(states=counts, oldest_at=oldest.get(name)) for name, counts in states.items()}
