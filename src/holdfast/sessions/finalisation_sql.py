"""Finalisation verbs: end an epoch once, step by step, and close or reopen its session. Memory is in `extraction_sql`.

Locks are taken in the order mailbox, session, finalisation, memory, cursor, lane, delivery. The transaction that ends
an epoch freezes its range and makes its tail due (D18): from then on the range cannot grow, and deliveries never wait
for an extraction. Closing comes later and schedules nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.audit import action_sql
from holdfast.audit.action import PROGRAM, Act, By
from holdfast.kernel.errors import ClaimLost, FinalisationNotFound, InvariantBroken
from holdfast.kernel.ids import AgentName, Instant, NodeId, SessionId
from holdfast.memory.cursor_sql import schedule_tail
from holdfast.sessions.finalisation import (
    ENDED,
    Ending,
    Expired,
    Finalisation,
    FinishEvent,
    FinishStep,
    NotEnded,
    advance,
)
from holdfast.store.script import Columns, Script, claim_name, locked_verb, many, one, plain, rows, run, verb


class LiveMailbox(NamedTuple):
    """The mailbox in which a session is live."""

    id: str
    owner: str | None
    depth: int

    @property
    def busy(self) -> str:
        """Why the session must continue: claimed, mail, or empty."""
        return "claimed" if self.owner is not None else "mail" if self.depth > 0 else ""


class EndingSession(NamedTuple):
    state: str
    epoch: int
    active_at: Instant
    open_turn: int | None


# Agents with open sessions, with one index seek per agent, regardless of its number of sessions.
OPEN_AGENTS = """
with recursive named (agent) as (
  select min(agent) from session where state = 'open'
  union all
  select (select min(session.agent) from session where state = 'open' and session.agent > named.agent) from named
   where named.agent is not null)
select agent, cast(:now as int8),
       (select min(idle_from) from session where state = 'open' and session.agent = named.agent)
  from named where agent is not null"""
# Sessions that were used since `idle_from` was written. Each is moved once per idle period, not with every turn.
USED_SINCE = """
select id from session
 where state = 'open' and agent = :agent and idle_from <= :before and active_at > :before
 order by idle_from limit :limit"""
MOVE_MARK = "update session set idle_from = active_at where id = :session"
EXPIRED_SESSION = Columns(Expired, session="id")
EXPIRED = f"""
select {EXPIRED_SESSION} from session
 where state = 'open' and agent = :agent and idle_from <= :before and active_at <= :before and open_turn is null
   and not exists (select 1 from mailbox
                    where mailbox.session_id = session.id and (mailbox.owner is not null or mailbox.depth > 0))
 order by idle_from, active_at limit :limit"""
MOVED_MAX = 500  # sessions that one search moves; it reads past the others

LIVE = Columns(LiveMailbox)
LIVE_IN = f"select {LIVE} from mailbox where session_id = :session /*lock*/"
STILL_LIVE_IN = "select id from mailbox where session_id = :session"
ENDING = Columns(EndingSession)
SESSION = f"select {ENDING} from session where id = :session /*lock*/"
# The range starts after the ranges of earlier epochs that were not cancelled; those are extracted there.
END_EPOCH = """
insert into finalisation (id, session, epoch, cause, from_seq, through_seq, said_at, step, due_at, started_at)
select 'finish:' || session.id || ':' || cast(session.epoch as text), session.id, session.epoch, cast(:cause as text),
       1 + coalesce((select max(through_seq) from finalisation
                      where finalisation.session = :session and step <> 'cancelled'), session.fork_seq),
       session.committed_seq,
       coalesce((select at from entry where entry.session = :session and entry.seq = session.committed_seq), 0),
       'begun', :now, :now
  from session where session.id = :session"""
EXPIRING = "update session set state = 'expiring' where id = :session"
CLOSE = "update session set state = 'closed', closed_at = :now, reason = :cause where id = :session"
LEAVE = "update mailbox set session_id = null, fence = fence + 1 where id = :mailbox"
REOPEN = """
update session set state = 'open', epoch = epoch + 1, closed_at = null, reason = null, active_at = :now
 where id = :session and state in ('expiring', 'closed') returning epoch"""
FINALISATION = Columns(
    Finalisation,
    "finalisation",
    agent="session.agent",
    principal="session.principal",
    purpose="session.purpose",
)
BY_EPOCH = f"""
select {FINALISATION} from finalisation join session on session.id = finalisation.session
 where finalisation.session = :session and finalisation.epoch = :epoch"""
LOCK = "select id from finalisation where session = :session and epoch = :epoch /*lock*/"
# A claim that the caller already holds under the same name is returned unchanged.
CLAIM = """
update finalisation
   set fence = fence + case when owner is null then 1 else 0 end,
       attempts = attempts + case when owner is null then 1 else 0 end,
       owner = :node, claim = :name
 where id = coalesce(
   (select id from finalisation where owner = :node and claim = :name and :name <> '' limit 1),
   (select id from finalisation
     where owner is null and ended_at is null and due_at <= :now
       and exists (select 1 from node where node.id = :node)
     order by due_at, id limit 1 /*skip locked*/))
