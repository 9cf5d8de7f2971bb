"""Read verbs for messages, chats, sessions, entries and operations. They return pages, never whole tables."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from holdfast.inbox.address import parse
from holdfast.inbox.attachment_sql import list_attachments
from holdfast.inbox.mailbox import MailboxView, MessageTrace, ReplyView
from holdfast.inbox.message import UNFINISHED
from holdfast.kernel.errors import MessageNotFound, SessionNotFound
from holdfast.kernel.ids import ApprovalId, Instant, MessageId, SessionId
from holdfast.memory.delivery import DeliveryView
from holdfast.sessions.compression import Operation, Summary
from holdfast.sessions.compression_audit import SessionFacts
from holdfast.sessions.session import ChatLine, Session, no_place_after
from holdfast.sessions.summary_sql import BY_NUMBER, OPERATION, SUMMARY
from holdfast.store.script import Columns, Script, one, utf8, verb
from holdfast.turns.approval import OpenQuestion
from holdfast.turns.approval_sql import released_by, waited_for
from holdfast.turns.journal import EntryView, Undone, is_undone
from holdfast.turns.journal_sql import NO_LIMIT, chain, entries, undos


class QueuePlace(NamedTuple):
    """The columns of a message that lead to other rows of its trace."""

    mailbox: str
    seq: int
    waits_until: Instant | None
    signal: str | None  # the text of a command that took effect on arrival
    enclosures: int


QUEUE_PLACE = Columns(
    QueuePlace,
    "inbound",
    waits_until="mailbox.waits_until",
    signal=("case when inbound.kind = 'signal' then inbound.body end", utf8),
    enclosures="(select count(*) from enclosure where enclosure.message = inbound.message)",
)
TRACE = Columns(
    MessageTrace,
    "inbound",
    without=("queued_behind", "reply", "deliveries", "enclosures", "awaiting", "released"),
    agent="mailbox.agent",
    chat="inbound.conversation",
    address="coalesce(inbound.address, mailbox.address)",
    accepted_at="inbound.at",
    phase="turn.phase",
    attempt="coalesce(turn.attempt, 0)",
    tokens_in="turn.tokens_in",
    tokens_out="turn.tokens_out",
)
MESSAGE = f"""
select {QUEUE_PLACE}, {TRACE}
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
REPLY = Columns(ReplyView, text=("body", utf8))
REPLY_TO = f"""
select {REPLY} from reply
 where message = :message
   and (channel <> 'agent' or address = (select inbound.address from inbound where inbound.message = :message))
 order by n desc limit 1"""
TURN_LAST = "select message from inbound where session = :session and turn = :turn order by seq desc limit 1"
DELIVERY = Columns(DeliveryView, without=("means",))
DELIVERIES = f"""
select {DELIVERY} from delivery
 where stream = :session and from_turn <= :turn and through_turn >= :turn order by provider, from_seq"""
PENDING_DELIVERY = Columns(
    DeliveryView,
    without=("means",),
    n="0",
    id="''",
    agent="session.agent",
    provider="cursor.provider",
    place="''",
    op="'retain'",
    state="'scheduled'",
    attempt="0",
    stream="turn.session",
    from_turn="turn.n",
    through_turn="turn.n",
    late="0",
    at="turn.closed_at",
    due_at="coalesce(cursor.due_at, turn.closed_at)",
    receipt="null",
    reason="'it is sent together with the next turns'",
    decided_by="null",
)
PENDING = f"""
select {PENDING_DELIVERY}
  from turn join session on session.id = turn.session join cursor on cursor.stream = turn.session
 where turn.session = :session and turn.n = :turn and turn.closed_at is not null
   and cursor.scheduled_seq < turn.first_seq order by cursor.provider"""
DELIVERY_PAGE = f"""
select {DELIVERY} from delivery
 where (:provider = '' or provider = :provider) and (:state = '' or state = :state) and n < :before
 order by n desc limit :limit"""
SESSION = Columns(
    Session,
    "session",
    parent="session.parent_id",
    live="mailbox.id is not null",
    address="(select place.address from mailbox place where place.id = session.mailbox)",
)
SESSIONS = f"select {SESSION} from session left join mailbox on mailbox.session_id = session.id"
BY_ID = f"{SESSIONS} where session.id = :session"
IS_SESSION = "select 1 from session where id = :session"
# Newest first by time; ids are not ordered by age, because writers without a mailbox choose their own.
OLDER_THAN_AFTER = """
(:after = '' or (session.opened_at, session.id) < (select opened_at, id from session where id = :after))
 order by session.opened_at desc, session.id desc limit :limit"""
SESSIONS_OF_PLACE = f"""{SESSIONS}
 where session.mailbox = (select mailbox_id from address where address = :address) and {OLDER_THAN_AFTER}"""
