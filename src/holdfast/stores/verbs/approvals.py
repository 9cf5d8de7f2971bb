"""Approvals: asked in the step that makes a turn wait, decided by a signal or an operator, checked by the step after.

Everything here happens under the lock of the mailbox, so a decision and the worker that looks for it see each other:
`waits_until` says how long the mailbox may sleep, and whoever gives the turn something to do clears it.
"""

from collections.abc import Sequence
from typing import Protocol

from holdfast.core.action import PROGRAM, Act, ActorKind, By
from holdfast.core.approval import (
    REASON_CHARS_MAX,
    Approval,
    ApprovalAsk,
    ApprovalView,
    Decision,
    already_text,
    asked_text,
    decided_in,
    decided_text,
    not_found_text,
    typed_id,
)
from holdfast.core.command import Command, Verb
from holdfast.core.errors import ApprovalNotFound, InvariantBroken
from holdfast.core.ids import AgentName, ApprovalId, Instant, MailboxId, MessageId, Principal, SessionId
from holdfast.core.inbound import Arrival
from holdfast.core.journal import AssistantSaid, ToolStarted, decode_body, storable
from holdfast.core.mailbox import Claim
from holdfast.core.turn import Reply, Step, Turn
from holdfast.stores.script import Row, Script, one, plain, rows, run
from holdfast.stores.verbs import actions
from holdfast.stores.verbs.reply import insert_reply
from holdfast.stores.verbs.rights import given_now, giver, may_decide

TAKEN = "select 1 from approval where id = :id"
NEW = """
insert into approval (id, session, turn, call, tool, mailbox, principal, approvers, yields, asked_at, due_at)
values (:id, :session, :turn, :call, :tool, :mailbox, :principal, :approvers, :yields, :now,
        cast(:now as int8) + cast(:wait_ms as int8))"""
ASKING = "update turn set approval = :id where session = :session and n = :turn"
SLEEP = """
update mailbox set waits_until = (select due_at from approval where id = :id), yields = :yields where id = :mailbox"""
ANSWERED = "select channel, human from inbound where message = :message"
# Whoever was only overheard, or gave a command, has asked for nothing: it takes a turn.
LAST_HUMAN = """
select principal from inbound
 where session = :session and human = 1 and turn is not null order by seq desc limit 1"""
READ = """
select id, tool, call, decision, decided_by, reason, case when due_at <= :now then 1 else 0 end,
       case when yields = 1 and decided_at is null and exists (
         select 1 from inbound
          where inbound.mailbox = approval.mailbox and inbound.state in ('waiting', 'in_turn')
            and inbound.state = 'waiting' and inbound.kind <> 'observed') then 1 else 0 end
  from approval where id = :id"""
FIND = """
select tool, principal, approvers, decision, case when due_at <= :now then 1 else 0 end
  from approval where id = :id and mailbox = :mailbox"""
OPEN_HERE = "select id from approval where mailbox = :mailbox and decided_at is null order by asked_at, id limit 20"
WAITS_AT = """
select 1 from approval
 where id = :id and decided_at is null and mailbox = (select mailbox_id from address where address = :address)"""
# At most one: a mailbox has one open turn, and a turn decides or closes an approval before it asks for the next.
WAITED_FOR = "select id, tool, due_at, session, turn from approval where mailbox = :mailbox and decided_at is null"
# Whoever decided may hear what came of it: nobody else's command releases a turn.
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
VIEW_FIELDS = """
approval.id, mailbox.agent, approval.session, approval.turn, approval.tool, approval.call, approval.mailbox,
mailbox.address, approval.principal, approval.asked_at, approval.due_at, approval.decision, approval.decided_at,
approval.decided_by"""
VIEW = f"select {VIEW_FIELDS} from approval join mailbox on mailbox.id = approval.mailbox where approval.id = :id"
OPEN = f"""
select {VIEW_FIELDS} from approval join mailbox on mailbox.id = approval.mailbox
 where approval.decided_at is null and (:agent = '' or mailbox.agent = :agent)
 order by approval.asked_at, approval.id limit :limit"""
NEWEST = f"""
select {VIEW_FIELDS} from approval join mailbox on mailbox.id = approval.mailbox
 where :agent = '' or mailbox.agent = :agent order by approval.asked_at desc, approval.id desc limit :limit"""
CALLS = """
select body from entry where session = :session and turn = :turn and kind = 'assistant' order by seq desc"""
AGENT_CHANNEL = "agent"


class Boxed(Protocol):
    """The mailbox of a signal, under lock."""

    @property
    def id(self) -> MailboxId: ...


