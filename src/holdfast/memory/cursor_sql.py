"""Cursors: deliveries are scheduled in the transaction that makes them due (D18).

Locks are taken in the order cursor, lane, delivery, so that a settlement and the commit of a turn never deadlock.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from holdfast.kernel.ids import AgentName, Instant, Principal, Provider, SessionId
from holdfast.memory.delivery import DeliveryPolicy, NamingInputs, PerAddress, TurnSpan, Unit, due_units
from holdfast.store.script import Columns, Query, Script, many, one, rows, run, verb
from holdfast.turns.journal import Entry, Undone
from holdfast.turns.journal_sql import chain, undos


class DeliveryRow(NamedTuple):
    """A delivery, as it is scheduled and as undoing and erasing read it."""

    id: str
    agent: str
    provider: str
    place: str
    stream: str
    from_seq: int
    through_seq: int
    op: str
    principal: str
    from_turn: int = 0
    through_turn: int = 0
    n: int = 0  # the store's number of a stored delivery

    @property
    def lane(self) -> tuple[str, str, str]:
        return self.agent, self.provider, self.place

    @property
    def turns(self) -> frozenset[int]:
        return frozenset(range(self.from_turn, self.through_turn + 1))


PENDING_TURN = Columns(TurnSpan, without=("undone",))
UNIT = Columns(DeliveryRow)
SCHEDULED = Columns(DeliveryRow, without=("n",))
CURSORS = "select provider, scheduled_seq from cursor where stream = :stream order by provider /*lock*/"
PENDING = f"""
select {PENDING_TURN} from turn
 where session = :session and first_seq > :scheduled and closed_at is not null order by n"""
SESSION = "select agent, parent_id from session where id = :session"
NEW_DELIVERY = f"""
insert into delivery ({SCHEDULED}, state, due_at, at)
values ({", ".join(f":{name}" for name in SCHEDULED.names)}, 'scheduled', :now, :now)"""
# A lane with work keeps the due time of its head. A note makes the lane due now: the claim decides whether the note may
# overtake the head.
NEW_WORK = """
insert into lane (agent, provider, place, due_at) values (:agent, :provider, :place, :now)
on conflict (agent, provider, place) do update
   set due_at = case when :notes = 1 then excluded.due_at else coalesce(lane.due_at, excluded.due_at) end"""
ADVANCE = """
insert into cursor (provider, stream, scheduled_seq, settled_seq, due_at)
values (:provider, :stream, :through, :start, null)
on conflict (provider, stream) do update set scheduled_seq = excluded.scheduled_seq, due_at = null"""
BEGIN = """
insert into cursor (provider, stream, scheduled_seq, settled_seq, due_at)
values (:provider, :stream, :through, :start, null) on conflict (provider, stream) do nothing"""
WAIT = """
insert into cursor (provider, stream, scheduled_seq, settled_seq, due_at)
values (:provider, :stream, :start, :start, cast(:now as int8) + cast(:wait_ms as int8))
on conflict (provider, stream) do update set due_at = coalesce(cursor.due_at, excluded.due_at)"""
TOUCHED = f"""
select {UNIT} from delivery
 where stream = :stream and op = 'retain' and through_turn >= :first and from_turn <= :last
   and state <> 'dropped' order by n"""
LOCK_LANE = "select fence from lane where agent = :agent and provider = :provider and place = :place /*lock*/"
DROP = "update delivery set state = 'dropped', reason = :reason, settled_at = :now, payload_hash = null where n = :n"
UNDONE = "undone"  # the reason of a dropped delivery
SHORTEN = """
update delivery
   set through_turn = :through, through_seq = (select last_seq from turn where session = :stream and n = :through)
 where n = :n"""
# The query starts at the current mark, so that its cost does not grow with the history. Retractions do not count: they
# are on the lane only. A replayed delivery does not count either: the mark passed it when it was parked.
MARK = """
update cursor
   set settled_seq = coalesce(
       (select from_seq - 1 from delivery
         where delivery.stream = cursor.stream and delivery.provider = cursor.provider
           and delivery.from_seq > cursor.settled_seq and delivery.op in ('retain', 'remember')
           and delivery.state in ('scheduled', 'sending', 'uncertain') order by from_seq limit 1), scheduled_seq)
 where provider = :provider and stream = :stream"""
STANDING = "select state, attempt from delivery where n = :n"
OVERDUE = "select provider, stream, scheduled_seq from cursor where due_at <= :now order by due_at limit :limit"
NEXT_OVERDUE = "select min(due_at) from cursor where due_at is not null"
LOCK_SESSION = "select id from session where id = :session /*lock*/"
STILL = "select scheduled_seq from cursor where provider = :provider and stream = :stream and due_at <= :now /*lock*/"


def places_of(policies: Sequence[DeliveryPolicy], inputs: NamingInputs) -> str | None:
    """The places of a turn by provider, as JSON for the turn's row."""
    named = {policy.provider: policy.naming.place(inputs) for policy in policies if policy.turns}
    return msgspec.json.encode(named).decode() if named else None


