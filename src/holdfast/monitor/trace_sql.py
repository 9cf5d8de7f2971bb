"""Reading everything that is known about one message, in one snapshot, and finding messages by any id."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.inbox.mailbox import MessageTrace
from holdfast.kernel.ids import Instant, MessageId
from holdfast.memory.delivery import DeliveryView
from holdfast.memory.lane_sql import split_id
from holdfast.monitor.attempt import AttemptKind, SendAttempt
from holdfast.monitor.attempt_sql import list_attempts
from holdfast.monitor.foreign_id_sql import by_foreign_id
from holdfast.monitor.trace import (
    NodeRun,
    TracedApproval,
    TracedReply,
    TracedSend,
    TracedTurn,
    TraceFacts,
    TurnAhead,
    TurnUndone,
)
from holdfast.monitor.trace_notes_sql import read_note_deliveries
from holdfast.sessions.compression import COMPRESS, Operation
from holdfast.sessions.history_sql import trace_message
from holdfast.sessions.summary_sql import OPERATION
from holdfast.store.script import Columns, Script, one, rows, verb
from holdfast.turns.activity import Activity, ActivityKind
from holdfast.turns.activity_sql import read_activities
from holdfast.turns.agent_pause_sql import read_pause
from holdfast.turns.journal import Undone
from holdfast.turns.journal_sql import chain, undos

AHEAD_MAX = 20
NEAR_MAX = 3


class Place(NamedTuple):
    """Where a message stands."""

    mailbox: str
    kind: str
    is_blank: int
    repeats: int
    repeated_at: Instant | None
    owner: str | None
    nodes: int
    now: Instant


PLACE = """
select inbound.mailbox, inbound.kind, case when length(inbound.body) = 0 then 1 else 0 end, inbound.repeats,
       inbound.repeated_at,
       (select owner from mailbox where mailbox.id = inbound.mailbox and exists (select 1 from node where id = owner)),
       (select count(*) from node), cast(:now as int8)
  from inbound where message = :message"""
TURN = Columns(TracedTurn)
TURN_OF = f"select {TURN} from turn where session = :session and n = :turn"
TURN_AHEAD = Columns(TurnAhead, "turn")
# Turns of the mailbox's earlier messages that ended after this one was accepted, or have not ended.
AHEAD = f"""
select distinct {TURN_AHEAD} from inbound join turn on turn.session = inbound.session and turn.n = inbound.turn
 where inbound.account = :account and inbound.conversation = :conversation and inbound.mailbox = :mailbox
   and inbound.seq < :seq and (turn.closed_at is null or turn.closed_at >= :accepted_at)
 order by turn.opened_at limit {AHEAD_MAX}"""
QUEUED = "select account, conversation, seq from inbound where message = :message"
OPERATIONS = f"""
select {OPERATION} from operation
 where session = :session and kind = '{COMPRESS}' and started_at <= :until
   and (ended_at is null or ended_at >= :since)
 order by started_at"""
APPROVAL = Columns(TracedApproval)
APPROVALS = f"select {APPROVAL} from approval where session = :session and turn = :turn order by asked_at, id"
REPLY = Columns(TracedReply)
REPLIES = f"select {REPLY} from reply where message = :message order by n"
TURN_REPLIES = f"select {REPLY} from reply where session = :session and turn = :turn order by n"
SENT = """
select n, sent_at, settled_at from delivery
 where stream = :session and from_turn <= :turn and through_turn >= :turn"""
RUN = Columns(NodeRun)
RUN_OF = f"select {RUN} from node_run where id = :id"


@verb
def read_trace(wanted: MessageId) -> Script[TraceFacts]:
    """Raises `MessageNotFound`."""
    message = yield from trace_message(wanted)
    place = Place._make((yield from one(PLACE, message=wanted)) or ("", "", 0, 0, None, None, 0, 0))
    turn = None
    if message.session is not None and message.turn is not None:
        turn = yield from TURN.one(TURN_OF, session=message.session, turn=message.turn)
    activities: Sequence[Activity] = ()
    if turn is not None and message.session is not None:
        activities = yield from read_activities(message.session, turn.n)
    replies = yield from _replies(message, turn)
    deliveries = yield from _deliveries(message, turn)
    notes = yield from read_note_deliveries(message, turn, activities)
    return TraceFacts(
        at=place.now,
        message=message,
        kind=place.kind,
        is_forgotten=bool(place.is_blank),
        repeats=place.repeats,
        repeated_at=place.repeated_at,
        is_claimed=place.owner is not None,
        nodes_alive=place.nodes,
        turn=turn,
        ahead=(yield from _ahead(message, place)),
        compressions=(yield from _compressions(message, turn, place.now)),
        activities=activities,
        approvals=(yield from _approvals(message, turn)),
        replies=replies,
        deliveries=deliveries,
        note_deliveries=notes,
        reply_attempts=(yield from _attempts(AttemptKind.REPLY, [(one_.id, one_.n) for one_ in replies])),
        delivery_attempts=(
            yield from _attempts(AttemptKind.DELIVERY, [(sent.view.id, sent.view.n) for sent in (*deliveries, *notes)])
        ),
        runs=(yield from _runs(turn, activities)),
        undone=(yield from _undone(message)),
        pause=(yield from read_pause(message.agent)),
    )


def _ahead(message: MessageTrace, place: Place) -> Script[Sequence[TurnAhead]]:
    row = yield from one(QUEUED, message=message.message)
    if row is None:
        return ()
    account, conversation, seq = row
    queue = {"account": account, "conversation": conversation, "seq": seq, "mailbox": place.mailbox}
    found = yield from TURN_AHEAD.rows(AHEAD, accepted_at=message.accepted_at, **queue)
    return [one_ for one_ in found if (one_.session, one_.n) != (message.session, message.turn)]


def _compressions(message: MessageTrace, turn: TracedTurn | None, now: Instant) -> Script[Sequence[Operation]]:
    if message.session is None:
        return ()
    until = turn.closed_at if turn is not None and turn.closed_at is not None else now
    return (yield from OPERATION.rows(OPERATIONS, session=message.session, since=message.accepted_at, until=until))


def _approvals(message: MessageTrace, turn: TracedTurn | None) -> Script[Sequence[TracedApproval]]:
    if turn is None:
        return ()
    return (yield from APPROVAL.rows(APPROVALS, session=message.session, turn=turn.n))


def _replies(message: MessageTrace, turn: TracedTurn | None) -> Script[Sequence[TracedReply]]:
    """The replies to the message itself and those of its turn, which answers its messages together."""
    own = yield from REPLY.rows(REPLIES, message=message.message)
    of_turn = []
    if turn is not None:
        of_turn = yield from REPLY.rows(TURN_REPLIES, session=message.session, turn=turn.n)
    return sorted({one_.n: one_ for one_ in (*own, *of_turn)}.values(), key=lambda reply: reply.n)


def _deliveries(message: MessageTrace, turn: TracedTurn | None) -> Script[Sequence[TracedSend]]:
    if turn is None:
        return ()
    times = {n: times for n, *times in (yield from rows(SENT, session=message.session, turn=turn.n))}

    def timed(view: DeliveryView) -> TracedSend:
        sent_at, settled_at = times.get(view.n, (None, None))
        return TracedSend(view=view, sent_at=sent_at, settled_at=settled_at)

    return [timed(view) for view in message.deliveries]


def _attempts(kind: AttemptKind, subjects: Sequence[tuple[str, int]]) -> Script[Sequence[tuple[str, SendAttempt]]]:
    found = []
    for name, n in subjects:
        found += [(name, attempt) for attempt in (yield from list_attempts(kind, n))]
    return found


def _runs(turn: TracedTurn | None, activities: Sequence[Activity]) -> Script[Sequence[NodeRun]]:
    """The processes that worked on the turn; older ones may be forgotten."""
    if turn is None:
        return ()
    earlier = [done.name for done in activities if done.kind is ActivityKind.RESUMPTION]
    found = []
    for node in dict.fromkeys(filter(None, (*earlier, turn.node))):
        run = yield from RUN.one(RUN_OF, id=node)
        found += [run] if run is not None else []
    return found


def _undone(message: MessageTrace) -> Script[TurnUndone | None]:
    if message.session is None or message.turn is None:
        return None
    for entry in (yield from undos((yield from chain(message.session)))):
        body = entry.body
        if isinstance(body, Undone) and body.first_turn <= message.turn <= body.last_turn:
            return TurnUndone(at=entry.at, by=body.by)
    return None


# --- finding a message by any id ---------------------------------------------------------------------

FOUND_MAX = 50
TURN_ID = re.compile(r"(ses_\w+)[:/](\d{1,18})")
FROM = "select message from inbound where message >= :id order by message limit :limit"
BY_REPLY = "select message from reply where id = :id"
BY_APPROVAL = """
select inbound.message from approval
  join inbound on inbound.session = approval.session and inbound.turn = approval.turn
 where approval.id = :id order by inbound.seq"""
BY_DELIVERY = """
select inbound.message from delivery
  join inbound on inbound.session = delivery.stream
             and inbound.turn between delivery.from_turn and delivery.through_turn
 where delivery.stream = :stream and delivery.provider = :provider and delivery.from_seq = :from_seq
 order by inbound.turn, inbound.seq limit :limit"""
BY_TURN = "select message from inbound where session = :session and turn = :turn order by seq limit :limit"
BY_SESSION = """
select message from inbound where session = :id and turn is not null order by turn desc, seq desc limit :limit"""
BY_EVENT = """
select inbound.message from inbound join mailbox on mailbox.id = inbound.mailbox
 where inbound.event_id = :id and (:agent = '' or mailbox.agent = :agent)
   and (:chat = '' or inbound.conversation = :chat)
 order by inbound.message desc limit :limit"""
BELOW = "select message from inbound where message < :id order by message desc limit :limit"
ABOVE = "select message from inbound where message > :id order by message limit :limit"
EVENTS_BELOW = "select message from inbound where event_id < :id order by event_id desc limit :limit"
EVENTS_ABOVE = "select message from inbound where event_id > :id order by event_id limit :limit"


@verb
def find_messages(wanted: str, *, agent: str = "", chat: str = "") -> Script[Sequence[MessageId]]:
    """The messages that an id may mean: of a message (or its beginning), a reply, an approval, a delivery, a turn
    (`SESSION/N` or `SESSION:N`), a session, or the sender's own id of the message; if there is none, an id of others.
    Messages of one turn come in its order, others newest first. An agent and a chat narrow what senders' own ids mean.
    """
    found: list[str] = []
    if wanted.startswith("msg_"):
        following = yield from rows(FROM, id=wanted, limit=FOUND_MAX)
        found += [row[0] for row in following if row[0].startswith(wanted)]
    elif wanted.startswith(("rep_", "ask_")):
        found += [row[0] for row in (yield from rows(BY_REPLY, id=wanted))]
    elif turn := TURN_ID.fullmatch(wanted):
        about = {"session": turn[1], "turn": int(turn[2]), "limit": FOUND_MAX}
        found += [row[0] for row in (yield from rows(BY_TURN, **about))]
    elif wanted.startswith("ses_"):
        found += [row[0] for row in (yield from rows(BY_SESSION, id=wanted, limit=FOUND_MAX))]
    else:
        found += [row[0] for row in (yield from rows(BY_APPROVAL, id=wanted))]
        found += yield from _of_delivery(wanted)
    found += [row[0] for row in (yield from rows(BY_EVENT, id=wanted, agent=agent, chat=chat, limit=FOUND_MAX))]
    if not found and wanted:
        found += yield from by_foreign_id(wanted, limit=FOUND_MAX)
    return [MessageId(one_) for one_ in dict.fromkeys(found)]


def _of_delivery(wanted: str) -> Script[list[str]]:
    provider, stream = split_id(wanted)
    number = wanted.rsplit(":retract:", 1)[0].rpartition(":")[2]
    if not (provider and stream and number.isdecimal()):
        return []
    about = {"stream": stream, "provider": provider, "from_seq": min(int(number), 2**62), "limit": FOUND_MAX}
    return [row[0] for row in (yield from rows(BY_DELIVERY, **about))]


@verb
def near_messages(wanted: str) -> Script[Sequence[MessageId]]:
    """The messages whose ids, or whose senders' own ids, stand next to one that a person mistyped."""
    below, above = (BELOW, ABOVE) if wanted.startswith("msg_") else (EVENTS_BELOW, EVENTS_ABOVE)
    before = yield from rows(below, id=wanted, limit=NEAR_MAX)
    after = yield from rows(above, id=wanted, limit=NEAR_MAX)
    return [MessageId(row[0]) for row in (*before[::-1], *after)]
