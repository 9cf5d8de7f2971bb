"""record_turn: a whole turn from a writer without a mailbox, idempotent by its key (D8), and its undo."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from holdfast.inbox.address import agent_name, check_part
from holdfast.kernel.errors import InvalidInput, SessionLive, SessionMoved, SessionNotFound
from holdfast.kernel.ids import AgentName, Instant, SessionId
from holdfast.memory.cursor_sql import schedule, span_of
from holdfast.memory.delivery import NamingInputs
from holdfast.sessions.finalisation_sql import reopen
from holdfast.sessions.session import Purpose, SessionState
from holdfast.sessions.session_sql import pick_turns, undo_turns
from holdfast.store.agent_lock_sql import share_agent
from holdfast.store.script import Query, Script, one, run, together, verb
from holdfast.turns.context import Context, calibrate
from holdfast.turns.context_sql import CONTEXT, context_after, read_context
from holdfast.turns.journal import Entry, body_tokens
from holdfast.turns.journal_sql import append
from holdfast.turns.turn import Recorded, TurnRecord

LOCK = "select id from session where id = :session /*lock*/"
AGENT_OF = "select agent from session where id = :session"
LIVE_IN = "select id from mailbox where session_id = :session"
NEW_SESSION = """
insert into session (id, agent, mailbox, principal, purpose, parent_id, state, last_seq, committed_seq, turns,
                     summaries, opened_at, active_at, idle_from)
values (:session, :agent, null, :principal, :purpose, :parent, 'open', 0, 0, 0, 0, :now, :now, :now)
on conflict (id) do nothing"""
# Read after the session's row is locked: inside the locking statement, these values would predate the wait.
SESSION = f"""
select turn.n, turn.last_seq, (select id from mailbox where session_id = session.id), session.turns, session.purpose,
       session.title, session.parent_id, session.principal, session.state, cast(:now as int8), {CONTEXT}
  from session left join mailbox on mailbox.id = session.mailbox
       left join turn on turn.session = session.id and turn.key = :key
 where session.id = :session"""
NEW_TURN = """
insert into turn (session, n, key, phase, attempt, fence, lease_fence, mailbox, place, principal, first_seq,
                  last_seq, tokens_in, tokens_out, title, places, directory, repo, opened_at, closed_at)
