"""Reading a part of a session in one snapshot, with a number of statements that does not depend on its length."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from holdfast.kernel.ids import Instant, SessionId
from holdfast.monitor.attempt import AttemptKind, SendAttempt
from holdfast.monitor.session_facts import OutlineTurn, Relative, SessionDelivery, SessionMessage, SessionPart
from holdfast.monitor.trace import NodeRun, TracedApproval, TracedReply, TracedTurn
from holdfast.sessions.history_sql import read_session
from holdfast.sessions.session import Session
from holdfast.sessions.summary_sql import OPERATION, SUMMARY
from holdfast.store.script import Columns, Script, one, rows, utf8, verb
from holdfast.turns.activity_sql import ACTIVITY
from holdfast.turns.journal_sql import ENTRY, entry_of

V = TypeVar("V")
TURNS_SHOWN = 8
OUTLINE_MAX = 400
MESSAGES_MAX = 200  # of the shown turns; a busy group may have many in one
ENTRIES_MAX = 1_000
ROWS_MAX = 2_000
BRANCHES_MAX = 20

HELD = """
select coalesce(mailbox.fence, 0), mailbox.owner, cast(:now as int8)
  from session left join mailbox on mailbox.session_id = session.id where session.id = :session"""
SPAN = Columns(OutlineTurn)
OUTLINE = f"select {SPAN} from turn where session = :session order by n desc limit {OUTLINE_MAX}"
TURN = Columns(TracedTurn)
TURNS = f"""
select {TURN}, first_seq, last_seq from turn
 where session = :session and n <= :last order by n desc limit {TURNS_SHOWN}"""
MESSAGE = Columns(SessionMessage, text=("body", utf8))
MESSAGES = f"""
select {MESSAGE} from inbound
 where session = :session and turn between :first and :last order by turn, seq limit {MESSAGES_MAX}"""
OF_TURNS = "session = :session and turn between :first and :last"
ACTIVITIES = f"select turn, {ACTIVITY} from activity where {OF_TURNS} order by turn, n limit {ROWS_MAX}"
APPROVAL = Columns(TracedApproval)
APPROVALS = f"select turn, {APPROVAL} from approval where {OF_TURNS} order by asked_at, id limit {ROWS_MAX}"
REPLY = Columns(TracedReply)
REPLIES = f"select turn, {REPLY} from reply where {OF_TURNS} order by n limit {ROWS_MAX}"
DELIVERY = Columns(SessionDelivery)
DELIVERIES = f"""
select {DELIVERY} from delivery
 where stream = :session and from_turn <= :last and through_turn >= :first order by n limit {ROWS_MAX}"""
ATTEMPT = Columns(SendAttempt)
ATTEMPTS = f"""
select kind, subject, {ATTEMPT} from attempt
 where (kind = '{AttemptKind.REPLY.value}' and subject in (select n from reply where {OF_TURNS}))
    or (kind = '{AttemptKind.DELIVERY.value}'
        and subject in (select n from delivery
                         where stream = :session and from_turn <= :last and through_turn >= :first))
 order by n limit {ROWS_MAX}"""
ENTRIES = f"""
select {ENTRY} from entry
 where session = :session and seq between :first_seq and :last_seq order by seq limit {ENTRIES_MAX}"""
OPERATIONS = f"""
select {OPERATION} from operation
 where session = :session and started_at >= :since and started_at <= :until order by started_at limit 100"""
SNAPSHOTS = f"select {SUMMARY} from summary where session = :session order by n desc limit 50"
RUN = Columns(NodeRun)
RUNS = f"""
select {RUN} from node_run where ended_at >= :since and ended_at <= :until order by ended_at limit 20"""
RELATIVE = Columns(Relative)
PARENT = f"select {RELATIVE} from session where id = :parent"
BRANCHES = f"select {RELATIVE} from session where parent_id = :session order by opened_at limit {BRANCHES_MAX}"


class Range(NamedTuple):
    """The shown turns, and their entries."""

    turns: Sequence[TracedTurn]
    first_seq: int
    last_seq: int

    @property
    def first(self) -> int:
        return self.turns[0].n if self.turns else 0

    @property
    def last(self) -> int:
        return self.turns[-1].n if self.turns else -1


@verb
def read_session_facts(wanted: SessionId, *, through_turn: int | None = None) -> Script[SessionPart]:
    """The turns up to a number, or the newest ones. Raises `SessionNotFound`."""
    session: Session = yield from read_session(wanted)
    fence, owner, now = (yield from one(HELD, session=wanted)) or (0, None, 0)
    shown = yield from _range(wanted, through_turn)
    of = {"session": wanted, "first": shown.first, "last": shown.last}
    messages = yield from MESSAGE.rows(MESSAGES, **of)
    # Until the next turn began: what happened then belongs to none.
    since = min((one_.opened_at for one_ in shown.turns), default=session.opened_at)
    outline = (yield from SPAN.rows(OUTLINE, session=wanted))[::-1]
    until = min((one_.opened_at for one_ in outline if one_.n > shown.last), default=now)
    about = {"session": wanted, "since": since, "until": until}
    return SessionPart(
        at=Instant(now),
        session=session,
        fence=fence,
        owner=owner,
        outline=outline,
        turns=shown.turns,
        messages=messages,
        activities=(yield from _by_turn(ACTIVITY, ACTIVITIES, of)),
        approvals=(yield from _by_turn(APPROVAL, APPROVALS, of)),
        replies=(yield from _by_turn(REPLY, REPLIES, of)),
        deliveries=(yield from DELIVERY.rows(DELIVERIES, **of)),
        attempts=(yield from _attempts(of)),
        entries=[
            entry_of(wanted, row)
            for row in (yield from rows(ENTRIES, session=wanted, first_seq=shown.first_seq, last_seq=shown.last_seq))
        ],
        operations=(yield from OPERATION.rows(OPERATIONS, **about)),
        snapshots=(yield from SUMMARY.rows(SNAPSHOTS, session=wanted)),
        runs=(yield from RUN.rows(RUNS, since=since, until=until)),
        parent=(yield from RELATIVE.one(PARENT, parent=session.parent or "")),
        branches=(yield from RELATIVE.rows(BRANCHES, session=wanted)),
    )


def _range(session: SessionId, through_turn: int | None) -> Script[Range]:
    last = 2**62 if through_turn is None else through_turn
    found = (yield from rows(TURNS, session=session, last=last))[::-1]
    turns = [TURN.value(row[:-2]) for row in found]
    first_seqs, last_seqs = [row[-2] for row in found], [row[-1] for row in found]
    open_end = bool(turns) and turns[-1].closed_at is None
    return Range(turns, min(first_seqs, default=0), 2**62 if open_end else max(last_seqs, default=-1))


def _by_turn(columns: Columns[V], sql: str, of: Mapping[str, object]) -> Script[dict[int, list[V]]]:
    found: dict[int, list[V]] = defaultdict(list)
    for turn, *row in (yield from rows(sql, **of)):
        found[turn].append(columns.value(tuple(row)))
    return dict(found)


def _attempts(of: Mapping[str, object]) -> Script[dict[tuple[str, int], list[SendAttempt]]]:
    found: dict[tuple[str, int], list[SendAttempt]] = defaultdict(list)
    for kind, subject, *row in (yield from rows(ATTEMPTS, **of)):
        found[kind, subject].append(ATTEMPT.value(tuple(row)))
    return dict(found)
