"""Erasure at the providers: unsent units are dropped, and for sent units an erasure is appended to their lane.

A unit that is being sent, or may have landed, stays on its lane: the erasure is sent after the unit is settled, so that
a late request cannot restore the words. Lanes are locked before the check which units were sent.
"""

from collections.abc import Collection, Sequence

from holdfast.kernel.ids import ForgetId
from holdfast.memory.cursor_sql import LOCK_LANE, STANDING, UNIT, DeliveryRow, add_deliveries
from holdfast.memory.forget_halt_sql import FORGOTTEN
from holdfast.store.script import Script, many, one, rows, run

UNITS = f"select {UNIT} from delivery where stream = :stream order by n"
# A unit in state sending or uncertain loses its hash when it is settled, before its erasure (settle_sql.py).
UNHASH = """
update delivery set payload_hash = null
 where n = :n and payload_hash is not null and state not in ('sending', 'uncertain')"""
DROP = "update delivery set state = 'dropped', reason = :reason, settled_at = :now, payload_hash = null where n = :n"
NEXT_SEQ = "select coalesce(max(from_seq), 0) + 1 from delivery where stream = :stream and provider = :provider"
NUMBER = """
select n from delivery where stream = :stream and provider = :provider and from_seq = :seq and op = 'erase'"""
NAME_UNIT = "insert into erased_unit (erasure, unit, shared) values (:erasure, :unit, :shared)"
NEW_PART = "insert into forget_part (forget, n) values (:forget, :n)"


def units_of(stream: str) -> Script[list[DeliveryRow]]:
    """All units that were ever scheduled of a stream."""
    return (yield from UNIT.rows(UNITS, stream=stream))


def erase_units(
    forget: ForgetId,
    stream: str,
    principal: str,
    units: Sequence[DeliveryRow],
    shared: Sequence[DeliveryRow] = (),
    *,
    spared: Collection[int] = (),
) -> Script[int]:
    """Drop or erase the units; the number of dropped units. `stream` names the subject of the erasure.

    `spared` are numbers of units that also contain other speakers: if unsent, they are sent later without the blanked
    words. `shared` units contain other speakers too: they are not dropped, and their providers erase by speaker.
    """
    for agent, provider, place in sorted({unit.lane for unit in (*units, *shared)}):
        yield from run(LOCK_LANE, agent=agent, provider=provider, place=place)
    dropped, sent = 0, dict[tuple[str, str, str], list[tuple[str, int]]]()
    for unit in units:
        state, attempt = (yield from one(STANDING, n=unit.n)) or ("dropped", 0)
        if state == "scheduled" and (attempt or unit.n not in spared):
            yield from run(DROP, n=unit.n, reason=FORGOTTEN)
            dropped += 1
        if attempt and unit.op in {"retain", "remember"}:
            sent.setdefault(unit.lane, []).append((unit.id, 0))
    yield from many(UNHASH, [{"n": unit.n} for unit in (*units, *shared)])
    for unit in shared:
        if ((yield from one(STANDING, n=unit.n)) or ("", 0))[1]:
            sent.setdefault(unit.lane, []).append((unit.id, 1))
    for lane, ids in sorted(sent.items()):
        yield from _erase(forget, stream, principal, lane, ids)
    return dropped


def _erase(
    forget: ForgetId, stream: str, principal: str, lane: tuple[str, str, str], units: Sequence[tuple[str, int]]
) -> Script[None]:
    agent, provider, place = lane
    ((seq,),) = yield from rows(NEXT_SEQ, stream=stream, provider=provider)
    erasure = f"{provider}:{stream}:{seq}"
    delivery = DeliveryRow(
        id=erasure,
        agent=agent,
        provider=provider,
        place=place,
        stream=stream,
        from_seq=seq,
        through_seq=seq,
        op="erase",
        principal=principal,
    )
    yield from add_deliveries([delivery])
    ((n,),) = yield from rows(NUMBER, stream=stream, provider=provider, seq=seq)
    yield from many(NAME_UNIT, [{"erasure": erasure, "unit": unit, "shared": shared} for unit, shared in units])
    yield from run(NEW_PART, forget=forget, n=n)
