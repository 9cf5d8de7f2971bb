"""Read verbs for messages, sessions, entries and operations. They return pages, never whole tables."""

from collections.abc import Sequence

from holdfast.inbox.attachment_sql import list_attachments
from holdfast.inbox.mailbox import MailboxView
from holdfast.inbox.message import UNFINISHED, MessageState
from holdfast.inbox.message_trace import MessageTrace, ReplyView
from holdfast.kernel.errors import MessageNotFound, SessionNotFound
from holdfast.kernel.ids import AgentName, ApprovalId, Instant, MailboxId, MessageId, Principal, SessionId
from holdfast.memory.delivery import DeliveryView
from holdfast.outbox.reply import is_possible_duplicate
from holdfast.sessions.compression import Operation, Summary
from holdfast.sessions.compression_audit import SessionFacts
from holdfast.sessions.session import Purpose, Session, SessionState, no_place_after
from holdfast.sessions.summary_sql import OPERATION_FIELDS, SUMMARY_FIELDS, operation_of, summary_of
from holdfast.store.script import Row, Script, one, rows, verb
from holdfast.turns.approval import OpenQuestion
from holdfast.turns.approval_sql import released_by, waited_for
from holdfast.turns.journal import EntryView, is_undone
from holdfast.turns.journal_sql import NO_LIMIT, chain, entries, undos

MESSAGE = """
select inbound.message, mailbox.agent, inbound.conversation, coalesce(inbound.address, mailbox.address),
       inbound.event_id, inbound.principal, inbound.state, inbound.reason, inbound.at, inbound.session,
       inbound.turn, turn.phase, turn.attempt, inbound.mailbox, inbound.seq, turn.tokens_in, turn.tokens_out,
       mailbox.waits_until, case when inbound.kind = 'signal' then inbound.body end,
       (select count(*) from enclosure where enclosure.message = inbound.message), inbound.hop, inbound.token
  from inbound join mailbox on mailbox.id = inbound.mailbox
  left join turn on turn.session = inbound.session and turn.n = inbound.turn
 where inbound.message = :message"""
BEHIND = """
select count(*) from inbound
 where mailbox = :mailbox and state in ('waiting', 'in_turn') and seq < :seq"""
UNANSWERED = """
select message from inbound
 where request = :request and state in ('waiting', 'in_turn')
   and (:address = '' or mailbox = (select mailbox_id from address where address = :address))
 order by at desc, seq desc limit 1"""
# A turn's messages to other agents are not replies to its sender.
REPLY_TO = """
select id, body, state, attempt, at, receipt, reason, doubts, draft from reply
 where message = :message
   and (channel <> 'agent' or address = (select inbound.address from inbound where inbound.message = :message))
 order by n desc limit 1"""
TURN_LAST = "select message from inbound where session = :session and turn = :turn order by seq desc limit 1"
DELIVERY_FIELDS = """
n, id, agent, provider, place, op, state, attempt, stream, from_turn, through_turn, late, at, due_at, receipt, reason"""
DELIVERIES = f"""
select {DELIVERY_FIELDS} from delivery
 where stream = :session and from_turn <= :turn and through_turn >= :turn order by provider, from_seq"""
PENDING = """
select cursor.provider, session.agent, turn.closed_at, cursor.due_at
  from turn join session on session.id = turn.session join cursor on cursor.stream = turn.session
 where turn.session = :session and turn.n = :turn and turn.closed_at is not null
   and cursor.scheduled_seq < turn.first_seq order by cursor.provider"""
DELIVERY_PAGE = f"""
select {DELIVERY_FIELDS} from delivery
 where (:provider = '' or provider = :provider) and (:state = '' or state = :state) and n < :before
 order by n desc limit :limit"""
SESSION_FIELDS = """
session.id, session.agent, session.mailbox, session.principal, session.purpose, session.parent_id, session.fork_seq,
session.title, session.state, mailbox.id, session.epoch, session.committed_seq, session.turns, session.summaries,
session.undo_count, session.opened_at, session.active_at, session.closed_at, session.reason, session.last_seq,
(select place.address from mailbox place where place.id = session.mailbox)"""
SESSION = f"""
select {SESSION_FIELDS} from session left join mailbox on mailbox.session_id = session.id
 where session.id = :session"""
IS_SESSION = "select 1 from session where id = :session"
# Newest first by time; ids are not ordered by age, because writers without a mailbox choose their own.
OLDER_THAN_AFTER = """
(:after = '' or (session.opened_at, session.id) < (select opened_at, id from session where id = :after))
 order by session.opened_at desc, session.id desc limit :limit"""
SESSIONS_OF_PLACE = f"""
select {SESSION_FIELDS} from session left join mailbox on mailbox.session_id = session.id
 where session.mailbox = (select mailbox_id from address where address = :address) and {OLDER_THAN_AFTER}"""
SESSIONS_OF_AGENT = f"""
select {SESSION_FIELDS} from session left join mailbox on mailbox.session_id = session.id
 where (:agent = '' or session.agent = :agent) and {OLDER_THAN_AFTER}"""