# --- the worker's side: inside append_step and the end of a turn -----------------------------------


def ask(claim: Claim, turn: Turn, asked: ApprovalAsk) -> Script[Approval]:
    """Write the question down, tell the chat, and let the mailbox sleep until it is decided or overdue."""
    (channel, human) = (yield from one(ANSWERED, message=turn.messages[-1])) or (AGENT_CHANNEL, 0)
    approval = yield from _free(asked.ids)
    yield from run(
        NEW,
        id=approval,
        session=turn.session,
        turn=turn.n,
        call=plain(asked.call.id),
        tool=plain(asked.call.name),
        mailbox=claim.mailbox,
        principal=turn.principal if human else (yield from _last_human(turn)),
        approvers="\n".join(sorted(asked.approvers)),
        yields=int(asked.yields),
        wait_ms=asked.wait_ms,
    )
    yield from run(ASKING, id=approval, session=turn.session, turn=turn.n)
    yield from run(SLEEP, id=approval, mailbox=claim.mailbox, yields=int(asked.yields))
    if channel != AGENT_CHANNEL:  # another agent is not asked: it may not decide, and would only answer
        yield from _tell(claim, turn, asked, approval, channel)
    return (yield from read_approval(approval))


def _free(ids: Sequence[ApprovalId]) -> Script[ApprovalId]:
    for approval in ids:
        if (yield from one(TAKEN, id=approval)) is None:
            return approval
    raise InvariantBroken(f"none of {len(ids)} approval ids is free")


def _last_human(turn: Turn) -> Script[str]:
    """Whom to ask where a program spoke last: the person whom the agent answered last in this session."""
    row = yield from one(LAST_HUMAN, session=turn.session)
    return row[0] if row else turn.principal


