"""Nodes and claims: which nodes are alive, and which node holds each mailbox."""

from dataclasses import dataclass

from holdfast.inbox.mailbox import Claim
from holdfast.kernel.errors import NodeLost
from holdfast.kernel.ids import AgentName, MailboxId, NodeId
from holdfast.outbox.reply_sql import DOUBT_ALL_REPLIES, DOUBT_ORPHANED_REPLIES, DOUBT_REPLIES, ORPHANED_REPLY
from holdfast.store.script import Script, claim_name, many, one, rows, run, verb

REGISTER = """
insert into node (id, host, started_at, heartbeat_at) values (:node, :host, :now, :now)
on conflict (id) do update set heartbeat_at = excluded.heartbeat_at"""
VOID_ALL = "update mailbox set owner = null, fence = fence + 1 where owner is not null and owner <> :node"
VOID_ALL_LANES = "update lane set owner = null, fence = fence + 1 where owner is not null and owner <> :node"
VOID_ALL_FINISHES = "update finalisation set owner = null, fence = fence + 1 where owner is not null and owner <> :node"
END_OTHERS = """
update operation set ended_at = :now, outcome = 'abandoned' where ended_at is null and owner <> :node"""
FORGET_OTHERS = "delete from node where id <> :node"
RENEW = "update node set heartbeat_at = :now where id = :node returning id"
DEAD = "select id from node where heartbeat_at <= cast(:now as int8) - cast(:lease_ms as int8) /*lock*/"
VOID = "update mailbox set owner = null, fence = fence + 1 where owner = :node returning id"
# A node may commit a claim or an operation while it is being reaped: the next reaping voids it.
VOID_ORPHANS = """
update mailbox set owner = null, fence = fence + 1
 where owner is not null and not exists (select 1 from node where node.id = mailbox.owner) returning id"""
VOID_ORPHAN_LANES = """
update lane set owner = null, fence = fence + 1
 where owner is not null and not exists (select 1 from node where node.id = lane.owner)"""
VOID_LANES = "update lane set owner = null, fence = fence + 1 where owner = :node"
VOID_ORPHAN_FINISHES = """
update finalisation set owner = null, fence = fence + 1
 where owner is not null and not exists (select 1 from node where node.id = finalisation.owner)"""
VOID_FINISHES = "update finalisation set owner = null, fence = fence + 1 where owner = :node"
END_ORPHANS = """
update operation set ended_at = :now, outcome = 'abandoned'
 where ended_at is null and not exists (select 1 from node where node.id = operation.owner) returning id"""
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
END = (
    "update operation set ended_at = :now, outcome = 'abandoned' where ended_at is null and owner = :node returning id"
)
FORGET = "delete from node where id = :node"
# Claims that the caller already holds under the same name are returned unchanged, and no others.
CLAIM = """
with mine as (select id from mailbox where owner = :node and claim = :name and :name <> ''),
     free as materialized
     (select id from mailbox
       where owner is null and ready_at is not null and ready_at <= :now
         and exists (select 1 from node where node.id = :node) and not exists (select 1 from mine)
       order by ready_at, id limit :limit /*skip locked*/)
update mailbox
   set fence = fence + case when owner is null then 1 else 0 end,
       claimed_at = case when owner is null then :now else claimed_at end,
       owner = :node, claim = :name
 where id in (select id from mine union all select id from free)
returning ready_at, id, fence, agent, address"""
# A mailbox whose turn awaits a human sleeps until the question is decided, stopped or overdue, even with mail (D9).
RELEASE = """
update mailbox
   set owner = null,
       ready_at = case when depth <= 0 then null
                       when waits_until > cast(:now as int8) + cast(:retry_in_ms as int8) then waits_until
                       else cast(:now as int8) + cast(:retry_in_ms as int8) end
 where id = :mailbox and fence = :fence and owner = :node"""


@dataclass(frozen=True, slots=True)
class Reaped:
    nodes: int
    claims: int
    operations: int


@verb
def register_node(node: NodeId, host: str, *, sole: bool) -> Script[None]:
    yield from run(REGISTER, node=node, host=host)
    if sole:
        yield from run(FORGET_OTHERS, node=node)  # first, in the lock order of reap_nodes
        yield from run(VOID_ALL, node=node)
        yield from run(VOID_ALL_LANES, node=node)
        yield from run(VOID_ALL_FINISHES, node=node)
        yield from run(DOUBT_ALL_REPLIES, node=node)
        yield from run(END_OTHERS, node=node)


@verb
def renew_node(node: NodeId) -> Script[None]:
    if (yield from one(RENEW, node=node)) is None:
        raise NodeLost(f"node {node} was taken for dead", node=node)


@verb
def retire_node(node: NodeId) -> Script[None]:
    yield from run(FORGET, node=node)  # first, in the lock order of reap_nodes: the node's row, then its claims
    yield from rows(VOID, node=node)
    yield from run(VOID_LANES, node=node)
    yield from run(VOID_FINISHES, node=node)
    yield from run(DOUBT_REPLIES, node=node)
    yield from rows(END, node=node)


@verb
def reap_nodes(*, lease_ms: int) -> Script[Reaped]:
    dead = yield from rows(DEAD, lease_ms=lease_ms)
    yield from many(FORGET, [{"node": node} for (node,) in dead])
    if not dead and (yield from one(ORPHANED)) is None:
        return Reaped(nodes=0, claims=0, operations=0)  # the usual case
    claims = yield from rows(VOID_ORPHANS)
    yield from run(VOID_ORPHAN_LANES)
    yield from run(VOID_ORPHAN_FINISHES)
    yield from run(DOUBT_ORPHANED_REPLIES)
    operations = yield from rows(END_ORPHANS)
    return Reaped(nodes=len(dead), claims=len(claims), operations=len(operations))


@verb(lock=claim_name)
def claim_mailbox(node: NodeId, *, name: str = "") -> Script[Claim | None]:
    claims = yield from claim_mailboxes(node, name=name, limit=1)
    return claims[0] if claims else None


@verb(lock=claim_name)
def claim_mailboxes(node: NodeId, *, name: str = "", limit: int) -> Script[tuple[Claim, ...]]:
    """Claim the mailboxes that have been ready for longest. A repeated call of the same name gets the same claims."""
    found = yield from rows(CLAIM, node=node, name=name, limit=limit)
    return tuple(
        Claim(mailbox=MailboxId(mailbox), fence=fence, node=node, agent=AgentName(agent), address=address)
        for _, mailbox, fence, agent, address in sorted(found, key=lambda row: (row[0] or 0, row[1]))
    )


@verb
def release_claim(claim: Claim, *, retry_in_ms: int = 0) -> Script[None]:
    yield from run(RELEASE, mailbox=claim.mailbox, fence=claim.fence, node=claim.node, retry_in_ms=retry_in_ms)
