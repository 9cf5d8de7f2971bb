"""Nodes and claims: who is alive, and which mailbox is whose."""

from holdfast.core.errors import NodeLost
from holdfast.core.ids import AgentName, MailboxId, NodeId
from holdfast.core.mailbox import Claim
from holdfast.ports.store import Reaped
from holdfast.stores.script import Script, one, rows, run

REGISTER = """
insert into node (id, host, started_at, heartbeat_at) values (:node, :host, :now, :now)
on conflict (id) do update set heartbeat_at = excluded.heartbeat_at"""
VOID_ALL = "update mailbox set owner = null, fence = fence + 1 where owner is not null and owner <> :node"
END_OTHERS = """
update operation set ended_at = :now, outcome = 'abandoned' where ended_at is null and owner <> :node"""
FORGET_OTHERS = "delete from node where id <> :node"
RENEW = "update node set heartbeat_at = :now where id = :node returning id"
DEAD = "select id from node where heartbeat_at <= cast(:now as int8) - cast(:lease_ms as int8) /*lock*/"
VOID = "update mailbox set owner = null, fence = fence + 1 where owner = :node returning id"
END = "update operation set ended_at = :now, outcome = 'abandoned' where ended_at is null and owner = :node returning id"
FORGET = "delete from node where id = :node"
CLAIM = """
update mailbox set owner = :node, fence = fence + 1, claimed_at = :now
 where id = (
   select id from mailbox
    where owner is null and ready_at is not null and ready_at <= :now
      and exists (select 1 from node where node.id = :node)
    order by ready_at, id limit 1 /*skip locked*/)
returning id, fence, agent, address"""
RELEASE = """
update mailbox
   set owner = null,
       ready_at = case when depth > 0 then cast(:now as int8) + cast(:retry_in_ms as int8) else null end
 where id = :mailbox and fence = :fence"""


def register_node(node: NodeId, host: str, sole: bool) -> Script[None]:  # noqa: FBT001
    yield from run(REGISTER, node=node, host=host)
    if sole:
        yield from run(VOID_ALL, node=node)
        yield from run(END_OTHERS, node=node)
        yield from run(FORGET_OTHERS, node=node)


def renew_node(node: NodeId) -> Script[None]:
    if (yield from one(RENEW, node=node)) is None:
        raise NodeLost(f"node {node} was taken for dead", node=node)


def retire_node(node: NodeId) -> Script[None]:
    yield from rows(VOID, node=node)
    yield from rows(END, node=node)
    yield from run(FORGET, node=node)


def reap_nodes(lease_ms: int) -> Script[Reaped]:
    dead = yield from rows(DEAD, lease_ms=lease_ms)
    claims = operations = 0
    for (node,) in dead:
        claims += len((yield from rows(VOID, node=node)))
        operations += len((yield from rows(END, node=node)))
        yield from run(FORGET, node=node)
    return Reaped(nodes=len(dead), claims=claims, operations=operations)


def claim_mailbox(node: NodeId) -> Script[Claim | None]:
    row = yield from one(CLAIM, node=node)
    if row is None:
        return None
    return Claim(mailbox=MailboxId(row[0]), fence=row[1], node=node, agent=AgentName(row[2]), address=row[3])


def release_claim(claim: Claim, retry_in_ms: int) -> Script[None]:
    yield from run(RELEASE, mailbox=claim.mailbox, fence=claim.fence, retry_in_ms=retry_in_ms)
