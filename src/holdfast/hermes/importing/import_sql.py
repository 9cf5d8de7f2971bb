"""Importing sessions: whole turns with the times at which they were said, then the session's title, chat and state.

Rule 1: a page of turns is one transaction. A page whose turns are there already changes nothing, so an import that was
        killed begins again where it ended.
Rule 2: an imported session is closed until its last page was read back and compared: nobody extracts from half of it,
        and no chat continues it.
Rule 3: the imported history is one epoch, which is over; a chat that goes on with the session begins its next one.
Rule 4: a provider that has a turn already gets a cursor behind it; the others get a delivery of it.
Rule 5: the last transaction of an import records the run, with its row of the audit trail.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from holdfast.audit.action import PROGRAM, Act, By
from holdfast.audit.action_sql import finish_operation, record, start_operation
from holdfast.hermes.importing.turns import SOURCE, ImportedTurn
from holdfast.inbox.accept_sql import hold_mailbox
from holdfast.inbox.address import Address
from holdfast.kernel.errors import SessionLive, SessionMoved, SessionNotFound
from holdfast.kernel.ids import AgentName, Instant, MailboxId, OperationId, Principal, Provider, SessionId
from holdfast.memory.cursor_sql import ADVANCE as PASS
from holdfast.memory.cursor_sql import MARK, add_units
from holdfast.memory.delivery import DeliveryPolicy, NamingInputs, TurnSpan, due_units
from holdfast.sessions.finalisation_sql import reopen
from holdfast.sessions.session import Purpose, SessionState, clean_title, title_key
from holdfast.store.agent_lock_sql import share_agent
from holdfast.store.script import Params, Script, many, one, plain, run, verb
from holdfast.turns.journal import AnyBody, body_tokens, encode_body
from holdfast.turns.record_sql import lock_session

IMPORT = "import"  # the kind of the operation that says that a session is imported
BRANCH = "branch"
NEW_SESSION = """
insert into session (id, agent, mailbox, principal, purpose, parent_id, state, last_seq, committed_seq, turns,
                     summaries, opened_at, active_at, idle_from, closed_at, reason)
values (:session, :agent, null, :principal, :purpose, :parent, 'closed', 0, 0, 0, 0, :opened_at, :opened_at,
        :opened_at, :opened_at, 'import')
on conflict (id) do nothing returning id"""
RECORD = """
insert into operation (id, kind, session, owner, fence, started_at, ended_at, outcome, detail)
values (:id, :kind, :session, :owner, 0, :now, :now, 'done', :detail)
on conflict (id) do update set ended_at = excluded.ended_at, detail = excluded.detail"""
STANDING = """
select agent, state, turns, last_seq, (select id from mailbox where mailbox.session_id = session.id)
  from session where id = :session"""
NEW_TURN = """
insert into turn (session, n, key, phase, attempt, fence, lease_fence, mailbox, place, principal, first_seq,
                  last_seq, title, places, directory, opened_at, closed_at)
