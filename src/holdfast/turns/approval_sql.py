"""Approvals: asked in the step that makes a turn wait, decided by a signal or an operator, checked by the next step.

Every verb here holds the lock of the mailbox, so a decision and the worker that looks for it see each other.
`waits_until` limits how long the mailbox sleeps; a transaction that gives the turn work clears it.
"""

from collections.abc import Sequence

from holdfast.audit import action_sql
from holdfast.audit.action import PROGRAM, Act, ActorKind, By
from holdfast.inbox.mailbox import Claim
from holdfast.inbox.message import Arrival
from holdfast.kernel.errors import ApprovalChanged, ApprovalDigestNeeded, ApprovalNotFound, InvariantBroken
from holdfast.kernel.ids import ApprovalId, MailboxId, MessageId, SessionId
from holdfast.outbox.reply_sql import insert_reply
from holdfast.sessions.command import Command, CommandVerb
from holdfast.sessions.command_rights_sql import given_now, giver, may_decide
from holdfast.store.script import Columns, Row, Script, one, plain, rows, run, verb
from holdfast.turns import approval_view_sql
from holdfast.turns.approval import (
    REASON_CHARS_MAX,
    Approval,
    ApprovalAsk,
    ApprovalView,
    Decision,
    Proof,
    already_text,
    asked_text,
    check_proof,
    decided_in,
    decided_text,
    not_found_text,
    proof_text,
    typed_id,
)
from holdfast.turns.approval_view_sql import ASKED, AskedCall, asked_of
from holdfast.turns.call_view import call_digest, is_cut, short_digest
from holdfast.turns.journal import ToolCall, ToolStarted, storable
from holdfast.turns.turn import NewReply, Step, Turn

TAKEN = "select 1 from approval where id = :id"
NEW = """
insert into approval (id, session, turn, call, tool, mailbox, principal, approvers, yields, asked_at, due_at, digest,
                      salt, cut)
values (:id, :session, :turn, :call, :tool, :mailbox, :principal, :approvers, :yields, :now,
        cast(:now as int8) + cast(:wait_ms as int8), :digest, :salt, :cut)"""
ASKING = "update turn set approval = :id where session = :session and n = :turn"
SLEEP = """
update mailbox set waits_until = (select due_at from approval where id = :id), yields = :yields where id = :mailbox"""
ANSWERED = "select channel, human from inbound where message = :message"
# Only senders whose messages took a turn count: observed messages and commands request no work.
LAST_HUMAN = """
select principal from inbound
 where session = :session and human = 1 and turn is not null order by seq desc limit 1"""
IS_DUE = "case when due_at <= :now then 1 else 0 end"
APPROVAL = Columns(
    Approval,
    without=("digest", "salt"),
    is_due=IS_DUE,
    is_superseded="""
       case when yields = 1 and decided_at is null and exists (
         select 1 from inbound
          where inbound.mailbox = approval.mailbox and inbound.state in ('waiting', 'in_turn')
            and inbound.state = 'waiting' and inbound.kind <> 'observed') then 1 else 0 end""",
)
READ = f"select {APPROVAL}, {ASKED} from approval where id = :id"
FIND = f"""
select tool, principal, approvers, decision, {IS_DUE}, {ASKED} from approval where id = :id and mailbox = :mailbox"""
OPEN_HERE = "select id from approval where mailbox = :mailbox and decided_at is null order by asked_at, id limit 20"
WAITS_AT = """
select 1 from approval
 where id = :id and decided_at is null and mailbox = (select mailbox_id from address where address = :address)"""
# At most one row: a mailbox has one open turn, and a turn decides or closes an approval before it asks for the next.
WAITED_FOR = f"select id, tool, due_at, {ASKED} from approval where mailbox = :mailbox and decided_at is null"
# Only the person who decided learns the outcome: no other sender's command releases a turn.
RELEASED = """
select (select message from inbound
         where inbound.session = approval.session and inbound.turn = approval.turn order by seq desc limit 1)
  from approval
 where id = :id and mailbox = :mailbox and decision in ('approved', 'denied')
   and (decided_by = :principal
        or exists (select 1 from identity where identity.principal = decided_by and person = :principal))"""
DECIDE = """
update approval set decided_at = :now, decision = :decision, decided_by = :by, reason = :reason
 where id = :id and decided_at is null"""
WAKE = "update mailbox set waits_until = null, yields = 0, ready_at = :now where id = :mailbox"
AWAKE = "update mailbox set waits_until = null, yields = 0 where id = :mailbox"
CLOSE = """
update approval
   set reason = null, decision = coalesce(decision, :void), decided_at = coalesce(decided_at, :now)
 where session = :session and turn = :turn"""
MAILBOX_OF = "select mailbox from approval where id = :id"
LOCK = "select id from mailbox where id = :mailbox /*lock*/"
ASKED_CALL = f"select {ASKED} from approval where id = :id"
FORGET_DIGESTS = "update approval set digest = null, salt = null where session = :session and turn = :turn"
AGENT_CHANNEL = "agent"


# --- the worker's side: inside append_step and the end of a turn -----------------------------------


