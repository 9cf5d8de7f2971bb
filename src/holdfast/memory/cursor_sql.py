"""Cursors: deliveries are scheduled in the transaction that makes them due (D18).

Locks are taken in the order cursor, lane, delivery, so that a settlement and the commit of a turn never deadlock.
"""

from collections.abc import Sequence

import msgspec

from holdfast.kernel.ids import AgentName, Instant, Principal, Provider, SessionId
from holdfast.memory.delivery import DeliveryPolicy, TurnSpan, Unit, due_units
from holdfast.memory.naming import CallerDirectory, NamingInputs, PerAddress
from holdfast.store.script import Params, Row, Script, many, one, rows, run, verb
from holdfast.turns.journal import Entry, Undone
from holdfast.turns.journal_sql import chain, undos

CURSORS = "select provider, scheduled_seq from cursor where stream = :stream order by provider /*lock*/"
PENDING = """
select n, first_seq, last_seq, place, principal, title, places, directory, repo from turn
 where session = :session and first_seq > :scheduled and closed_at is not null order by n"""
SESSION = "select agent, parent_id, title from session where id = :session"
NEW_DELIVERY = """
insert into delivery (id, agent, provider, place, stream, from_seq, through_seq, from_turn, through_turn, op,
                      principal, state, due_at, at)
values (:id, :agent, :provider, :place, :stream, :from_seq, :through_seq, :from_turn, :through_turn, :op,
        :principal, 'scheduled', :now, :now)"""
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
TOUCHED = """
select id, agent, provider, place, stream, from_seq, from_turn, through_turn, attempt, principal from delivery
 where stream = :stream and op = 'retain' and through_turn >= :first and from_turn <= :last
   and state <> 'dropped' order by n"""
LOCK_LANE = "select fence from lane where agent = :agent and provider = :provider and place = :place /*lock*/"
DROP = "update delivery set state = 'dropped', reason = 'undone', settled_at = :now, payload_hash = null where n = :n"
SHORTEN = """
update delivery
   set through_turn = :through, through_seq = (select last_seq from turn where session = :stream and n = :through)
 where n = :n"""
# The query starts at the current mark, so that its cost does not grow with the history. Retractions do not count: they
# are on the lane only. A replayed delivery does not count either: the mark passed it when it was parked.
MARK = """
update cursor
   set settled_seq = coalesce(
       (select min(from_seq) - 1 from delivery
         where delivery.stream = cursor.stream and delivery.provider = cursor.provider
           and delivery.from_seq > cursor.settled_seq and delivery.op in ('retain', 'remember')
           and delivery.state in ('scheduled', 'sending', 'uncertain')), scheduled_seq)
 where provider = :provider and stream = :stream"""
BY_ID = """
select n, attempt from delivery
 where stream = :stream and provider = :provider and from_seq = :from_seq and id = :id"""
OVERDUE = "select provider, stream, scheduled_seq from cursor where due_at <= :now order by due_at limit :limit"
NEXT_OVERDUE = "select min(due_at) from cursor where due_at is not null"
LOCK_SESSION = "select id from session where id = :session /*lock*/"
STILL = "select scheduled_seq from cursor where provider = :provider and stream = :stream and due_at <= :now /*lock*/"


def places_of(policies: Sequence[DeliveryPolicy], inputs: NamingInputs) -> str | None:
    """The places of a turn by provider, as JSON for the turn's row."""
    named = {policy.provider: policy.naming.place(inputs) for policy in policies if policy.turns}
    return msgspec.json.encode(named).decode() if named else None


def schedule(
    session: SessionId,
    agent: AgentName,
    policies: Sequence[DeliveryPolicy],
    *,
    start: int,
    boundary: bool = False,
    newest: Row | None = None,
) -> Script[None]:
    """Make units of the pending turns.

    `start` is the initial position of the cursor of a provider that is new to this session. `newest` is the PENDING row
    of the turn that was just committed: if no other turn is pending, nothing is read.
    """
    taking = [policy for policy in policies if policy.turns]
    if not taking:
        return
    known = yield from _marks(session)
    for policy in taking:
        scheduled = known.get(policy.provider, start)
        if newest is not None and newest[1] == scheduled + 1 and policy.every_turns == 1:
            pending = [_span(policy, newest, undone=False)]
        else:
            pending = yield from pending_turns(session, policy, scheduled)
        if pending:
            yield from _make_units(session, agent, policy, pending, (scheduled, start), boundary=boundary)


def _marks(stream: str) -> Script[dict[str, int]]:
    """The scheduled mark of each provider's cursor; locks the cursors."""
    found: list[Row] = yield from rows(CURSORS, stream=stream)
    return {row[0]: row[1] for row in found}


def _make_units(
    session: SessionId,
    agent: AgentName,
    policy: DeliveryPolicy,
    pending: Sequence[TurnSpan],
    marks: tuple[int, int],
    *,
    boundary: bool,
) -> Script[None]:
    scheduled, start = marks
    units = due_units(pending, policy, boundary=boundary)
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
            {
                "id": f"{policy.provider}:{session}:{unit.from_seq}",
                "agent": agent,
                "provider": policy.provider,
                "place": unit.place,
                "stream": session,
                "from_seq": unit.from_seq,
                "through_seq": unit.through_seq,
                "from_turn": unit.from_turn,
                "through_turn": unit.through_turn,
                "op": "retain",
                "principal": unit.principal,
            }
            for unit in units
        ]
    )