def _tell(claim: Claim, turn: Turn, asked: ApprovalAsk, approval: ApprovalId, channel: str) -> Script[None]:
    yield from insert_reply(
        Reply(id=asked.reply, text=storable(asked_text(claim.agent, asked.call, approval, asked.hint))),
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
    return Approval(
        id=ApprovalId(row[0]),
        tool=row[1],
        call=row[2],
        decision=Decision(row[3]) if row[3] else None,
        decided_by=row[4] or "",
        reason=row[5] or "",
        is_due=bool(row[6]),
        is_superseded=bool(row[7]),
    )


def leave(claim: Claim, approval: Approval, step: Step) -> Script[None]:
    """The turn goes on. Nothing starts without a yes, and nothing is refused while somebody may still say it."""
    starts = any(isinstance(body, ToolStarted) for body in step.entries)
    if starts and approval.decision is not Decision.APPROVED:
        raise InvariantBroken(f"a call was to start without approval {approval.id}")
    if approval.decision is None and not approval.is_due:
        raise InvariantBroken(f"a turn was to go on while approval {approval.id} is open")
    yield from run(DECIDE, id=approval.id, decision=Decision.EXPIRED.value, by="", reason=None)
    yield from run(AWAKE, mailbox=claim.mailbox)


def close(mailbox: str, session: SessionId, turn: int) -> Script[None]:
    """The turn is over: what it asked can no longer be decided, and its mailbox is awake."""
    yield from run(CLOSE, session=session, turn=turn, void=Decision.VOID.value)
    yield from run(AWAKE, mailbox=mailbox)


# --- the human's side ------------------------------------------------------------------------------


def decide_here(arrival: Arrival, command: Command, box: Boxed, via: By) -> Script[str]:
    """`/approve ID` and `/deny ID [reason]`, inside the transaction that accepts them; what to answer."""
    typed, _, reason = command.argument.partition(" ")
    wanted = typed_id(typed)
    row = yield from one(FIND, id=plain(wanted), mailbox=box.id)
    if row is None:
        found = yield from rows(OPEN_HERE, mailbox=box.id)
        return not_found_text(typed, [one_id for (one_id,) in found])
    tool, asker, approvers, decision, is_due = row
    named = approvers.split("\n") if approvers else ()
    who = yield from giver(command.verb, given_now(arrival, box.id))
    refused = may_decide(command.verb, who, asker=asker, approvers=named)
    if refused is not None:
        yield from actions.refuse(Act.APPROVAL_DECIDED, sender_as_actor(arrival, via), wanted, refused.code)
        return refused.text
    if decision is not None or is_due:
        return already_text(wanted, tool, Decision(decision or Decision.EXPIRED.value))
    said = Decision.APPROVED if command.verb is Verb.APPROVE else Decision.DENIED
    yield from _decide(box.id, wanted, said, by=arrival.principal, reason=reason.strip())
    by = sender_as_actor(arrival, via)
    yield from actions.record(Act.APPROVAL_DECIDED, by, wanted, decision=said.value, tool=plain(tool))
    return decided_text(wanted, tool, said)


def sender_as_actor(arrival: Arrival, via: By) -> By:
    """The sender of a message. Where a token brought it, the token is named too."""
    with_token = f", {via.origin}" if via.kind in {ActorKind.TOKEN, ActorKind.OPERATOR} else ""
    label = via.id if with_token else ""
    origin = f"{arrival.address}{with_token}"
    return By(kind=ActorKind.PRINCIPAL, id=arrival.principal, label=label, origin=origin)


def _decide(mailbox: str, id: ApprovalId, decision: Decision, *, by: str, reason: str) -> Script[None]:
    kept = plain(reason[:REASON_CHARS_MAX]) or None
    yield from run(DECIDE, id=id, decision=decision.value, by=plain(by), reason=kept)
    yield from run(WAKE, mailbox=mailbox)


def decide_approval(
    id: ApprovalId, decision: Decision, named: str, reason: str, by: By = PROGRAM
) -> Script[ApprovalView]:
    """An operator's decision. What was decided before stays; what is overdue expires now, and the view says so."""
    found = yield from one(MAILBOX_OF, id=plain(id))
    if found is None:
        raise ApprovalNotFound(f"there is no approval {id[:40]!r}", approval=id[:40])
    yield from one(LOCK, mailbox=found[0])
    current = yield from read_approval(id)
    if current.decision is None and current.is_due:
        yield from _decide(found[0], id, Decision.EXPIRED, by="", reason="")
        yield from actions.refuse(Act.APPROVAL_DECIDED, by, id, "already_expired")
    elif current.decision is None:
        yield from _decide(found[0], id, decision, by=named, reason=reason)
        yield from actions.record(Act.APPROVAL_DECIDED, by, id, decision=decision.value, tool=plain(current.tool))
    elif current.decision is not decision:
        yield from actions.refuse(Act.APPROVAL_DECIDED, by, id, f"already_{current.decision.value}")
    return (yield from approval(id))


def waits_at(address: str, id: ApprovalId) -> Script[bool]:
    return (yield from one(WAITS_AT, address=address, id=plain(id))) is not None


def waited_for(mailbox: str) -> Script[Row | None]:
    """What a mailbox that sleeps waits for: id, tool, when it is due, session and turn."""
    return (yield from one(WAITED_FOR, mailbox=mailbox))


def released_by(text: str, mailbox: str, principal: str) -> Script[MessageId | None]:
    """The message whose turn went on because of this decision; None when the words decided nothing."""
    named = decided_in(text)
    row = (yield from one(RELEASED, id=plain(named), mailbox=mailbox, principal=principal)) if named else None
    return MessageId(row[0]) if row and row[0] else None


def approval(wanted: ApprovalId) -> Script[ApprovalView]:
    row = yield from one(VIEW, id=plain(wanted))
    if row is None:
        raise ApprovalNotFound(f"there is no approval {wanted[:40]!r}", approval=wanted[:40])
    return (yield from _view(row))


def approvals(limit: int, *, decided: bool, agent: str | None = None) -> Script[Sequence[ApprovalView]]:
    """Those that wait, oldest first; with `decided`, all of them, newest first."""
    found = yield from rows(NEWEST if decided else OPEN, limit=limit, agent=agent or "")
    views = []
    for row in found:
        views.append((yield from _view(row)))  # noqa: PERF401 - a comprehension cannot yield
    return views


def _view(row: Row) -> Script[ApprovalView]:
    return ApprovalView(
        id=ApprovalId(row[0]),
        agent=AgentName(row[1]),
        session=SessionId(row[2]),
        turn=row[3],
        tool=row[4],
        arguments=(yield from _arguments(row[2], row[3], row[5])),
        mailbox=MailboxId(row[6]),
        address=row[7],
        principal=Principal(row[8]),
        asked_at=Instant(row[9]),
        due_at=Instant(row[10]),
        decision=Decision(row[11]) if row[11] else None,
        decided_at=None if row[12] is None else Instant(row[12]),
        decided_by=row[13],
    )


def _arguments(session: str, turn: int, call: str) -> Script[str]:
    """What the call is to do, as the journal has it; nothing once that was forgotten."""
    for (body,) in (yield from rows(CALLS, session=session, turn=turn)):
        said = decode_body("assistant", bytes(body))
        for wish in said.calls if isinstance(said, AssistantSaid) else ():
            if plain(wish.id) == call:
                return wish.arguments
    return ""
