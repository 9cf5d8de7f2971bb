"""Reading what happened since a cursor. Every query follows a primary key or an index of open rows; a look costs the
same whether the store is small or large.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from holdfast.kernel.ids import Instant
from holdfast.kernel.ports import make_id
from holdfast.monitor.durations import duration
from holdfast.monitor.message_list import ListedMessage
from holdfast.monitor.message_list_sql import STORED, listed_message
from holdfast.monitor.status import RunningTurn
from holdfast.monitor.status_sql import RUNNING, RUNNING_TURN
from holdfast.monitor.tail import (
    SendCursor,
    SentItem,
    TailCursor,
    TailEvent,
    TailPage,
    TailTurn,
    TurnKey,
    message_event,
    next_ended,
    next_sends,
    send_events,
    turn_began,
    turn_ended,
    turn_waits,
)
from holdfast.monitor.timeline_step import Mark, joined
from holdfast.monitor.turn_steps import activity_words
from holdfast.store.script import Columns, Query, Script, one, rows, together, verb
from holdfast.turns.activity import Activity, ActivityKind
from holdfast.turns.activity_sql import loaded_detail

ROWS_MAX = 500  # of one table in one look
OVERLAP_MS = 10_000  # between the time in a message's id and its commit
OVERLAP_ROWS = 50
TOPS = """
select cast(:now as int8), (select coalesce(max(n), 0) from activity), (select coalesce(max(n), 0) from reply),
       (select coalesce(max(n), 0) from delivery)"""
NOW = "select cast(:now as int8)"
MESSAGES = f"""
select {STORED} from inbound join mailbox on mailbox.id = inbound.mailbox
 where inbound.message > :after order by inbound.message limit :limit"""
ACTIVITY = Columns(Activity, "activity", detail=("activity.detail", loaded_detail))
ACTIVITIES = f"""
select activity.n, activity.session, activity.turn, session.agent, {ACTIVITY}
  from activity join session on session.id = activity.session
 where activity.n > :after order by activity.n limit :limit"""
TURN = Columns(TailTurn, "turn", agent="session.agent")
TURN_OF = f"""
select {TURN} from turn join session on session.id = turn.session
 where turn.session = :session and turn.n = :n and turn.closed_at is not null"""
REPLY = Columns(SentItem, "reply", name="channel")
REPLIES = f"select {REPLY} from reply where n > :after order by n limit :limit"
# `n + 0` keeps the planner from the primary key, which has every row.
OPEN_REPLIES = (
    f"select {REPLY} from reply where state in ('pending', 'attempting') order by n + 0 desc limit {ROWS_MAX}"
)
REPLY_OF = f"select {REPLY} from reply where n = :n"
DELIVERY = Columns(SentItem, "delivery", name="provider", session="stream", turn="through_turn")
DELIVERIES = f"select {DELIVERY} from delivery where n > :after order by n limit :limit"
OPEN_DELIVERIES = f"""
select {DELIVERY} from delivery where state in ('scheduled', 'sending', 'uncertain')
 order by n + 0 desc limit {ROWS_MAX}"""
DELIVERY_OF = f"select {DELIVERY} from delivery where n = :n"


class Done(NamedTuple):
    """An activity, and where it belongs."""

    n: int
    key: TurnKey
    agent: str
    activity: Activity


class SendTable(NamedTuple):
    columns: Columns[SentItem]
    newer: str
    open: str
    row: str


REPLY_TABLE = SendTable(REPLY, REPLIES, OPEN_REPLIES, REPLY_OF)
DELIVERY_TABLE = SendTable(DELIVERY, DELIVERIES, OPEN_DELIVERIES, DELIVERY_OF)


@verb
def start_tail() -> Script[TailCursor]:
    """A cursor that begins now."""
    found = yield from one(TOPS)
    now, activity, reply, delivery = found or (0, 0, 0, 0)
    start = TailCursor(
        messages_after=_from(Instant(now)),
        activities_after=max(0, activity - OVERLAP_ROWS),
        replies=SendCursor(after=max(0, reply - OVERLAP_ROWS)),
        deliveries=SendCursor(after=max(0, delivery - OVERLAP_ROWS)),
    )
    return (yield from _page(start)).cursor


@verb
def read_tail(cursor: TailCursor) -> Script[TailPage]:
    """What happened since the cursor."""
    return (yield from _page(cursor))


def _page(cursor: TailCursor) -> Script[TailPage]:
    now = Instant((yield from rows(NOW))[0][0])
    messages = yield from _messages(cursor)
    activities = yield from _activities(cursor)
    replies = yield from _sends(REPLY_TABLE, cursor.replies)
    deliveries = yield from _sends(DELIVERY_TABLE, cursor.deliveries)
    running = {TurnKey(turn.session, turn.n): turn for turn in (yield from RUNNING_TURN.rows(RUNNING))}
    new_messages = [one_ for one_ in messages if one_.message not in cursor.messages]
    new_activities = [done for done in activities if done.n not in cursor.activities]
    moved = (
        *cursor.turns,
        *(done.key for done in new_activities),
        *(TurnKey(sent.session, sent.turn) for sent in replies if sent.session is not None and sent.turn is not None),
        *(TurnKey(one_.session, one_.turn) for one_ in new_messages if one_.session and one_.turn is not None),
    )
    closed = yield from _closed(moved, running, cursor.ended)
    events = [
        *map(message_event, new_messages),
        *_beginnings(cursor, running, closed),
        *(_activity_event(done) for done in new_activities),
        *map(turn_ended, closed),
        *send_events("reply", cursor.replies, replies, now),
        *send_events("delivery", cursor.deliveries, deliveries, now),
    ]
    after = _from(max((one_.accepted_at for one_ in messages), default=Instant(0)))
    top = max((done.n for done in activities), default=0) - OVERLAP_ROWS
    following = TailCursor(
        messages_after=max(cursor.messages_after, after),
        messages=frozenset(one_.message for one_ in messages if one_.message > after),
        activities_after=max(cursor.activities_after, top),
        activities=frozenset(done.n for done in activities if done.n > top),
        turns={key: turn.phase for key, turn in running.items()},
        ended=next_ended(cursor.ended, (TurnKey(turn.session, turn.n) for turn in closed)),
        replies=next_sends(cursor.replies, replies, OVERLAP_ROWS),
        deliveries=next_sends(cursor.deliveries, deliveries, OVERLAP_ROWS),
    )
    return TailPage(events=sorted(events, key=lambda event: event.at), cursor=following)


def _from(at: Instant) -> str:
    return make_id("msg", Instant(max(0, at - OVERLAP_MS)), 0)


# --- reading -----------------------------------------------------------------------------------------


def _messages(cursor: TailCursor) -> Script[Sequence[ListedMessage]]:
    limit = ROWS_MAX + len(cursor.messages)
    found = yield from STORED.rows(MESSAGES, after=cursor.messages_after, limit=limit)
    return [listed_message(row) for row in found]


def _activities(cursor: TailCursor) -> Script[Sequence[Done]]:
    limit = ROWS_MAX + len(cursor.activities)
    found = yield from rows(ACTIVITIES, after=cursor.activities_after, limit=limit)
    return [
        Done(n, TurnKey(session, turn), agent, ACTIVITY.value(tuple(row))) for n, session, turn, agent, *row in found
    ]


def _sends(table: SendTable, cursor: SendCursor) -> Script[Sequence[SentItem]]:
    """New rows, open rows, and the rows that were open when they were told."""
    limit = ROWS_MAX + len(cursor.known)
    newer, still_open = yield from together(
        Query(table.newer, {"after": cursor.after, "limit": limit}), Query(table.open, {})
    )
    found = {sent.n: sent for sent in map(table.columns.value, (*still_open, *newer))}
    gone = [n for n, state in cursor.known.items() if state.is_open and n not in found][:ROWS_MAX]
    for settled in (yield from together(*(Query(table.row, {"n": n}) for n in gone))):
        found |= {sent.n: sent for sent in map(table.columns.value, settled)}
    # Older open rows that were not told are those of before the cursor.
    return [found[n] for n in sorted(found)]


def _closed(
    moved: Iterable[TurnKey], running: dict[TurnKey, RunningTurn], ended: Sequence[TurnKey]
) -> Script[Sequence[TailTurn]]:
    told = set(ended)
    wanted = [key for key in dict.fromkeys(moved) if key not in running and key not in told][:ROWS_MAX]
    found = yield from together(*(Query(TURN_OF, {"session": key.session, "n": key.n}) for key in wanted))
    return [TURN.value(row) for one_ in found for row in one_]


# --- events ------------------------------------------------------------------------------------------


def _beginnings(
    cursor: TailCursor, running: dict[TurnKey, RunningTurn], closed: Sequence[TailTurn]
) -> Iterable[TailEvent]:
    for key, turn in running.items():
        before = cursor.turns.get(key)
        if before is None:
            yield turn_began(key, turn.agent, turn.opened_at)
        if turn.phase == "awaiting" and before != "awaiting":
            yield turn_waits(key, turn.agent, turn.opened_at)
    for ended in closed:
        if (key := TurnKey(ended.session, ended.n)) not in cursor.turns:
            yield turn_began(key, ended.agent, ended.opened_at)


def _activity_event(done: Done) -> TailEvent:
    activity = done.activity
    if activity.kind is ActivityKind.RESUMPTION:
        what, proof, mark = "turn was taken over by another claim", "", Mark.LOST
    else:
        (what, proof), mark = activity_words(activity), Mark.DONE
    if activity.outcome in {"failed", "error", "interrupted"}:
        mark = Mark.FAILED
    turn = f"{done.key.session}/{done.key.n}"
    return TailEvent(
        at=activity.ended_at,
        kind=activity.kind.value,
        agent=done.agent,
        what=f"{what} in {duration(activity.duration_ms)}" if activity.duration_ms else what,
        proof=joined(proof, turn),
        mark=mark,
        subject=turn,
        turn=turn,
    )