def span_of(
    n: int, first_seq: int, last_seq: int, inputs: NamingInputs, policies: Sequence[DeliveryPolicy]
) -> TurnSpan:
    """A turn that is being committed, with its places by provider."""
    title, places = inputs.title, places_of(policies, inputs)
    where = inputs.directory, inputs.repo
    return TurnSpan(n, first_seq, last_seq, inputs.address, inputs.principal, title, places, *where)


def schedule(
    session: SessionId,
    agent: AgentName,
    policies: Sequence[DeliveryPolicy],
    *,
    start: int,
    newest: TurnSpan | None = None,
    marks: dict[str, int] | None = None,
) -> Script[None]:
    """Make units of the pending turns.

    `start` is the initial position of the cursor of a provider that is new to this session. `newest` is the turn that
    was just committed: if no other turn is pending, nothing is read. `marks` are the rows of `marks_queries`, if they
    were read.
    """
    taking = [policy for policy in policies if policy.turns]
    if not taking:
        return
    known = (yield from _marks(session)) if marks is None else marks
    for policy in taking:
        scheduled = known.get(policy.provider, start)
        if newest is not None and newest.first_seq == scheduled + 1 and policy.every_turns == 1:
            pending = [newest._replace(place=_stored_place(policy, newest) or newest.place)]
        else:
            pending = yield from pending_turns(session, policy, scheduled)
        if pending:
            yield from _make_units(session, agent, policy, pending, (scheduled, start))


def marks_queries(stream: str, policies: Sequence[DeliveryPolicy]) -> tuple[Query, ...]:
    """The query for the scheduled mark of each provider's cursor; it locks the cursors. None if nobody takes turns."""
    return (Query(CURSORS, {"stream": stream}),) if any(policy.turns for policy in policies) else ()


def _marks(stream: str) -> Script[dict[str, int]]:
    """The scheduled mark of each provider's cursor; locks the cursors."""
    return dict((yield from rows(CURSORS, stream=stream)))


def _make_units(
    session: SessionId,
    agent: AgentName,
    policy: DeliveryPolicy,
    pending: Sequence[TurnSpan],
    marks: tuple[int, int],
) -> Script[None]:
    scheduled, start = marks
    units = due_units(pending, policy, boundary=False)
    if not units:
        if policy.max_wait_ms is not None and any(not span.undone for span in pending):
            yield from run(WAIT, provider=policy.provider, stream=session, start=start, wait_ms=policy.max_wait_ms)
        elif scheduled == start:
            yield from run(BEGIN, provider=policy.provider, stream=session, through=start, start=start)
        return
    yield from add_units(session, agent, policy, units)
    through = pending[-1].last_seq
    yield from run(ADVANCE, provider=policy.provider, stream=session, through=through, start=start)


def add_units(session: SessionId, agent: AgentName, policy: DeliveryPolicy, units: Sequence[Unit]) -> Script[None]:
    yield from add_deliveries(
        [
            DeliveryRow(
                id=f"{policy.provider}:{session}:{unit.from_seq}",
                agent=agent,
                provider=policy.provider,
                stream=session,
                op="retain",
                **unit._asdict(),
            )
            for unit in units
        ]
    )


def add_deliveries(batch: Sequence[DeliveryRow]) -> Script[None]:
    """Append deliveries to their lanes; each lane is locked first."""
    lanes = sorted({(one_.agent, one_.provider, one_.place, int(one_.op == "remember")) for one_ in batch})
    yield from many(
        NEW_WORK,
        [{"agent": agent, "provider": name, "place": place, "notes": notes} for agent, name, place, notes in lanes],
    )
    yield from many(NEW_DELIVERY, [one_._asdict() for one_ in batch])


def schedule_tail(session: SessionId, policies: Sequence[DeliveryPolicy] = ()) -> Script[None]:
    """Schedule all pending turns of a session that ended or was left, also for providers no longer configured.

    A provider without a cursor was added after the last turn and starts with the next one (D22).
    """
    row = yield from one(SESSION, session=session)
    if row is None:
        return
    named = {policy.provider: policy.naming for policy in policies}
    for provider, scheduled in (yield from rows(CURSORS, stream=session)):
        policy = DeliveryPolicy(provider=provider, naming=named.get(provider, PerAddress()))
        pending = yield from pending_turns(session, policy, scheduled)
        yield from _make_units(session, AgentName(row[0]), policy, pending, (scheduled, scheduled))