def ask(claim: Claim, turn: Turn, asked: ApprovalAsk) -> Script[Approval]:
    """Store the question, send it to the chat, and let the mailbox sleep until the decision or the deadline."""
    (channel, human) = (yield from one(ANSWERED, message=turn.messages[-1])) or (AGENT_CHANNEL, 0)
    approval = yield from _free(asked.ids)
    # If a program spoke last, the person whom the agent last answered in this session decides.
    spoke = None if human else (yield from one(LAST_HUMAN, session=turn.session))
    approver = spoke[0] if spoke else turn.principal
    yield from run(
        NEW,
        id=approval,
        session=turn.session,
        turn=turn.n,
        call=plain(asked.call.id),
        tool=plain(asked.call.name),
        mailbox=claim.mailbox,
        principal=approver,
        approvers="\n".join(sorted(asked.approvers)),
        yields=int(asked.yields),
        wait_ms=asked.wait_ms,
        digest=asked.digest,
        salt=asked.salt,
        cut=int(is_cut(asked.call.arguments)),
    )
    yield from run(ASKING, id=approval, session=turn.session, turn=turn.n)
    yield from run(SLEEP, id=approval, mailbox=claim.mailbox, yields=int(asked.yields))
    if channel != AGENT_CHANNEL:  # another agent gets no question: it may not decide, and would only answer
        yield from _tell(claim, turn, asked, approval, channel)
    return (yield from read_approval(approval))


def _free(ids: Sequence[ApprovalId]) -> Script[ApprovalId]:
    for approval in ids:
        if (yield from one(TAKEN, id=approval)) is None:
            return approval
    raise InvariantBroken(f"none of {len(ids)} approval ids is free")


def _tell(claim: Claim, turn: Turn, asked: ApprovalAsk, approval: ApprovalId, channel: str) -> Script[None]:
    yield from insert_reply(
        NewReply(id=asked.reply, text=storable(asked_text(claim.agent, asked, approval))),
        mailbox=claim.mailbox,
        address=claim.address,
        channel=channel,
        message=turn.messages[-1],
        session=turn.session,
        turn=turn.n,
    )


def read_approval(id: ApprovalId) -> Script[Approval]:
    row = yield from one(READ, id=id)
    if row is None:
        raise InvariantBroken(f"a turn waits for approval {id}, which has no row")
    asked = yield from asked_of(row[-6:])
    return APPROVAL.value(row[:-6], digest=asked.digest, salt=asked.salt)


def leave(claim: Claim, approval: Approval, step: Step) -> Script[None]:
    """Resume the turn.

    A call starts only if this exact call was approved. A call is refused only after a decision or the deadline.
    """
    starts = any(isinstance(body, ToolStarted) for body in step.entries)
    if starts and approval.decision is not Decision.APPROVED:
        raise InvariantBroken(f"a call was to start without approval {approval.id}")
    if starts:
        _require_same(approval, step.starts)
    if approval.decision is None and not approval.is_due:
        raise InvariantBroken(f"a turn was to go on while approval {approval.id} is open")
    yield from run(DECIDE, id=approval.id, decision=Decision.EXPIRED.value, by="", reason=None)
    yield from run(AWAKE, mailbox=claim.mailbox)


def _require_same(approval: Approval, starts: ToolCall | None) -> None:
    """Raises `InvariantBroken` unless the starting call is byte for byte the call in the question."""
    found = call_digest(starts.name, starts.arguments, approval.salt) if starts is not None else ""
    if starts is None or plain(starts.id) != approval.call or found != approval.digest:
        raise InvariantBroken(f"another call was to start than the one that approval {approval.id} is about")


def close(mailbox: str, session: SessionId, turn: int) -> Script[None]:
    """Close the approvals of a turn that ended, and wake its mailbox."""
    yield from run(CLOSE, session=session, turn=turn, void=Decision.VOID.value)
    yield from run(AWAKE, mailbox=mailbox)


# --- the human's side ------------------------------------------------------------------------------


def decide_here(arrival: Arrival, command: Command, mailbox: MailboxId, via: By) -> Script[str]:
    """Apply `/approve ID [DIGEST]` or `/deny ID [reason]` in the accepting transaction; return the answer.

    The caller has locked the mailbox.
    """
    typed, _, rest = command.argument.partition(" ")
    wanted = typed_id(typed)
    row = yield from one(FIND, id=plain(wanted), mailbox=mailbox)
    if row is None:
        found = yield from rows(OPEN_HERE, mailbox=mailbox)
        return not_found_text(typed, [one_id for (one_id,) in found])
    tool, asker, approvers, decision, is_due = row[:5]
    named = approvers.split("\n") if approvers else ()
    who = yield from giver(command.verb, given_now(arrival, mailbox))
    refused = may_decide(command.verb, who, asker=asker, approvers=named)
    if refused is not None:
        yield from action_sql.refuse(Act.APPROVAL_DECIDED, sender_as_actor(arrival, via), wanted, refused.code)
        return refused.text
    if decision is not None or is_due:
        return already_text(wanted, tool, Decision(decision or Decision.EXPIRED.value))
    said = Decision.APPROVED if command.verb is CommandVerb.APPROVE else Decision.DENIED
    by = sender_as_actor(arrival, via)
    asked = yield from asked_of(row[5:])
    proof = check_proof(rest.strip(), asked.digest, cut=asked.cut) if said is Decision.APPROVED else Proof.HOLDS
    if proof is not Proof.HOLDS:
        yield from action_sql.refuse(Act.APPROVAL_DECIDED, by, wanted, proof.value)
        return proof_text(wanted, proof)
    reason = rest.strip() if said is Decision.DENIED else ""
    yield from _decide(mailbox, wanted, said, by=arrival.principal, reason=reason)
    yield from _record(by, wanted, said, tool, asked)
    return decided_text(wanted, tool, said)