returning session, epoch"""
RECORD = """
update finalisation
   set step = :step, reason = :reason, model = coalesce(:model, model), answer = coalesce(:answer, answer),
       result = coalesce(:result, result),
       owner = case when :released = 1 then null else owner end,
       ended_at = case when :ended = 1 then cast(:now as int8) else null end,
       due_at = cast(:now as int8) + cast(:retry_in_ms as int8)
 where session = :session and epoch = :epoch"""
AGAIN = """
update finalisation set step = :step, attempts = 0, owner = null, ended_at = null, due_at = :now, fence = fence + 1
 where session = :session and epoch = :epoch"""
BLANK = "update finalisation set answer = :blank, result = null where session = :session and answer is not null"
ASK_ANEW = """
update finalisation set step = :after, answer = null, owner = null, fence = fence + 1
 where session = :session and step = :step"""
LISTED = f"""
select {FINALISATION} from finalisation join session on session.id = finalisation.session
 where (:session = '' or finalisation.session = :session) and (:agent = '' or session.agent = :agent)
   and (:step = '' or finalisation.step = :step)
 order by finalisation.started_at desc, finalisation.id desc limit :limit"""


# --- ending and reopening an epoch -----------------------------------------------------------------


@verb
def list_open_agents() -> Script[tuple[Instant, dict[AgentName, Instant]]]:
    """The store's time, and the agents with open sessions, each with a time before which all of them were active."""
    found = yield from rows(OPEN_AGENTS)
    now = Instant(found[0][1] if found else 0)
    return now, {AgentName(name): Instant(idle_from) for name, _, idle_from in found}


@verb
def find_expired_sessions(agent: AgentName, *, before: Instant, limit: int) -> Script[Sequence[Expired]]:
    """The most idle sessions of an agent that were not active after `before`."""
    used = yield from rows(USED_SINCE, agent=agent, before=before, limit=MOVED_MAX)
    yield from many(MOVE_MARK, [{"session": session} for (session,) in sorted(used)])
    return (yield from EXPIRED_SESSION.rows(EXPIRED, agent=agent, before=before, limit=limit))


@verb
def begin_finalisation(ending: Ending) -> Script[Finalisation | NotEnded]:
    live = yield from LIVE.one(LIVE_IN, session=ending.session)
    found = yield from ENDING.one(SESSION, session=ending.session)
    known = yield from FINALISATION.one(BY_EPOCH, session=ending.session, epoch=ending.epoch)
    if known is not None:
        return known
    # Read again under the session's lock: the session may have become live elsewhere during the wait.
    lives_in = yield from one(STILL_LIVE_IN, session=ending.session)
    refusal = _refusal(ending, live, found, moved=(live and live.id) != (lives_in and lives_in[0]))
    if refusal is not None:
        return refusal
    yield from run(END_EPOCH, session=ending.session, cause=ending.cause)
    yield from run(EXPIRING, session=ending.session)
    yield from schedule_tail(ending.session, ending.policies)
    return (yield from read_end(ending.session, ending.epoch))


def _refusal(ending: Ending, live: LiveMailbox | None, found: EndingSession | None, *, moved: bool) -> NotEnded | None:
    if found is None or found.state == "deleted":
        return NotEnded("gone")
    if moved or found.state != "open" or found.epoch != ending.epoch:
        return NotEnded("moved")
    if found.active_at > ending.active_before:
        return NotEnded("active")
    if found.open_turn is not None:
        return NotEnded("in_turn")
    return NotEnded(live.busy) if live is not None and live.busy else None


def close_epoch(session: SessionId, cause: str) -> Script[None]:
    """End the epoch of a session that the chat has left. The stored row guarantees its extraction."""
    yield from run(END_EPOCH, session=session, cause=cause)
    yield from run(CLOSE, session=session, cause=cause)


def reopen(session: SessionId) -> Script[int | None]:
    """Let an expiring or closed session continue as its next epoch; None if it is open already.

    A range whose extraction has not begun is released: the next end freezes it together with later entries.
    """
    row = yield from one(REOPEN, session=session)
    if row is None:
        return None
    ended = row[0] - 1
    if (yield from one(LOCK, session=session, epoch=ended)) is not None:  # sessions closed by older releases have none
        left = yield from read_end(session, ended)
        if left.step is FinishStep.BEGUN and left.owner is None:
            yield from write_end(left, FinishEvent.REOPENED)
    return int(row[0])


# --- the steps -------------------------------------------------------------------------------------


@locked_verb(claim_name)
def claim_finalisation(node: NodeId, *, name: str = "") -> Script[Finalisation | None]:
    row = yield from one(CLAIM, node=node, name=name)
    if row is None:
        return None
    return (yield from read_end(SessionId(row[0]), row[1]))