SESSIONS_OF_AGENT = f"{SESSIONS} where (:agent = '' or session.agent = :agent) and {OLDER_THAN_AFTER}"
ALL_SESSIONS = f"{SESSIONS} where session.id > :after order by session.id limit :limit"
MAILBOX = Columns(MailboxView, mailbox="id", session="session_id")
MAILBOX_AT = f"""
select {MAILBOX} from mailbox
 where id = (select mailbox_id from address where address = :address)"""
SUMMARIES = f"select {SUMMARY} from summary where session = :session order by n"
# An operation on people that changed nothing is stored only to make its repetition idempotent.
OPERATIONS = f"""
select {OPERATION} from operation
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
    cut = len(QUEUE_PLACE.names)
    queue, trace = QUEUE_PLACE.value(row[:cut]), TRACE.value(row[cut:], queued_behind=0, reply=None)
    is_open = trace.state in UNFINISHED
    (behind,) = ((yield from one(BEHIND, mailbox=queue.mailbox, seq=queue.seq)) if is_open else None) or (0,)
    waits = is_open and queue.waits_until is not None
    deliveries: list[DeliveryView] = []
    if trace.turn is not None:  # its deliveries, and the cursors for which it is still pending
        of_turn = {"session": trace.session, "turn": trace.turn}
        deliveries += yield from DELIVERY.rows(DELIVERIES, **of_turn)
        deliveries += yield from PENDING_DELIVERY.rows(PENDING, **of_turn)
    return replace(
        trace,
        queued_behind=behind,
        reply=(yield from _reply(wanted, trace.session, None if is_open else trace.turn)),
        deliveries=tuple(deliveries),
        enclosures=tuple((yield from list_attachments(wanted))) if queue.enclosures else (),
        awaiting=(yield from _question(queue.mailbox)) if waits else None,
        released=(yield from released_by(queue.signal, queue.mailbox, trace.principal)) if queue.signal else None,
    )


def _question(mailbox: str) -> Script[OpenQuestion | None]:
    """The open question of a mailbox's turn, with its original text."""
    row = yield from waited_for(mailbox)
    if row is None:
        return None
    approval, tool, due_at, session, turn, is_cut = row
    last = yield from one(TURN_LAST, session=session, turn=turn)
    asked = (yield from _reply(MessageId(last[0]), None, None)) if last else None
    text = asked.text if asked else ""
    return OpenQuestion(id=ApprovalId(approval), tool=tool, text=text, due_at=Instant(due_at), cut=is_cut)


@verb
def find_unanswered(address: str, request: str) -> Script[MessageId | None]:
    row = yield from one(UNANSWERED, address=address, request=request)
    return MessageId(row[0]) if row else None


def _reply(wanted: MessageId, session: str | None, turn: int | None) -> Script[ReplyView | None]:
    """The reply to a message. A turn answers its messages together; the reply belongs to the last of them."""
    reply = yield from REPLY.one(REPLY_TO, message=wanted)
    if reply is None and session is not None and turn is not None:
        last = yield from one(TURN_LAST, session=session, turn=turn)
        reply = (yield from REPLY.one(REPLY_TO, message=last[0])) if last else None
    return reply


@verb
def list_deliveries(
    *, provider: str | None = None, state: str | None = None, after: int = 0, limit: int = 100
) -> Script[tuple[DeliveryView, ...]]:
    wanted = {"provider": provider or "", "state": state or "", "before": after or NO_LIMIT}
    return tuple((yield from DELIVERY.rows(DELIVERY_PAGE, limit=limit, **wanted)))


@verb
def find_mailbox(address: str) -> Script[MailboxView | None]:
    return (yield from MAILBOX.one(MAILBOX_AT, address=address))


@verb
def read_session(wanted: SessionId) -> Script[Session]:
    found = yield from SESSION.one(BY_ID, session=wanted)
    if found is None:
        raise SessionNotFound(f"there is no session {wanted}", session=wanted)
    return found


@verb
def list_sessions(
    *, agent: str | None = None, address: str | None = None, after: str = "", limit: int = 100
) -> Script[Sequence[Session]]:
    """Raises `InvalidInput` if `after` does not exist: an empty page would mean the end of the list."""
    if after and (yield from one(IS_SESSION, session=after)) is None:
        raise no_place_after(after)
    if address is not None:
        return (yield from SESSION.rows(SESSIONS_OF_PLACE, address=address, after=after, limit=limit))
    return (yield from SESSION.rows(SESSIONS_OF_AGENT, agent=agent or "", after=after, limit=limit))


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
    return (yield from SUMMARY.rows(SUMMARIES, session=wanted))


