"""Claims of mailboxes, and the contents of a claimed one."""

from holdfast.inbox.agent_chain import loaded
from holdfast.inbox.mailbox import Claim, Mail, SessionHead
from holdfast.inbox.message import Inbound
from holdfast.kernel.errors import ClaimLost
from holdfast.kernel.ids import AgentName, Instant, MailboxId, NodeId, SessionId
from holdfast.memory.delivery import CallerDirectory
from holdfast.store.script import Columns, Query, Row, Script, claim_name, locked_verb, rows, run, together, utf8, verb
from holdfast.turns.turn_sql import read_turn, stands

MAILBOX = """
select mailbox.fence, mailbox.session_id, mailbox.depth, mailbox.unattended, session.open_turn, session.last_seq,
       mailbox.owner, session.turns, session.epoch, session.state, cast(:now as int8), mailbox.paused
  from mailbox left join session on session.id = mailbox.session_id
 where mailbox.id = :mailbox"""
INBOUND = Columns(Inbound, without=["where"], text=("body", utf8), name="sender_name", chain=("chain", loaded))
WAITING = f"""
select {INBOUND}, directory, repo
  from inbound
 where mailbox = :mailbox and state in ('waiting', 'in_turn') and state = 'waiting' order by seq limit :limit"""
# Claims that the caller already holds under the same name are returned unchanged, and no others.
CLAIM = """
with mine as (select id from mailbox where owner = :node and claim = :name and :name <> ''),
     free as materialized
     (select id from mailbox
       where owner is null and ready_at is not null and paused <> 1 and ready_at <= :now
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


@locked_verb(claim_name)
def claim_mailbox(node: NodeId, *, name: str = "") -> Script[Claim | None]:
    claims = yield from claim_mailboxes(node, name=name, limit=1)
    return claims[0] if claims else None


@locked_verb(claim_name)
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


@verb
def read_mail(claim: Claim, *, limit: int) -> Script[Mail]:
    boxes, waiting = yield from together(*mail_queries(claim, limit))
    return (yield from mail_of(claim, boxes, waiting))


def mail_queries(claim: Claim, limit: int) -> tuple[Query, Query]:
    """The queries whose rows `mail_of` takes."""
    waiting = Query(WAITING, {"mailbox": claim.mailbox, "limit": limit})
    return Query(MAILBOX, {"mailbox": claim.mailbox}), waiting


def mail_of(claim: Claim, boxes: list[Row], waiting: list[Row]) -> Script[Mail]:
    """The mail of a mailbox from its rows. Raises `ClaimLost`."""
    row = boxes[0] if boxes else None
    if row is None or not stands(claim, row[0]):
        raise ClaimLost(f"fence {claim.fence} is behind {row and row[0]}", mailbox=claim.mailbox)
    _, session, depth, unattended, open_turn, last_seq, owner, turns, epoch, state, now, paused = row
    turn = None
    if open_turn is not None:
        turn = yield from read_turn(claim, SessionId(session), open_turn, last_seq)
    return Mail(
        session=SessionId(session) if session else None,
        turn=turn,
        waiting=tuple(inbound_of(found) for found in waiting),
        depth=depth,
        unattended=unattended,
        head=SessionHead(last_seq, turns, epoch, state == "open", Instant(now)) if session else None,
        is_owned=owner == claim.node,
        is_paused=bool(paused),
    )


def inbound_of(row: Row) -> Inbound:
    *columns, directory, repo = row
    return INBOUND.value(tuple(columns), where=CallerDirectory(directory or "", repo or ""))
