"""Cursor work: what became due for the providers, scheduled in the transaction that made it due (D18)."""

from collections.abc import Sequence

from holdfast.core.delivery import DeliveryPolicy, TurnSpan, due_units
from holdfast.core.ids import Principal, SessionId
from holdfast.core.journal import Entry, Undone
from holdfast.stores.script import Row, Script, many, one, rows, run
from holdfast.stores.verbs.journal import chain, undos

NEW_CURSOR = """
insert into cursor (provider, stream, scheduled_seq, settled_seq) values (:provider, :stream, :start, :start)
on conflict (provider, stream) do nothing"""
CURSOR = "select scheduled_seq from cursor where provider = :provider and stream = :stream /*lock*/"
PENDING = """
select n, first_seq, last_seq, place, principal from turn
 where session = :session and first_seq > :scheduled and closed_at is not null order by n"""
NEW_DELIVERY = """
insert into delivery (id, provider, place, stream, from_seq, through_seq, from_turn, through_turn, op,
                      principal, state, due_at, at)
values (:id, :provider, :place, :stream, :from_seq, :through_seq, :from_turn, :through_turn, :op,
        :principal, 'scheduled', :now, :now)"""
ADVANCE = """
update cursor set scheduled_seq = :through
 where provider = :provider and stream = :stream and scheduled_seq = :expected"""
PROVIDERS = "select provider from cursor where stream = :stream order by provider"
TOUCHED = """
select id, provider, place, from_seq, from_turn, through_turn, attempt, principal from delivery
 where stream = :stream and op = 'retain' and through_turn >= :first and from_turn <= :last
   and state <> 'dropped' order by id /*lock*/"""
DROP = "update delivery set state = 'dropped', reason = 'undone' where id = :id"
SHORTEN = """
update delivery
   set through_turn = :through, through_seq = (select last_seq from turn where session = :stream and n = :through)
 where id = :id"""


def schedule(
    session: SessionId, policies: Sequence[DeliveryPolicy], *, start: int, boundary: bool = False
) -> Script[None]:
    """Make units of what is pending. `start` is where the cursor of a provider new to this session begins."""
    for policy in policies:
        yield from run(NEW_CURSOR, provider=policy.provider, stream=session, start=start)
        row = yield from one(CURSOR, provider=policy.provider, stream=session)
        scheduled = row[0] if row else start
        pending = yield from _pending(session, scheduled)
        units = due_units(pending, policy, boundary=boundary)
        if not units:
            continue
        yield from many(
            NEW_DELIVERY,
            [
                {
                    "id": f"{policy.provider}:{session}:{unit.from_seq}",
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
            ],
        )
        through = pending[-1].last_seq
        yield from run(ADVANCE, provider=policy.provider, stream=session, through=through, expected=scheduled)


def schedule_tail(session: SessionId) -> Script[None]:
    """The session is ended or left: nothing stays behind its cursors, whether or not they are configured still.

    A provider without a cursor here was added after the last turn and starts with the next one (D22).
    """
    for (provider,) in (yield from rows(PROVIDERS, stream=session)):
        yield from schedule(session, (DeliveryPolicy(provider=provider),), start=0, boundary=True)


def _pending(session: SessionId, scheduled: int) -> Script[list[TurnSpan]]:
    found = yield from rows(PENDING, session=session, scheduled=scheduled)
    if not found:
        return []
    own = (yield from chain(session))[:1]
    voided: list[Entry] = yield from undos(own, after=scheduled)
    return [
        TurnSpan(
            n=n,
            first_seq=first,
            last_seq=last,
            place=place,
            principal=Principal(principal),
            undone=any(_covers(undo, n) for undo in voided),
        )
        for n, first, last, place, principal in found
    ]


def _covers(undo: Entry, turn: int) -> bool:
    return isinstance(undo.body, Undone) and undo.body.first_turn <= turn <= undo.body.last_turn


def cancel(session: SessionId, turns: Sequence[int]) -> Script[None]:
    """Take turns back from the cursors: drop what never left, retract what did (D19).

    Undo takes the last turns that count, so within one unit they are always its end.
    """
    found = yield from rows(TOUCHED, stream=session, first=min(turns), last=max(turns))
    for row in found:
        taken = [turn for turn in turns if row[4] <= turn <= row[5]]
        if taken:
            yield from _take_back(session, row, min(taken), max(taken))


def _take_back(session: SessionId, row: Row, first: int, last: int) -> Script[None]:
    delivery, provider, place, from_seq, from_turn, _, attempt, principal = row
    if attempt:
        yield from run(
            NEW_DELIVERY,
            id=f"{delivery}:retract:{first}",
            provider=provider,
            place=place,
            stream=session,
            from_seq=from_seq,
            through_seq=from_seq,
            from_turn=first,
            through_turn=last,
            op=f"retract:{first}",
            principal=principal,
        )
    elif from_turn == first:
        yield from run(DROP, id=delivery)
    else:
        yield from run(SHORTEN, id=delivery, stream=session, through=first - 1)