@verb
def record_finalisation(
    held: Finalisation,
    event: FinishEvent,
    *,
    answer: bytes | None = None,
    model: str | None = None,
    reason: str = "",
    retry_in_ms: int = 0,
) -> Script[Finalisation]:
    closing = advance(held.step, event) in ENDED
    live = (yield from LIVE.one(LIVE_IN, session=held.session)) if closing else None
    current = yield from hold_end(held, with_session=closing)
    if current.step is not held.step:
        return current  # an earlier call of this claim was committed, but its result was lost
    if current.owner is None:
        return given_back(current, event)
    yield from write_end(current, event, answer=answer, model=model, reason=reason, retry_in_ms=retry_in_ms)
    if closing:
        yield from _leave_session(held, live)
    return (yield from read_end(held.session, held.epoch))


def given_back(current: Finalisation, event: FinishEvent) -> Finalisation:
    """Check an event for a released claim. A repeated postponement succeeds; any other event raises `ClaimLost`."""
    if event is not FinishEvent.POSTPONED:
        raise ClaimLost(f"{current.origin} was given back", session=current.session)
    return current


@verb
def retry_finalisation(session: SessionId, epoch: int, by: By = PROGRAM) -> Script[Finalisation]:
    if (yield from one(LOCK, session=session, epoch=epoch)) is None:
        why = f"{session[:80]} has no finalisation of epoch {epoch}"
        raise FinalisationNotFound(why, session=session[:80], epoch=epoch)
    found = yield from read_end(session, epoch)
    if found.step is FinishStep.FAILED:
        step = advance(found.step, FinishEvent.TAKEN_UP if found.answer else FinishEvent.REPEATED)
        yield from run(AGAIN, session=session, epoch=epoch, step=step.value)
        yield from action_sql.record(Act.FINALISATION_RETRIED, by, found.origin)
    return (yield from read_end(session, epoch))


def hold_end(held: Finalisation, *, with_session: bool = False) -> Script[Finalisation]:
    """Lock the row and verify the claim. A missing row was deleted with its session."""
    if with_session:
        yield from one(SESSION, session=held.session)
    if (yield from one(LOCK, session=held.session, epoch=held.epoch)) is None:
        raise ClaimLost(f"{held.origin} is gone", session=held.session)
    current = yield from read_end(held.session, held.epoch)
    if current.fence != held.fence:
        raise ClaimLost(f"fence {held.fence} of {held.origin} is behind {current.fence}", session=held.session)
    return current


def write_end(
    row: Finalisation,
    event: FinishEvent,
    *,
    answer: bytes | None = None,
    result: bytes | None = None,
    model: str | None = None,
    reason: str = "",
    retry_in_ms: int = 0,
) -> Script[None]:
    step = advance(row.step, event)
    ended = step in ENDED
    yield from run(
        RECORD,
        session=row.session,
        epoch=row.epoch,
        step=step.value,
        answer=answer,
        result=result,
        model=plain(model),
        reason=plain(reason),
        released=int(ended or event is FinishEvent.POSTPONED),
        ended=int(ended),
        retry_in_ms=retry_in_ms,
    )


def _leave_session(held: Finalisation, live: LiveMailbox | None) -> Script[None]:
    """Close the session unless it has continued. Mail that arrived earlier reopens it instead (R31)."""
    found = yield from ENDING.one(SESSION, session=held.session)
    if found is None or (found.state, found.epoch) != ("expiring", held.epoch):
        return
    if live is not None and live.busy:
        yield from reopen(held.session)
        return
    yield from run(CLOSE, session=held.session, cause=held.cause)
    if live is not None:
        yield from run(LEAVE, mailbox=live.id)


# --- reading ---------------------------------------------------------------------------------------


def forget_answers(session: SessionId) -> Script[None]:
    """Blank the models' answers about a session.

    An answer that is not applied is dropped, and the model is asked again about the rest.
    """
    asked = FinishStep.ASKED
    yield from run(ASK_ANEW, session=session, step=asked.value, after=advance(asked, FinishEvent.FORGOTTEN).value)
    yield from run(BLANK, session=session, blank=b"{}")


@verb
def list_finalisations(
    *, session: SessionId | None = None, agent: str | None = None, state: str | None = None, limit: int = 100
) -> Script[Sequence[Finalisation]]:
    wanted = {"session": session or "", "agent": agent or "", "step": state or ""}
    return (yield from FINALISATION.rows(LISTED, limit=limit, **wanted))


def read_end(session: SessionId, epoch: int) -> Script[Finalisation]:
    found = yield from FINALISATION.one(BY_EPOCH, session=session, epoch=epoch)
    if found is None:
        raise InvariantBroken(f"epoch {epoch} of {session} has no finalisation", session=session)
    return found
