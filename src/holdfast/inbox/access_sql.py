"""Access: pairing requests and admissions. Strangers' messages are not stored.

A request and its notice are one transaction; so are an admission and its notice. Notices are rows of the reply ledger,
so they survive a restart like any reply. The address they go to gets an empty mailbox in advance.
"""

from holdfast.audit import action_sql
from holdfast.audit.action import PROGRAM, Act, By
from holdfast.inbox.accept_sql import NEW_ADDRESS, NEW_MAILBOX
from holdfast.inbox.access import (
    LISTED_MAX,
    NAME_CHARS_MAX,
    PAIRING,
    Pairing,
    PairingAsk,
    PairingAsked,
    PairingDecision,
    PairingPolicy,
    PairingView,
    admitted_text,
    notice_text,
)
from holdfast.inbox.identity_sql import BOX_OF, KIN
from holdfast.kernel.errors import PairingNotFound
from holdfast.kernel.ids import AgentName, Instant, OperationId, Principal, ReplyId
from holdfast.outbox.reply_sql import insert_reply
from holdfast.store.agent_lock_sql import share_agent
from holdfast.store.script import Row, Script, one, plain, rows, run, verb
from holdfast.turns.turn import NewReply

ADMITTED = f"""
select principal from admission
 where agent = :agent and (principal = :principal or principal in ({KIN})) limit 1"""
EXPIRE = """
delete from pairing
 where agent = :agent and decided_at is null and asked_at <= cast(:now as int8) - cast(:lasts as int8)"""
KNOWN = """
select code, told_at, decision, cast(:now as int8) from pairing
 where agent = :agent and principal = :principal /*lock*/"""
OPEN = "select count(*) from pairing where agent = :agent and decided_at is null"
NEW = """
insert into pairing (code, agent, channel, principal, name, address, asked_at, told_at)
values (:code, :agent, :channel, :principal, :name, :address, :now, :now) on conflict do nothing returning code"""
TOLD = "update pairing set told_at = :now where code = :code"
FIELDS = "code, agent, channel, principal, name, asked_at, decided_at, decision, cast(:now as int8), address"
BY_CODE = f"select {FIELDS} from pairing where code = :code /*lock*/"
LIST = f"""
select {FIELDS} from pairing where (:agent = '' or agent = :agent) order by asked_at desc, code limit :limit"""
DECIDE = "update pairing set decided_at = :now, decision = :decision where code = :code"
ADMIT = """
insert into admission (agent, principal, at) values (:agent, :principal, :now)
on conflict (agent, principal) do nothing"""
DISMISS = "delete from admission where agent = :agent and principal = :principal"
DISMISS_ALL = """
delete from admission where principal = :principal and (:agent = '' or agent = :agent) returning agent"""
DROP_ALL = "delete from pairing where principal = :principal and (:agent = '' or agent = :agent) returning agent"
ADMIT_WORD, DENY_WORD = "admit", "deny"


@verb
def is_admitted(agent: AgentName, principal: Principal) -> Script[bool]:
    """Whether an operator admitted this principal, or another one of the same person."""
    return (yield from one(ADMITTED, agent=agent, principal=principal)) is not None


@verb
def ask_pairing(ask: PairingAsk, *, policy: PairingPolicy = PAIRING) -> Script[PairingAsked]:
    """Record the request and send the notice, each at most once per period."""
    yield from share_agent(ask.agent)  # the address may get a mailbox
    yield from run(EXPIRE, agent=ask.agent, lasts=policy.lasts_ms)
    known = yield from one(KNOWN, agent=ask.agent, principal=ask.principal)
    if known is None:
        return (yield from _new(ask, policy))
    code, told_at, decision, now = known
    if decision is not None:
        return PairingAsked(code="", told=False)
    if now - told_at < policy.told_every_ms:
        return PairingAsked(code=code, told=False)
    yield from run(TOLD, code=code)
    yield from _tell(ask, code)
    return PairingAsked(code=code, told=True)


def _new(ask: PairingAsk, policy: PairingPolicy) -> Script[PairingAsked]:
    (waiting,) = (yield from one(OPEN, agent=ask.agent)) or (0,)
    if waiting >= policy.open_max:
        return PairingAsked(code="", told=False)
    made = yield from one(
        NEW,
        code=ask.code,
        agent=ask.agent,
        channel=ask.channel,
        principal=ask.principal,
        name=(plain(ask.name) or "")[:NAME_CHARS_MAX],
        address=ask.address,
    )
    if made is None:  # a concurrent request, or a code collision; the next message asks again
        return PairingAsked(code="", told=False)
    yield from _tell(ask, ask.code)
    return PairingAsked(code=ask.code, told=True)