ALL_SESSIONS = f"""
select {SESSION_FIELDS} from session left join mailbox on mailbox.session_id = session.id
 where session.id > :after order by session.id limit :limit"""
MAILBOX = """
select id, agent, address, session_id, depth, owner, fence, ready_at from mailbox
 where id = (select mailbox_id from address where address = :address)"""
SUMMARIES = f"select {SUMMARY_FIELDS} from summary where session = :session order by n"
SUMMARY = f"select {SUMMARY_FIELDS} from summary where session = :session and n = :n"
# An operation on people that changed nothing is stored only to make its repetition idempotent.
OPERATIONS = f"""
select {OPERATION_FIELDS} from operation
 where (:session = '' or session = :session) and id > :after
   and (session <> '' or outcome <> 'nothing') order by id limit :limit"""
COUNTS = """
select count(*), coalesce(max(seq), 0), (select fork_n from session where id = :session)
  from entry where session = :session"""


@verb
def trace_message(wanted: MessageId) -> Script[MessageTrace]:
    row = yield from one(MESSAGE, message=wanted)
    if row is None:
        raise MessageNotFound(f"no message {wanted!r} was accepted here", message=wanted)
    state = MessageState(row[6])
    behind = 0
    if state in UNFINISHED:
        (behind,) = (yield from one(BEHIND, mailbox=row[13], seq=row[14])) or (0,)
    session, turn = row[9], row[10]
    reply = yield from _reply(wanted, session, turn if state not in UNFINISHED else None)
    found = (yield from _deliveries(SessionId(session), turn)) if turn is not None else ()
    waits, said = state in UNFINISHED and row[17] is not None, bytes(row[18] or b"").decode()
    return MessageTrace(
        message=wanted,
        agent=AgentName(row[1]),
        chat=row[2],
        address=row[3],
        event_id=row[4],
        principal=Principal(row[5]),
        state=state,
        reason=row[7],
        accepted_at=Instant(row[8]),
        queued_behind=behind,
        session=SessionId(session) if session else None,
        turn=turn,
        phase=row[11],
        attempt=row[12] or 0,
        reply=reply,
        deliveries=found,
        enclosures=tuple((yield from list_attachments(wanted))) if row[19] else (),
        hop=row[20],
        token=row[21] or "",
        tokens_in=row[15] or 0,
        tokens_out=row[16] or 0,
        awaiting=(yield from _question(row[13])) if waits else None,
        released=(yield from released_by(said, row[13], row[5])) if said else None,
    )


def _question(mailbox: str) -> Script[OpenQuestion | None]:
    """The open question of a mailbox's turn, with its original text."""
    row = yield from waited_for(mailbox)
    if row is None:
        return None
    last = yield from one(TURN_LAST, session=row[3], turn=row[4])
    asked = (yield from _reply(MessageId(last[0]), None, None)) if last else None
    text = asked.text if asked else ""
    return OpenQuestion(id=ApprovalId(row[0]), tool=row[1], text=text, due_at=Instant(row[2]), cut=row[5])


@verb
def find_unanswered(address: str, request: str) -> Script[MessageId | None]:
    row = yield from one(UNANSWERED, address=address, request=request)
    return MessageId(row[0]) if row else None


def _deliveries(session: SessionId, turn: int) -> Script[tuple[DeliveryView, ...]]:
    """The deliveries of a turn, and the cursors for which it is still pending."""
    found = [delivery_of(row) for row in (yield from rows(DELIVERIES, session=session, turn=turn))]
    pending = yield from rows(PENDING, session=session, turn=turn)
    return (*found, *(_pending(session, turn, row) for row in pending))


def _pending(session: SessionId, turn: int, row: Row) -> DeliveryView:
    provider, agent, at, due_at = row
    return DeliveryView(
        n=0,
        id="",
        agent=agent,
        provider=provider,
        place="",
        op="retain",
        state="scheduled",
        attempt=0,
        stream=session,
        from_turn=turn,
        through_turn=turn,
        late=False,
        at=Instant(at),
        due_at=Instant(due_at or at),
        receipt=None,
        reason="it goes out together with the next turns",
    )


def _reply(wanted: MessageId, session: str | None, turn: int | None) -> Script[ReplyView | None]:
    """The reply to a message. A turn answers its messages together; the reply belongs to the last of them."""
    row = yield from one(REPLY_TO, message=wanted)
    if row is None and session is not None and turn is not None:
        last = yield from one(TURN_LAST, session=session, turn=turn)
        row = (yield from one(REPLY_TO, message=last[0])) if last else None
    if row is None:
        return None
    id_, body, state, attempt, at, receipt, reason, doubts, draft = row
    return ReplyView(
        id=id_,
        text=bytes(body).decode(),
        state=state,
        attempt=attempt,
        at=Instant(at),
        receipt=receipt,
        reason=reason,
        possible_duplicate=is_possible_duplicate(state, doubts),
        draft=draft,
    )


@verb
def list_deliveries(
    *, provider: str | None = None, state: str | None = None, after: int = 0, limit: int = 100
) -> Script[tuple[DeliveryView, ...]]:
    found = yield from rows(
        DELIVERY_PAGE, provider=provider or "", state=state or "", before=after or NO_LIMIT, limit=limit
    )
    return tuple(delivery_of(row) for row in found)