values (:session, :n, :key, 'committed', 1, 0, 0, null, :place, :principal, :first_seq,
        :last_seq, :title, :places, :directory, :opened_at, :closed_at)"""
NEW_ENTRY = """
insert into entry (session, seq, turn, kind, ref, tokens, fence, lease_fence, at, body)
values (:session, :seq, :turn, :kind, :ref, :tokens, 0, 0, :at, :body)"""
ADVANCE = """
update session
   set last_seq = :last_seq, committed_seq = :last_seq, turns = :turns, undo_count = undo_count + :undone,
       active_at = :at, idle_from = :at, closed_at = :at
 where id = :session"""
# The imported history is an epoch of its own, which ended in Hermes: nothing is extracted from it again.
NEW_END = """
insert into finalisation (id, session, epoch, cause, from_seq, through_seq, said_at, step, due_at, started_at, ended_at)
values (:id, :session, 1, 'import', 1, 0, :opened_at, 'closed', :now, :now, :now)"""
MOVE_END = "update finalisation set through_seq = :last_seq, said_at = :at where session = :session and epoch = 1"
SETTLE = """
update session
   set title = :title, title_key = :title_key, reason = :reason, closed_at = :closed_at,
       mailbox = coalesce(mailbox, :mailbox)
 where id = :session"""
GO_LIVE = "update mailbox set session_id = :session where id = :mailbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSession:
    """What all pages of a session share."""

    id: SessionId
    agent: AgentName
    principal: Principal
    place: str  # the address of its chat
    opened_at: Instant
    purpose: Purpose = Purpose.CONVERSATION
    parent: SessionId | None = None
    title: str | None = None
    directory: str = ""
    policies: tuple[DeliveryPolicy, ...] = ()

    @property
    def inputs(self) -> NamingInputs:
        """What providers name the session's place by."""
        return NamingInputs(
            agent=self.agent,
            session=self.id,
            principal=self.principal,
            address=self.place,
            parent=self.parent,
            title=self.title,
            directory=self.directory,
        )

    @property
    def taking(self) -> tuple[DeliveryPolicy, ...]:
        """The providers that take its turns; only a conversation has any."""
        return tuple(one for one in self.policies if one.turns) if self.purpose is Purpose.CONVERSATION else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportEnding:
    """The end of a session's import: its state, and the chat that it belongs to."""

    session: SessionId
    agent: AgentName
    operation: OperationId
    title: str | None = None
    reason: str = "hermes"
    closed_at: Instant = Instant(0)
    chat: Address | None = None
    goes_on: bool = False  # whether the chat used the session last
    new_mailbox: MailboxId = MailboxId("")
    detail: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRun:
    """A home that was imported whole. The fingerprint is the digest of its history."""

    agent: AgentName
    fingerprint: str
    sessions: int
    messages: int
    new: int  # sessions that this run wrote


@verb
def import_turns(session: ImportedSession, turns: Sequence[ImportedTurn]) -> Script[int]:
    """Append a page of turns; the number that was new.

    Raises `SessionLive` if a chat uses the session already, and `SessionMoved` if the page does not follow the
    session's last turn.
    """
    yield from share_agent(session.agent)
    yield from _begin(session)
    yield from lock_session(session.id)
    agent, state, known, last_seq, live_in = (yield from one(STANDING, session=session.id)) or ("", "", 0, 0, None)
    if agent != session.agent or state == SessionState.DELETED.value:
        raise SessionNotFound(f"{session.agent} has no session {session.id}", session=session.id)
    fresh = [turn for turn in turns if turn.n > known]
    if not fresh:
        return 0
    if live_in is not None or state != SessionState.CLOSED.value:
        raise SessionLive(f"{session.id} has gone on here since it was imported", session=session.id)
    if (fresh[0].n, fresh[0].first_seq) != (known + 1, last_seq + 1):
        raise SessionMoved(f"{session.id} has {known} turns and {last_seq} entries", session=session.id)
    places = {policy.provider: policy.naming.place(session.inputs) for policy in session.taking}
    yield from many(NEW_ENTRY, list(_entries(session.id, fresh)))
    yield from many(NEW_TURN, [_turn_row(session, turn, places) for turn in fresh])
    end = {"session": session.id, "last_seq": fresh[-1].end_seq}
    at = max(one_.at for turn in fresh for one_ in turn.entries)
    yield from run(ADVANCE, **end, turns=fresh[-1].n, undone=sum(turn.undone for turn in fresh), at=at)
    yield from run(MOVE_END, **end, at=at)
    for policy in session.taking:
        yield from _deliver(session, policy, fresh, places[policy.provider], last_seq)
    return len(fresh)


def _begin(session: ImportedSession) -> Script[None]:
    made = yield from one(
        NEW_SESSION,
        session=session.id,
        agent=session.agent,
        principal=session.principal,
        purpose=session.purpose.value,
        parent=session.parent,
        opened_at=session.opened_at,
    )
    if made is None:
        return
    end = f"finish:{session.id}:1"
    yield from run(NEW_END, id=end, session=session.id, opened_at=session.opened_at)
    if session.parent is not None:
        yield from run(RECORD, id=f"{session.id}:branch", kind=BRANCH, session=session.id, owner=IMPORT, detail=None)