def _record(by: By, id: ApprovalId, decision: Decision, tool: str, asked: AskedCall) -> Script[None]:
    """Write the audit record.

    A digest without a salt is omitted, because it could confirm a guess at forgotten words.
    """
    named = {"digest": short_digest(asked.digest)} if asked.on_record else {}
    yield from action_sql.record(Act.APPROVAL_DECIDED, by, id, decision=decision.value, tool=plain(tool), **named)


def sender_as_actor(arrival: Arrival, via: By) -> By:
    """The sender of a message, together with the token that authenticated it, if any."""
    with_token = f", {via.origin}" if via.kind in {ActorKind.TOKEN, ActorKind.OPERATOR} else ""
    label = via.id if with_token else ""
    origin = f"{arrival.address}{with_token}"
    return By(kind=ActorKind.PRINCIPAL, id=arrival.principal, label=label, origin=origin)


def _decide(mailbox: str, id: ApprovalId, decision: Decision, *, by: str, reason: str) -> Script[None]:
    kept = plain(reason[:REASON_CHARS_MAX]) or None
    yield from run(DECIDE, id=id, decision=decision.value, by=plain(by), reason=kept)
    yield from run(WAKE, mailbox=mailbox)


@verb
def decide_approval(
    id: ApprovalId, decision: Decision, *, named: str, reason: str = "", digest: str = "", by: By = PROGRAM
) -> Script[ApprovalView]:
    """Apply an operator's decision. An earlier decision stands; an overdue approval expires now, and the view says so.

    Raises `ApprovalChanged` if the digest belongs to another call, and `ApprovalDigestNeeded` if the question was cut
    and no digest is named.
    """
    found = yield from one(MAILBOX_OF, id=plain(id))
    if found is None:
        raise ApprovalNotFound(f"there is no approval {id[:40]!r}", approval=id[:40])
    yield from one(LOCK, mailbox=found[0])
    current = yield from read_approval(id)
    if current.decision is None and current.is_due:
        yield from _decide(found[0], id, Decision.EXPIRED, by="", reason="")
        yield from action_sql.refuse(Act.APPROVAL_DECIDED, by, id, "already_expired")
    elif current.decision is None:
        asked = yield from _require_proof(id, decision, digest)
        yield from _decide(found[0], id, decision, by=named, reason=reason)
        yield from _record(by, id, decision, current.tool, asked)
    elif current.decision is not decision:
        yield from action_sql.refuse(Act.APPROVAL_DECIDED, by, id, f"already_{current.decision.value}")
    return (yield from approval_view_sql.find_approval(id))


def _require_proof(id: ApprovalId, decision: Decision, typed: str) -> Script[AskedCall]:
    """The call in the question. A named digest must match, for a denial too."""
    (row,) = yield from rows(ASKED_CALL, id=id)
    asked = yield from asked_of(row)
    proof = check_proof(typed, asked.digest, cut=asked.cut and decision is Decision.APPROVED)
    if proof is Proof.CHANGED:
        raise ApprovalChanged(f"{typed[:80]!r} is not the digest of what {id} will do", approval=id)
    if proof is Proof.MISSING:
        raise ApprovalDigestNeeded(f"the question about {id} left out a part of its arguments", approval=id)
    return asked


def forget_digests(session: SessionId, turn: int) -> Script[None]:
    """Erase digests and salts: they would confirm a guess about the forgotten words."""
    yield from run(FORGET_DIGESTS, session=session, turn=turn)


@verb
def is_waiting_at(address: str, id: ApprovalId) -> Script[bool]:
    return (yield from one(WAITS_AT, address=address, id=plain(id))) is not None


def waited_for(mailbox: str) -> Script[Row | None]:
    """The approval of a sleeping mailbox: id, tool, deadline, session, turn and whether its question is cut."""
    row = yield from one(WAITED_FOR, mailbox=mailbox)
    if row is None:
        return None
    return (*row[:5], (yield from asked_of(row[3:])).cut)


def released_by(text: str, mailbox: str, principal: str) -> Script[MessageId | None]:
    """The message whose turn this decision released; None if the text decided nothing."""
    named = decided_in(text)
    row = (yield from one(RELEASED, id=plain(named), mailbox=mailbox, principal=principal)) if named else None
    return MessageId(row[0]) if row and row[0] else None
