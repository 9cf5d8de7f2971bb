"""Nodes: which are alive, what becomes of the claims of a dead one, and what is due next for the loops of one.

A node reads about once a second what is due, in one statement, whatever the number of agents, providers and accounts:
other processes make work due as well, and work becomes due with time. Each time is read from the front of an index of
open work. Lanes and replies are indexed by their provider and account; the statement goes from one such group with open
work to the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.kernel.errors import NodeLost
from holdfast.kernel.ids import Instant, NodeId
from holdfast.memory.lane_sql import WAITING_LANES
from holdfast.outbox import reply_sql
from holdfast.store.script import Row, Script, many, one, rows, run, verb

VOID = "set owner = null, fence = fence + 1"
OF_OTHERS = "owner is not null and owner <> :node"
OF_NODE = "owner = :node"
# A node may commit a claim or an operation while it is being reaped: the next reaping voids it.
OF_NOBODY = "owner is not null and not exists (select 1 from node where node.id = owner)"
ORPHANED = f"""
select 1
 where exists (select 1 from mailbox where {OF_NOBODY})
    or exists (select 1 from lane where {OF_NOBODY})
    or exists (select 1 from finalisation where {OF_NOBODY})
    or exists (select 1 from operation where ended_at is null and {OF_NOBODY})
    or exists (select 1 from reply where {reply_sql.ORPHANED_REPLY})"""
COLUMNS = f"""
cast(:now as int8),
(select min(ready_at) from mailbox where owner is null and ready_at is not null and paused <> 1),
(select min(due_at) from ({WAITING_LANES}) as lanes),
(select min(due_at) from cursor where due_at is not null),
(select min(due_at) from ({reply_sql.WAITING_REPLIES}) as replies),
(select min(due_at) from finalisation where owner is null and ended_at is null),
(select min(heartbeat_at) from node),
case when exists ({ORPHANED}) then 1 else 0 end"""
UPCOMING = f"select {COLUMNS}"
REGISTER = """
insert into node (id, host, started_at, heartbeat_at) values (:node, :host, :now, :now)
on conflict (id) do update set heartbeat_at = excluded.heartbeat_at"""
BEGIN_RUN = """
insert into node_run (id, host, started_at, seen_at) values (:node, :host, :now, :now)
on conflict (id) do nothing"""
# A run ends once: in the transaction that deletes the node's row, after it.
END_RUN = """
update node_run set ended_at = :now, ending = :ending, seen_at = coalesce(cast(:seen_at as int8), cast(:now as int8))
 where id = :node"""
FORGET_RUNS = """
delete from node_run where ended_at < cast(:now as int8) - cast(:kept_ms as int8)"""
RUNS_KEPT_MS = 90 * 24 * 3_600_000
END_OTHERS = """
update operation set ended_at = :now, outcome = 'abandoned' where ended_at is null and owner <> :node"""
FORGET_OTHERS = "delete from node where id <> :node returning id, heartbeat_at"
HEARTBEAT = "select max(heartbeat_at) from node where :node = '' or id = :node"
RENEW = f"update node set heartbeat_at = :now where id = :node returning {COLUMNS}"
DEAD = "select id, heartbeat_at from node where heartbeat_at <= cast(:now as int8) - cast(:lease_ms as int8) /*lock*/"
END_ORPHANS = """
update operation set ended_at = :now, outcome = 'abandoned'
 where ended_at is null and not exists (select 1 from node where node.id = operation.owner) returning id"""
END = (
    "update operation set ended_at = :now, outcome = 'abandoned' where ended_at is null and owner = :node returning id"
)
FORGET = "delete from node where id = :node returning id"


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


@dataclass(frozen=True, slots=True)
class Reaped:
    nodes: int
    claims: int
    operations: int


@verb
def register_node(node: NodeId, host: str, *, sole: bool) -> Script[None]:
    yield from run(REGISTER, node=node, host=host)
    yield from run(BEGIN_RUN, node=node, host=host)
    yield from run(FORGET_RUNS, kept_ms=RUNS_KEPT_MS)
    if sole:
        others = yield from rows(FORGET_OTHERS, node=node)  # first, in the lock order of reap_nodes
        yield from _end_runs(others)
        yield from _void(OF_OTHERS, node)
        yield from reply_sql.doubt_replies_of_others(node)
        yield from run(END_OTHERS, node=node)


def _void(which: str, node: str = "") -> Script[int]:
    """Void the claims of mailboxes, lanes and extractions, in this order; returns the number of mailboxes."""
    mailboxes = yield from rows(f"update mailbox {VOID} where {which} returning id", node=node)
    yield from run(f"update lane {VOID} where {which}", node=node)
    yield from run(f"update finalisation {VOID} where {which}", node=node)
    return len(mailboxes)


def _end_runs(lost: Sequence[Row]) -> Script[None]:
    """End the runs of nodes that gave no sign of life any more; each row is a node and its last heartbeat."""
    yield from many(END_RUN, [{"node": node, "ending": "lost", "seen_at": seen_at} for node, seen_at in lost])


@verb
def read_upcoming() -> Script[Upcoming]:
    return Upcoming(*((yield from one(UPCOMING)) or (0,)))


@verb
def read_heartbeat(node: NodeId | None = None) -> Script[Instant | None]:
    """The newest sign of life of a node, or of any; None if none is registered."""
    row = yield from one(HEARTBEAT, node=node or "")
    return None if row is None or row[0] is None else Instant(row[0])


@verb
def renew_node(node: NodeId) -> Script[Upcoming]:
    """Renew the lease of a node; returns what is due next."""
    row = yield from one(RENEW, node=node)
    if row is None:
        raise NodeLost(f"node {node} was taken for dead", node=node)
    return Upcoming(*row)


@verb
def retire_node(node: NodeId) -> Script[None]:
    here = yield from rows(FORGET, node=node)  # first, in the lock order of reap_nodes: the node's row, then its claims
    yield from many(END_RUN, [{"node": node, "ending": "stopped", "seen_at": None} for _ in here])
    yield from _void(OF_NODE, node)
    yield from reply_sql.doubt_replies(node)
    yield from rows(END, node=node)


@verb
def reap_nodes(*, lease_ms: int) -> Script[Reaped]:
    dead = yield from rows(DEAD, lease_ms=lease_ms)
    yield from many(FORGET, [{"node": node} for node, _ in dead])
    yield from _end_runs(dead)
    if not dead and (yield from one(ORPHANED)) is None:
        return Reaped(nodes=0, claims=0, operations=0)  # the usual case
    claims = yield from _void(OF_NOBODY)
    yield from reply_sql.doubt_orphaned_replies()
    operations = yield from rows(END_ORPHANS)
    return Reaped(nodes=len(dead), claims=claims, operations=len(operations))