def _entries(session: SessionId, turns: Sequence[ImportedTurn]) -> Iterator[Params]:
    for turn in turns:
        bodies: list[tuple[int, Instant, AnyBody, int | None]]
        bodies = [(turn.n, one_.at, one_.body, None) for one_ in turn.entries]
        if turn.undone:
            bodies.append((0, turn.entries[-1].at, turn.undo, turn.first_seq))
        for seq, (n, at, body, ref) in enumerate(bodies, start=turn.first_seq):
            raw, tokens = encode_body(body), body_tokens(body)
            row = {"seq": seq, "turn": n, "kind": body.kind, "ref": ref, "tokens": tokens, "at": at, "body": raw}
            yield {"session": session, **row}


def _turn_row(session: ImportedSession, turn: ImportedTurn, places: dict[Provider, str]) -> Params:
    at = [one_.at for one_ in turn.entries]
    return {
        "session": session.id,
        "n": turn.n,
        "key": turn.key,
        "place": session.place,
        "principal": session.principal,
        "first_seq": turn.first_seq,
        "last_seq": turn.last_seq,
        "title": session.title,
        "places": msgspec.json.encode(places).decode() if places else None,
        "directory": session.directory or None,
        "opened_at": min(at),
        "closed_at": max(at),
    }


def _deliver(
    session: ImportedSession, policy: DeliveryPolicy, turns: Sequence[ImportedTurn], place: str, start: int
) -> Script[None]:
    """Schedule the turns that the provider lacks, and move its cursor past the page."""
    lacking = [turn for turn in turns if turn.delivered and not turn.undone and policy.provider not in turn.held_by]
    size = max(policy.every_turns, 1)
    spans = [
        TurnSpan(turn.n, turn.first_seq, turn.last_seq, place, session.principal, session.title) for turn in lacking
    ]
    units = [
        unit
        for first in range(0, len(spans), size)
        for unit in due_units(spans[first : first + size], policy, boundary=True)
    ]
    if units:
        yield from add_units(session.id, session.agent, policy, units)
    mark = {"provider": policy.provider, "stream": session.id}
    yield from run(PASS, **mark, through=turns[-1].end_seq, start=start)
    yield from run(MARK, **mark)


@verb
def end_import(ending: ImportEnding) -> Script[bool]:
    """Give an imported session its title, chat and state; whether its chat goes on with it.

    A chat that has a session of its own keeps it; the imported one can be resumed there. A session that has gone on
    since is not changed.
    """
    yield from share_agent(ending.agent)
    box = (yield from hold_mailbox(ending.chat, ending.new_mailbox)) if ending.chat is not None else None
    yield from lock_session(ending.session)
    agent, state, *_, live_in = (yield from one(STANDING, session=ending.session)) or ("", "", None)
    if agent != ending.agent or state == SessionState.DELETED.value:
        raise SessionNotFound(f"{ending.agent} has no session {ending.session}", session=ending.session)
    detail = msgspec.json.encode(ending.detail)
    record = {"id": ending.operation, "kind": IMPORT, "session": ending.session, "owner": IMPORT, "detail": detail}
    if live_in is not None or state != SessionState.CLOSED.value:
        yield from run(RECORD, **record)
        return live_in is not None
    title = clean_title(ending.title or "") or None
    yield from run(
        SETTLE,
        session=ending.session,
        title=title,
        title_key=title_key(title) if title else None,
        reason=plain(ending.reason),
        closed_at=ending.closed_at,
        mailbox=box.id if box is not None else None,
    )
    goes_on = ending.goes_on and box is not None and box.session is None
    if goes_on and box is not None:
        yield from reopen(ending.session)
        yield from run(GO_LIVE, session=ending.session, mailbox=box.id)
    yield from run(RECORD, **record)
    return goes_on


@verb
def finish_import(run: ImportRun, *, by: By = PROGRAM) -> Script[bool]:
    """Record that a home was imported; whether this history was new. The same history is recorded once."""
    operation = OperationId(f"{IMPORT}:{run.agent}:{run.fingerprint}")
    if (yield from start_operation(operation, IMPORT, by.id)) is not None:
        return False
    counts = {"sessions": run.sessions, "messages": run.messages, "new": run.new}
    detail = {"agent": run.agent, "fingerprint": run.fingerprint, **counts}
    yield from finish_operation(operation, detail)
    yield from record(Act.HISTORY_IMPORTED, by, SOURCE, **detail)
    return True