values (:session, :n, :key, 'committed', 1, 0, 0, null, :place, :principal, :first_seq,
        :last_seq, :tokens_in, :tokens_out, :title, :places, :directory, :repo, :now, :now)"""
ADVANCE = """
update session
   set last_seq = :last_seq, committed_seq = :last_seq, turns = :n, token_ratio = :ratio, active_at = :now,
       several = case when principal = :principal then several else 1 end
 where id = :session"""


RESERVED = ("memory:", "erase:")  # prefixes of streams that are not sessions


class FoundSession(NamedTuple):
    """A session in which a turn is recorded."""

    known_n: int | None  # of the turn, if its key was recorded before
    known_seq: int | None
    live_in: str | None
    turns: int
    purpose: str
    title: str | None
    parent: str | None
    principal: str
    state: str
    now: Instant
    context: Context  # without summary and entries


@verb
def record_turn(record: TurnRecord, *, reads: bool = False, known: Context | None = None) -> Script[Recorded]:
    """Record a turn. With `reads`, the result has the context after it; nothing that was just written is read again.

    `known` is a cached context of the session, which is brought up to date if it is still valid.
    """
    recorded, found = yield from _record(record)
    if not reads:
        return recorded
    if found is None:
        return replace(recorded, context=(yield from read_context(record.session, known)))
    first_seq = recorded.last_seq - len(record.entries) + 1
    appended = [
        Entry(seq=seq, turn=recorded.turn, body=body, tokens=body_tokens(body), at=found.now, session=record.session)
        for seq, body in enumerate(record.entries, start=first_seq)
    ]
    context = yield from context_after(known, found.context, appended)
    return replace(recorded, context=context)


@verb
def undo_recorded(session: SessionId, turns: Sequence[int], *, by: str) -> Script[int]:
    """Undo recorded turns if they are the last effective ones of the session; the number of turns that were undone.

    In a session that is live in a mailbox nothing is undone: its chat has gone on with it.
    """
    row = yield from one(AGENT_OF, session=session)
    if row is None:
        return 0
    yield from share_agent(AgentName(row[0]))
    yield from lock_session(session)
    if (yield from one(LIVE_IN, session=session)) is not None:
        return 0
    found = yield from pick_turns(session, len(turns))
    if found.picked != tuple(sorted(turns, reverse=True)):
        return 0  # another undo came first
    yield from undo_turns(session, None, found, by=by)
    return len(found.picked)


def lock_session(session: SessionId) -> Script[None]:
    """Lock the row of a session, for verbs that add whole turns to it."""
    yield from run(LOCK, session=session)


def _record(record: TurnRecord) -> Script[tuple[Recorded, FoundSession | None]]:
    """The recorded turn, and its session after it; None if the turn was recorded before."""
    _check(record)
    found = yield from _session(record)
    if found.known_n is not None and found.known_seq is not None:
        return Recorded(record.session, found.known_n, found.known_seq, repeated=True), None
    last_seq = found.context.last_seq
    if found.live_in is not None:
        raise SessionLive(f"{record.session} is live in mailbox {found.live_in}", session=record.session)
    if record.expected_seq is not None and record.expected_seq != last_seq:
        raise SessionMoved(
            f"{record.session} is at entry {last_seq}, not {record.expected_seq}", session=record.session
        )
    if found.state != SessionState.OPEN.value:
        yield from reopen(record.session)  # a write to an ended session continues in its next epoch
    n = found.turns + 1
    end = yield from append(record.session, n, last_seq, record.entries)
    policies = record.policies if found.purpose == Purpose.CONVERSATION.value else ()
    named = NamingInputs(
        agent=AgentName(record.agent),
        session=record.session,
        principal=record.principal,
        address=record.place,
        parent=SessionId(found.parent) if found.parent else None,
        title=found.title,
        directory=record.where.directory,
        repo=record.where.repo,
    )
    span = span_of(n, last_seq + 1, end, named, policies)
    yield from run(
        NEW_TURN,
        session=record.session,
        n=n,
        key=record.key,
        place=record.place,
        principal=record.principal,
        first_seq=last_seq + 1,
        last_seq=end,
        tokens_in=record.usage.tokens_in,
        tokens_out=record.usage.tokens_out,
        title=found.title,
        places=span.places,
        directory=record.where.directory or None,
        repo=record.where.repo or None,
    )
    ratio = calibrate(found.context.token_ratio, record.usage.tokens_in, record.usage.estimated_in)
    yield from run(ADVANCE, session=record.session, n=n, last_seq=end, ratio=ratio, principal=record.principal)
    yield from schedule(record.session, AgentName(record.agent), policies, start=last_seq, newest=span)
    several = found.context.several or found.principal != record.principal
    after = replace(found.context, last_seq=end, committed_seq=end, token_ratio=ratio, several=several)
    return Recorded(record.session, n, end, repeated=False), found._replace(context=after)


def _check(record: TurnRecord) -> None:
    """Validate external input before any write, identically on every engine."""
    agent_name(record.agent)
    for what, part in (
        ("session", record.session),
        ("turn key", record.key),
        ("principal", record.principal),
        ("place", record.place),
    ):
        check_part(what, part)
    if record.session.startswith(RESERVED):
        raise InvalidInput(f"a session id may not begin with {' or '.join(RESERVED)}", session=record.session)
    if record.purpose not in {purpose.value for purpose in Purpose}:
        raise InvalidInput(f"there is no purpose {record.purpose!r}", purpose=record.purpose)
    if not record.entries:
        raise InvalidInput("a turn has at least one entry", session=record.session)


def _session(record: TurnRecord) -> Script[FoundSession]:
    """The session, whose row is locked; created if it does not exist."""
    wanted = {"session": record.session, "key": record.key}
    _, found = yield from together(Query(LOCK, {"session": record.session}), Query(SESSION, dict(wanted)))
    if not found:
        yield from run(
            NEW_SESSION,
            session=record.session,
            agent=record.agent,
            principal=record.principal,
            purpose=record.purpose,
            parent=record.parent,
        )
        _, found = yield from together(Query(LOCK, {"session": record.session}), Query(SESSION, dict(wanted)))
    own = len(FoundSession._fields) - 1
    row = found[0] if found else None
    if row is None or row[own] != record.agent or row[own - 2] == SessionState.DELETED.value:
        raise SessionNotFound(f"{record.agent} has no session {record.session}", session=record.session)
    context = CONTEXT.value(row[own:], session=record.session, summary=None, entries=())
    return FoundSession._make((*row[:own], context))