@verb
def read_snapshot(wanted: SessionId, n: int) -> Script[tuple[Summary, Sequence[EntryView]]]:
    """The snapshot as of its summary: later undos do not change it."""
    found = yield from SUMMARY.one(BY_NUMBER, session=wanted, n=n)
    if found is None:
        raise SessionNotFound(f"there is no snapshot {wanted}.snapshot.{n}", session=wanted, n=n)
    links = yield from chain(wanted, upto_seq=found.covers_through)
    covered = yield from entries(links, after=0)
    voiding = yield from undos((yield from chain(wanted, upto_seq=found.head_seq)))
    return found, [EntryView(entry=entry, undone=is_undone(entry, voiding)) for entry in covered]


@verb
def list_operations(
    *, session: SessionId | None = None, after: str = "", limit: int = 1_000
) -> Script[Sequence[Operation]]:
    return (yield from OPERATION.rows(OPERATIONS, session=session or "", after=after, limit=limit))


@verb
def list_session_facts(*, after: str = "", limit: int = 100) -> Script[Sequence[SessionFacts]]:
    result = []
    for one_session in (yield from SESSION.rows(ALL_SESSIONS, after=after, limit=limit)):
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


# --- a chat as its participants saw it --------------------------------------------------------------------------------
# The journal is the model's view: it has no commands, no questions to a human and no refused messages. The inbound and
# reply rows are read instead. A page is a number of messages with all their replies; pruned and forgotten messages are
# absent.


def _shown(body: bytes) -> str:
    return bytes(body).decode("utf-8", "replace")


MAILBOX_ID = "select mailbox_id from address where address = :address"
SAID_LINE = Columns(ChatLine, without=("is_question", "approval", "undone"), id="message", text=("body", _shown))
SAID = f"""
select {SAID_LINE} from inbound
 where account = :account and conversation = :conversation and mailbox = :mailbox and seq < :before
   and length(body) > 0 order by seq desc limit :limit"""
REPLY_LINE = Columns(
    ChatLine,
    "reply",
    without=("approval", "undone"),
    event_id="''",
    principal="null",
    text=("reply.body", _shown),
    seq="inbound.seq",
    is_question="""
exists(select 1 from approval where session = reply.session and turn = reply.turn and asked_at = reply.at)""",
)
REPLIES = f"""
select {REPLY_LINE}
  from inbound join reply on reply.message = inbound.message
 where inbound.account = :account and inbound.conversation = :conversation and inbound.mailbox = :mailbox
   and inbound.seq between :first and :last and reply.channel <> 'agent' and length(reply.body) > 0
 order by reply.n"""


@verb
def read_conversation(address: str, *, before: int, limit: int) -> Script[Sequence[ChatLine]]:
    """The newest messages before a position, with their replies, oldest first."""
    at = parse(address)  # over HTTP, the account is the agent and the conversation is the chat (D38)
    place = {"account": at.agent, "conversation": at.chat}
    (mailbox,) = (yield from one(MAILBOX_ID, address=address)) or ("",)
    said = yield from SAID_LINE.rows(SAID, mailbox=mailbox, before=before, limit=limit, **place)
    if not said:
        return []
    replied = yield from REPLY_LINE.rows(REPLIES, mailbox=mailbox, first=said[-1].seq, last=said[0].seq, **place)
    asked, approval = yield from _asking(mailbox, replied)
    replies = [replace(line, approval=approval) if line.id == asked else line for line in replied]
    return (yield from _with_undone(_in_order(said[::-1], replies)))


def _in_order(said: Sequence[ChatLine], replies: Sequence[ChatLine]) -> Sequence[ChatLine]:
    """By time. Of one millisecond, a reply precedes the messages accepted after the message that it answers."""
    lines: list[ChatLine] = []
    waiting = deque(said)
    for reply in sorted(replies, key=lambda line: line.at):  # the sort keeps the order of equals
        while waiting and (waiting[0].at, waiting[0].seq) <= (reply.at, reply.seq):
            lines.append(waiting.popleft())
        lines.append(reply)
    return [*lines, *waiting]


def _asking(mailbox: str, replied: Sequence[ChatLine]) -> Script[tuple[str | None, ApprovalId | None]]:
    """The reply that asks for the open turn's approval, and the approval."""
    row = yield from waited_for(mailbox)
    if row is None:
        return None, None
    approval, _, _, session, turn, _ = row
    last = yield from one(TURN_LAST, session=session, turn=turn)
    asking = [reply.id for reply in replied if last is not None and reply.message == last[0]]
    return (asking[-1], ApprovalId(approval)) if asking else (None, None)


def _with_undone(lines: Sequence[ChatLine]) -> Script[Sequence[ChatLine]]:
    """Mark undone messages. Turn numbers are never reused within a session."""
    gone: set[tuple[SessionId, int]] = set()
    for session in {line.session for line in lines if line.session is not None}:
        for entry in (yield from undos((yield from chain(session)))):
            if isinstance(entry.body, Undone):
                gone |= {(session, n) for n in range(entry.body.first_turn, entry.body.last_turn + 1)}
    return [replace(line, undone=True) if (line.session, line.turn) in gone else line for line in lines]