def add_deliveries(batch: Sequence[Params]) -> Script[None]:
    """Append deliveries to their lanes; each lane is locked first."""
    lanes = sorted({(row["agent"], row["provider"], row["place"], int(row["op"] == "remember")) for row in batch})
    yield from many(
        NEW_WORK,
        [{"agent": agent, "provider": name, "place": place, "notes": notes} for agent, name, place, notes in lanes],
    )
    yield from many(NEW_DELIVERY, batch)


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
        yield from _make_units(session, AgentName(row[0]), policy, pending, (scheduled, scheduled), boundary=True)


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
            yield from _make_units(session, AgentName(row[0]), policy, pending, (mark, mark), boundary=True)
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
            [_note(policy, stream, seq, agent=agent, place=place, principal=principal) for seq in fresh]
        )
        if fresh:
            yield from run(ADVANCE, provider=policy.provider, stream=stream, through=fresh[-1], start=first_seq - 1)


def _note(policy: DeliveryPolicy, stream: str, seq: int, *, agent: str, place: str, principal: Principal) -> Params:
    return {
        "id": f"{policy.provider}:{stream}:{seq}",
        "agent": agent,
        "provider": policy.provider,
        "place": place,
        "stream": stream,
        "from_seq": seq,
        "through_seq": seq,
        "from_turn": 0,
        "through_turn": 0,
        "op": "remember",
        "principal": principal,
    }


def pending_turns(session: SessionId, policy: DeliveryPolicy, scheduled: int) -> Script[list[TurnSpan]]:
    found = yield from rows(PENDING, session=session, scheduled=scheduled)
    if not found:
        return []
    own = (yield from chain(session))[:1]
    voided: list[Entry] = yield from undos(own, after=scheduled)
    row = (yield from one(SESSION, session=session)) or ("", None, None)
    return [
        _span(policy, turn, undone=any(_covers(undo, turn[0]) for undo in voided), session=(session, row))
        for turn in found
    ]


def _span(policy: DeliveryPolicy, turn: Row, *, undone: bool, session: tuple[SessionId, Row] | None = None) -> TurnSpan:
    n, first, last, address, principal, title, places, directory, repo = turn
    place = msgspec.json.decode(places, type=dict[str, str]).get(policy.provider) if places else None
    if place is None:  # the turn is older than the provider's configuration
        id_, (agent, parent, _) = session or (SessionId(""), ("", None, None))
        place = policy.naming.place(
            NamingInputs(
                agent=AgentName(agent),
                session=id_,
                principal=Principal(principal),
                address=address,
                parent=SessionId(parent) if parent else None,
                title=title,
                directory=directory or "",
                repo=repo or "",
            )
        )
    return TurnSpan(
        n=n,
        first_seq=first,
        last_seq=last,
        place=place,
        principal=Principal(principal),
        title=title,
        where=CallerDirectory(directory or "", repo or ""),
        undone=undone,
    )


def _covers(undo: Entry, turn: int) -> bool:
    return isinstance(undo.body, Undone) and undo.body.first_turn <= turn <= undo.body.last_turn


def cancel(session: SessionId, turns: Sequence[int]) -> Script[None]:
    """Undo turns at the providers: drop or shorten units that were never sent, retract those that were (D19).

    Undo removes the last counted turns, so within one unit they are always its end. The lane is locked before the check
    whether a unit was sent, so that no dispatcher can claim it in between.
    """
    yield from rows(CURSORS, stream=session)
    found = yield from rows(TOUCHED, stream=session, first=min(turns), last=max(turns))
    for row in sorted(found, key=lambda row: row[1:4]):
        taken = [turn for turn in turns if row[6] <= turn <= row[7]]
        if taken:
            yield from _undo_unit(session, row, min(taken), max(taken))
    for provider in sorted({row[2] for row in found}):
        yield from run(MARK, provider=provider, stream=session)


def _undo_unit(session: SessionId, row: Row, first: int, last: int) -> Script[None]:
    delivery, agent, provider, place, stream, from_seq, from_turn, _, _, principal = row
    yield from run(LOCK_LANE, agent=agent, provider=provider, place=place)
    n, attempt = (yield from one(BY_ID, stream=stream, provider=provider, from_seq=from_seq, id=delivery)) or (0, 0)
    if attempt:
        yield from add_deliveries(
            [
                {
                    "id": f"{delivery}:retract:{first}",
                    "agent": agent,
                    "provider": provider,
                    "place": place,
                    "stream": session,
                    "from_seq": from_seq,
                    "through_seq": from_seq,
                    "from_turn": first,
                    "through_turn": last,
                    "op": f"retract:{first}",
                    "principal": principal,
                }
            ]
        )
    elif from_turn == first:
        yield from run(DROP, n=n)
    else:
        yield from run(SHORTEN, n=n, stream=session, through=first - 1)