@verb
def schedule_overdue(*, limit: int) -> Script[int]:
    """Make units of turns that were pending for longer than `max_wait_ms`; the number of cursors."""
    found = yield from rows(OVERDUE, limit=limit)
    for stream in sorted({stream for _, stream, _ in found}):  # lock all sessions, then all cursors, then lanes (D5)
        yield from run(LOCK_SESSION, session=stream)
    still: dict[tuple[str, str], int] = {}
    for provider, stream, _ in sorted(found):
        for (mark,) in (yield from rows(STILL, provider=provider, stream=stream)):
            still[provider, stream] = mark
    for (provider, stream), mark in still.items():
        session = SessionId(stream)
        row = yield from one(SESSION, session=session)
        if row is None:
            continue
        policy = DeliveryPolicy(provider=Provider(provider), naming=PerAddress())
        pending = yield from pending_turns(session, policy, mark)
        if due_units(pending, policy, boundary=True):
            yield from _make_units(session, AgentName(row[0]), policy, pending, (mark, mark))
        else:
            yield from run(ADVANCE, provider=provider, stream=stream, through=mark, start=mark)
    return len(found)


@verb
def next_overdue() -> Script[Instant | None]:
    row = yield from one(NEXT_OVERDUE)
    return None if row is None or row[0] is None else Instant(row[0])


def schedule_notes(
    stream: str,
    agent: AgentName,
    subject: str,
    policies: Sequence[DeliveryPolicy],
    *,
    first_seq: int,
    last_seq: int,
    principal: Principal,
) -> Script[None]:
    """Mirror operations on an agent's notes to every provider that accepts them, one delivery each (R20)."""
    taking = [policy for policy in policies if policy.memory]
    if not taking or last_seq < first_seq:
        return
    known = yield from _marks(stream)
    for policy in taking:
        scheduled = known.get(policy.provider, first_seq - 1)
        fresh = [seq for seq in range(first_seq, last_seq + 1) if seq > scheduled]
        place = policy.naming.memory_place(agent, subject)
        yield from add_deliveries(
            [
                DeliveryRow(
                    id=f"{policy.provider}:{stream}:{seq}",
                    agent=agent,
                    provider=policy.provider,
                    place=place,
                    stream=stream,
                    from_seq=seq,
                    through_seq=seq,
                    op="remember",
                    principal=principal,
                )
                for seq in fresh
            ]
        )
        if fresh:
            yield from run(ADVANCE, provider=policy.provider, stream=stream, through=fresh[-1], start=first_seq - 1)


def pending_turns(session: SessionId, policy: DeliveryPolicy, scheduled: int) -> Script[list[TurnSpan]]:
    found = yield from PENDING_TURN.rows(PENDING, session=session, scheduled=scheduled)
    if not found:
        return []
    own = (yield from chain(session))[:1]
    voided: list[Entry] = yield from undos(own, after=scheduled)
    agent, parent = (yield from one(SESSION, session=session)) or ("", None)
    spans: list[TurnSpan] = []
    for turn in found:
        place = _stored_place(policy, turn)
        if place is None:  # the turn is older than the provider's configuration
            inputs = NamingInputs(
                agent=AgentName(agent),
                session=session,
                principal=turn.principal,
                address=turn.place,
                parent=SessionId(parent) if parent else None,
                title=turn.title,
                directory=turn.directory or "",
                repo=turn.repo or "",
            )
            place = policy.naming.place(inputs)
        spans.append(turn._replace(place=place, undone=any(_covers(undo, turn.n) for undo in voided)))
    return spans


def _stored_place(policy: DeliveryPolicy, turn: TurnSpan) -> str | None:
    """The place that was stored with the turn; None if the provider was not configured then."""
    return msgspec.json.decode(turn.places, type=dict[str, str]).get(policy.provider) if turn.places else None


def _covers(undo: Entry, turn: int) -> bool:
    return isinstance(undo.body, Undone) and undo.body.first_turn <= turn <= undo.body.last_turn


def cancel(session: SessionId, turns: Sequence[int]) -> Script[None]:
    """Undo turns at the providers: drop or shorten units that were never sent, retract those that were (D19).

    Undo removes the last counted turns, so within one unit they are always its end. The lane is locked before the check
    whether a unit was sent, so that no dispatcher can claim it in between.
    """
    yield from rows(CURSORS, stream=session)
    found = yield from UNIT.rows(TOUCHED, stream=session, first=min(turns), last=max(turns))
    for unit in sorted(found, key=lambda unit: unit.lane):
        taken = unit.turns.intersection(turns)
        if taken:
            yield from _undo_unit(session, unit, min(taken), max(taken))
    for provider in sorted({unit.provider for unit in found}):
        yield from run(MARK, provider=provider, stream=session)


def _undo_unit(session: SessionId, unit: DeliveryRow, first: int, last: int) -> Script[None]:
    yield from run(LOCK_LANE, agent=unit.agent, provider=unit.provider, place=unit.place)
    _, attempt = (yield from one(STANDING, n=unit.n)) or ("dropped", 0)
    if attempt:
        retraction = unit._replace(
            id=f"{unit.id}:retract:{first}",
            through_seq=unit.from_seq,
            op=f"retract:{first}",
            from_turn=first,
            through_turn=last,
        )
        yield from add_deliveries([retraction])
    elif unit.from_turn == first:
        yield from run(DROP, n=unit.n, reason=UNDONE)
    else:
        yield from run(SHORTEN, n=unit.n, stream=session, through=first - 1)