def _tell(ask: PairingAsk, code: str) -> Script[None]:
    made = yield from one(NEW_ADDRESS, address=ask.address, mailbox=ask.new_mailbox)
    if made is not None:
        yield from run(NEW_MAILBOX, mailbox=ask.new_mailbox, agent=ask.agent, address=ask.address)
    yield from _say(ask.reply, notice_text(code, ask.agent), code, address=ask.address, channel=ask.channel)


def _say(reply: ReplyId, text: str, code: str, *, address: str, channel: str) -> Script[None]:
    row = yield from one(BOX_OF, address=address)
    assert row is not None  # noqa: S101 - created with the request; addresses are never removed
    yield from insert_reply(
        NewReply(id=reply, text=text),
        mailbox=row[0],
        address=address,
        channel=channel,
        message=f"pairing:{code}",
        session=None,
    )


@verb
def decide_pairing(
    decision: PairingDecision, *, policy: PairingPolicy = PAIRING, by: By = PROGRAM
) -> Script[PairingView]:
    """Admit or refuse a stranger. Repeating a decision changes and sends nothing; a decision can be reversed.

    Raises `PairingNotFound`, also for a request that the operator may not see.
    """
    row = yield from one(BY_CODE, code=decision.code)
    if row is None or not decision.is_about(row[1]) or _view(row, policy).state is Pairing.EXPIRED:
        raise PairingNotFound(f"nobody waits under the code {decision.code}", code=decision.code)
    _, agent, channel, principal, _, _, _, known, _, address = row
    word, kind = (ADMIT_WORD, "pair") if decision.admit else (DENY_WORD, "deny")
    is_new = (yield from action_sql.start_operation(decision.operation, kind, decision.by)) is None
    if is_new and known != word:
        yield from run(DECIDE, code=decision.code, decision=word)
        yield from run(ADMIT if decision.admit else DISMISS, agent=agent, principal=principal)
        if decision.admit:
            yield from _say(decision.reply, admitted_text(agent), decision.code, address=address, channel=channel)
        yield from action_sql.finish_operation(decision.operation, {"agent": agent, "principal": principal})
        act = Act.ACCESS_ADMITTED if decision.admit else Act.ACCESS_DENIED
        yield from action_sql.record(act, by, principal, agent=agent)
    done = yield from one(BY_CODE, code=decision.code)
    assert done is not None  # noqa: S101 - held under lock
    return _view(done, policy)


@verb
def unpair(
    principal: Principal, *, agent: AgentName | None = None, named: str, operation: OperationId, by: By = PROGRAM
) -> Script[tuple[str, ...]]:
    """Delete the decisions about a principal; returns the agents whose decision was deleted."""
    where = {"principal": principal, "agent": agent or ""}
    before = yield from action_sql.start_operation(operation, "unpair", named)
    if before is not None:
        return tuple(before.get("agents", ()))
    # Delete the request first: a decision locks its row while it admits, so this sees an admission in progress.
    gone = {row[0] for row in (yield from rows(DROP_ALL, **where))}
    gone |= {row[0] for row in (yield from rows(DISMISS_ALL, **where))}
    if gone:
        yield from action_sql.finish_operation(operation, {"principal": principal, "agents": sorted(gone)})
        yield from action_sql.record(Act.ACCESS_WITHDRAWN, by, principal, agents=sorted(gone))
    return tuple(sorted(gone))


@verb
def list_pairings(
    *, agent: AgentName | None = None, limit: int = LISTED_MAX, policy: PairingPolicy = PAIRING
) -> Script[tuple[PairingView, ...]]:
    """List requests, newest first."""
    found = yield from rows(LIST, agent=agent or "", limit=limit)
    return tuple(_view(row, policy) for row in found)


def _view(row: Row, policy: PairingPolicy) -> PairingView:
    code, agent, channel, principal, name, asked_at, decided_at, decision, now, _ = row
    if decision is not None:
        state = Pairing.ADMITTED if decision == ADMIT_WORD else Pairing.DENIED
    else:
        state = Pairing.EXPIRED if now - asked_at >= policy.lasts_ms else Pairing.ASKING
    return PairingView(
        code=code,
        agent=AgentName(agent),
        channel=channel,
        principal=Principal(principal),
        name=name,
        state=state,
        asked_at=Instant(asked_at),
        decided_at=None if decided_at is None else Instant(decided_at),
    )