def delivery_of(row: Row) -> DeliveryView:
    n, id_, agent, provider, place, op, state, attempt, stream, first, last, late, at, due_at, receipt, reason = row
    return DeliveryView(
        n=n,
        id=id_,
        agent=agent,
        provider=provider,
        place=place,
        op=op,
        state=state,
        attempt=attempt,
        stream=stream,
        from_turn=first,
        through_turn=last,
        late=bool(late),
        at=Instant(at),
        due_at=Instant(due_at),
        receipt=receipt,
        reason=reason,
    )


@verb
def find_mailbox(address: str) -> Script[MailboxView | None]:
    row = yield from one(MAILBOX, address=address)
    if row is None:
        return None
    return MailboxView(
        mailbox=MailboxId(row[0]),
        agent=AgentName(row[1]),
        address=row[2],
        session=SessionId(row[3]) if row[3] else None,
        depth=row[4],
        owner=row[5],
        fence=row[6],
        ready_at=None if row[7] is None else Instant(row[7]),
    )


@verb
def read_session(wanted: SessionId) -> Script[Session]:
    row = yield from one(SESSION, session=wanted)
    if row is None:
        raise SessionNotFound(f"there is no session {wanted}", session=wanted)
    return session_of(row)


@verb
def list_sessions(
    *, agent: str | None = None, address: str | None = None, after: str = "", limit: int = 100
) -> Script[Sequence[Session]]:
    """Raises `InvalidInput` if `after` does not exist: an empty page would mean the end of the list."""
    if after and (yield from one(IS_SESSION, session=after)) is None:
        raise no_place_after(after)
    if address is not None:
        found = yield from rows(SESSIONS_OF_PLACE, address=address, after=after, limit=limit)
    else:
        found = yield from rows(SESSIONS_OF_AGENT, agent=agent or "", after=after, limit=limit)
    return [session_of(row) for row in found]


def session_of(row: Row) -> Session:
    return Session(
        id=SessionId(row[0]),
        agent=AgentName(row[1]),
        mailbox=MailboxId(row[2]) if row[2] else None,
        principal=Principal(row[3]),
        purpose=Purpose(row[4]),
        parent=SessionId(row[5]) if row[5] else None,
        fork_seq=row[6],
        title=row[7],
        state=SessionState(row[8]),
        live=row[9] is not None,
        epoch=row[10],
        committed_seq=row[11],
        turns=row[12],
        summaries=row[13],
        undo_count=row[14],
        opened_at=Instant(row[15]),
        active_at=Instant(row[16]),
        closed_at=None if row[17] is None else Instant(row[17]),
        reason=row[18],
        address=row[20],
    )


@verb
def list_entries(wanted: SessionId, *, after: int = 0, limit: int = 200) -> Script[Sequence[EntryView]]:
    yield from read_session(wanted)
    links = yield from chain(wanted)
    page = yield from entries(links, after=after, limit=limit)
    voiding = yield from undos(links, after=after)
    return [EntryView(entry=entry, undone=is_undone(entry, voiding)) for entry in page]


@verb
def list_summaries(wanted: SessionId) -> Script[Sequence[Summary]]:
    yield from read_session(wanted)
    return [summary_of(row) for row in (yield from rows(SUMMARIES, session=wanted))]


@verb
def read_snapshot(wanted: SessionId, n: int) -> Script[tuple[Summary, Sequence[EntryView]]]:
    """The snapshot as of its summary: later undos do not change it."""
    row = yield from one(SUMMARY, session=wanted, n=n)
    if row is None:
        raise SessionNotFound(f"there is no snapshot {wanted}.snapshot.{n}", session=wanted, n=n)
    found = summary_of(row)
    links = yield from chain(wanted, upto_seq=found.covers_through)
    covered = yield from entries(links, after=0)
    voiding = yield from undos((yield from chain(wanted, upto_seq=found.head_seq)))
    return found, [EntryView(entry=entry, undone=is_undone(entry, voiding)) for entry in covered]


@verb
def list_operations(
    *, session: SessionId | None = None, after: str = "", limit: int = 1_000
) -> Script[Sequence[Operation]]:
    found = yield from rows(OPERATIONS, session=session or "", after=after, limit=limit)
    return [operation_of(row) for row in found]


@verb
def list_session_facts(*, after: str = "", limit: int = 100) -> Script[Sequence[SessionFacts]]:
    found = yield from rows(ALL_SESSIONS, after=after, limit=limit)
    result = []
    for row in found:
        one_session = session_of(row)
        count, last_seq, fork_n = (yield from one(COUNTS, session=one_session.id)) or (0, 0, 0)
        result.append(
            SessionFacts(
                session=one_session,
                operations=tuple((yield from list_operations(session=one_session.id, limit=10_000))),
                summaries=tuple((yield from list_summaries(one_session.id))),
                fork_n=fork_n,
                entries=count,
                last_seq=max(last_seq, one_session.fork_seq),
            )
        )
    return result
