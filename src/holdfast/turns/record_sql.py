"""record_turn: a whole turn from a writer without a mailbox, idempotent by its key (D8)."""

from holdfast.inbox.address import agent_name, check_part
from holdfast.kernel.errors import InvalidInput, SessionLive, SessionMoved, SessionNotFound
from holdfast.kernel.ids import AgentName, SessionId
from holdfast.memory.cursor_sql import places_of, schedule
from holdfast.memory.delivery import NamingInputs, TurnSpan
from holdfast.sessions.finalisation_sql import reopen
from holdfast.sessions.session import Purpose
from holdfast.store.script import Row, Script, one, run, verb
from holdfast.turns.context import calibrate
from holdfast.turns.journal_sql import append
from holdfast.turns.turn import Recorded, TurnRecord

SESSION = """
select last_seq, turns, token_ratio, state, purpose, agent, title, parent_id from session
 where id = :session /*lock*/"""
NEW_SESSION = """
insert into session (id, agent, mailbox, principal, purpose, parent_id, state, last_seq, committed_seq, turns,
                     summaries, opened_at, active_at, idle_from)
values (:session, :agent, null, :principal, :purpose, :parent, 'open', 0, 0, 0, 0, :now, :now, :now)
on conflict (id) do nothing"""
# Read after the session's row is locked: inside the locking statement, these values would predate the wait.
KNOWN = """
select (select n from turn where session = :session and key = :key),
       (select last_seq from turn where session = :session and key = :key),
       (select id from mailbox where session_id = :session)"""
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


@verb
def record_turn(record: TurnRecord) -> Script[Recorded]:
    _check(record)
    last_seq, turns, ratio, _, purpose, _, title, parent = yield from _session(record)
    policies = record.policies if purpose == Purpose.CONVERSATION.value else ()
    known = yield from one(KNOWN, session=record.session, key=record.key)
    known_n, known_seq, live_in = known or (None, None, None)
    if known_n is not None:
        return Recorded(record.session, known_n, known_seq, repeated=True)
    if live_in is not None:
        raise SessionLive(f"{record.session} is live in mailbox {live_in}", session=record.session)
    if record.expected_seq is not None and record.expected_seq != last_seq:
        raise SessionMoved(
            f"{record.session} is at entry {last_seq}, not {record.expected_seq}", session=record.session
        )
    yield from reopen(record.session)  # a write to an ended session continues in its next epoch
    n = turns + 1
    end = yield from append(record.session, n, last_seq, record.entries)
    places = places_of(policies, _naming(record, title, parent))
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
        title=title,
        places=places,
        directory=record.where.directory or None,
        repo=record.where.repo or None,
    )
    ratio = calibrate(ratio, record.usage.tokens_in, record.usage.estimated_in)
    yield from run(ADVANCE, session=record.session, n=n, last_seq=end, ratio=ratio, principal=record.principal)
    newest = TurnSpan(
        n,
        last_seq + 1,
        end,
        record.place,
        record.principal,
        title,
        places,
        record.where.directory,
        record.where.repo,
    )
    yield from schedule(record.session, AgentName(record.agent), policies, start=last_seq, newest=newest)
    return Recorded(record.session, n, end, repeated=False)


def _naming(record: TurnRecord, title: str | None, parent: str | None) -> NamingInputs:
    return NamingInputs(
        agent=AgentName(record.agent),
        session=record.session,
        principal=record.principal,
        address=record.place,
        parent=SessionId(parent) if parent else None,
        title=title,
        directory=record.where.directory,
        repo=record.where.repo,
    )


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


def _session(record: TurnRecord) -> Script[Row]:
    """The locked row of the session; created if it does not exist."""
    row = yield from one(SESSION, session=record.session)
    if row is None:
        yield from run(
            NEW_SESSION,
            session=record.session,
            agent=record.agent,
            principal=record.principal,
            purpose=record.purpose,
            parent=record.parent,
        )
        row = yield from one(SESSION, session=record.session)
    if row is None or row[3] == "deleted" or row[5] != record.agent:
        raise SessionNotFound(f"{record.agent} has no session {record.session}", session=record.session)
    return row
