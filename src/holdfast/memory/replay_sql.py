"""Deliveries that an operator requests: sessions from before a provider was configured (D22), a parked delivery again,
and all delivered parcels for a lost index."""

from holdfast.audit import action_sql
from holdfast.audit.action import PROGRAM, Act, By
from holdfast.kernel.errors import DeliveryNotFound, InvalidInput
from holdfast.kernel.ids import AgentName, DeliveryId, SessionId
from holdfast.memory.cursor_sql import (
    BEGIN,
    DROP,
    SHORTEN,
    STANDING,
    UNDONE,
    UNIT,
    DeliveryRow,
    add_units,
    pending_turns,
)
from holdfast.memory.delivery import DeliveryPolicy, Parcel, due_units
from holdfast.memory.lane import LaneKey
from holdfast.memory.lane_sql import HOLD, split_id
from holdfast.memory.parcel_sql import ITEM, ITEMS, parcel_of
from holdfast.store.script import Script, one, rows, run, verb

WITHOUT_CURSOR = """
select id, fork_seq from session
 where agent = :agent and id > :after and purpose = 'conversation' and state <> 'deleted' and turns > fork_turn
   and not exists (select 1 from cursor where cursor.stream = session.id and cursor.provider = :provider)
 order by id limit :limit"""
LOCK_SESSION = "select state from session where id = :session /*lock*/"
KNOWN = "select scheduled_seq from cursor where provider = :provider and stream = :stream"
DELIVERED = f"""
select delivery.n, delivery.place, {ITEM} from {ITEMS}
 where delivery.agent = :agent and delivery.provider = :provider and delivery.n > :after
   and delivery.state in ('delivered', 'retracted') and delivery.op <> 'erase' order by delivery.n limit :limit"""


@verb
def backfill_sessions(
    agent: AgentName, policy: DeliveryPolicy, *, after: str = "", limit: int, by: By = PROGRAM
) -> Script[tuple[str, int, bool]]:
    """Schedule all turns of sessions that the provider has no cursor in.

    Returns the last session of the page, the number of new units, and whether there may be more sessions.
    """
    found = yield from rows(WITHOUT_CURSOR, agent=agent, provider=policy.provider, after=after, limit=limit)
    states: dict[str, str] = {}
    for session, _ in found:  # lock all sessions before any lane (D5)
        states[session] = ((yield from one(LOCK_SESSION, session=session)) or ("deleted",))[0]
    made = 0
    for session, start in found:
        if states[session] != "deleted":  # forgotten since the page was read
            made += yield from _fill(SessionId(session), agent, policy, start)
    if made:
        yield from action_sql.record(Act.PROVIDER_BACKFILLED, by, policy.provider, agent=agent)
    last = found[-1][0] if found else after
    return last, made, len(found) == limit


def _fill(session: SessionId, agent: AgentName, policy: DeliveryPolicy, start: int) -> Script[int]:
    if (yield from one(KNOWN, provider=policy.provider, stream=session)) is not None:
        return 0  # a turn that was committed meanwhile created the cursor
    pending = yield from pending_turns(session, policy, start)
    counted = [span for span in pending if not span.undone]
    size = max(policy.every_turns, 1)
    units = [
        unit
        for first in range(0, len(counted), size)
        for unit in due_units(counted[first : first + size], policy, boundary=True)
    ]
    yield from add_units(session, agent, policy, units)
    through = pending[-1].last_seq if pending else start
    settled = start if units else through  # if every turn is undone, no unit will settle
    yield from run(BEGIN, provider=policy.provider, stream=session, through=through, start=settled)
    return len(units)


@verb
def list_delivered_parcels(key: LaneKey, *, after: int = 0, limit: int = 200) -> Script[tuple[tuple[int, Parcel], ...]]:
    """A page of all delivered parcels, in order, rendered from the journal; each with its delivery number."""
    found = yield from rows(DELIVERED, agent=key.agent, provider=key.provider, after=after, limit=limit)
    parcels: list[tuple[int, Parcel]] = []
    for n, place, *item in found:
        parcels.append((n, (yield from parcel_of(key, place, ITEM.value(tuple(item))))))
    return tuple(parcels)


# --- replay ------------------------------------------------------------------------------------------

FIND = f"""
select {UNIT} from delivery
 where stream = :stream and provider = :provider and id = :id"""
# The first undone turn of a unit.
FIRST_UNDONE = """
select min(back.from_turn) from delivery as back, delivery as unit
 where unit.n = :n and unit.op = 'retain' and back.stream = unit.stream and back.provider = unit.provider
   and back.from_seq = unit.from_seq and back.op like 'retract:%'"""
# A delivery that was parked in doubt stays in doubt: the provider is asked before it is resent.
REPLAY = """
update delivery
   set state = case when uncertain_at is null then 'scheduled' else 'uncertain' end, late = 1, due_at = :now,
       reason = null, decided_by = null, suspect = 0, suspected_at = null, failing_at = null, settled_at = null,
       payload_hash = null
 where n = :n and state = 'parked' returning state"""
WAKE = (
    "update lane set due_at = :now where agent = :agent and provider = :provider and place = :place and owner is null"
)


@verb
def replay_delivery(delivery: DeliveryId, by: By = PROGRAM) -> Script[str]:
    """Reschedule a parked delivery, marked as late, in its old position on the lane. Returns its new state."""
    unit = yield from find_unit(delivery)
    if unit is None:
        raise DeliveryNotFound(f"there is no delivery {delivery!r}", delivery=delivery)
    yield from hold_lane(unit)
    state, _ = (yield from one(STANDING, n=unit.n)) or ("gone", 0)
    if state in {"scheduled", "sending", "uncertain"}:
        return str(state)  # already replayed
    if state != "parked":
        raise InvalidInput(f"delivery {delivery} is {state}; only a parked one can be replayed", delivery=delivery)
    replayed = yield from put_back(unit)
    yield from record_replay(unit, replayed, by)
    return replayed


def find_unit(delivery: str) -> Script[DeliveryRow | None]:
    provider, stream = split_id(delivery)
    return (yield from UNIT.one(FIND, stream=stream, provider=provider, id=delivery))


def hold_lane(unit: DeliveryRow) -> Script[None]:
    yield from run(HOLD, agent=unit.agent, provider=unit.provider, place=unit.place)


def wake_lane(unit: DeliveryRow) -> Script[None]:
    """Make the lane due now, unless a dispatcher has it: then it is due with its head when it is freed."""
    yield from run(WAKE, agent=unit.agent, provider=unit.provider, place=unit.place)


def put_back(unit: DeliveryRow) -> Script[str]:
    """Put a parked delivery, whose lane is held, back on the lane; returns its new state."""
    if (yield from _is_undone(unit.n, unit.stream, unit.from_turn)):
        return "dropped"
    ((state,),) = yield from rows(REPLAY, n=unit.n)
    yield from wake_lane(unit)
    return str(state)


def record_replay(unit: DeliveryRow, state: str, by: By) -> Script[None]:
    more = {"state": state} if state == "dropped" else {}
    yield from action_sql.record(Act.DELIVERY_REPLAYED, by, unit.id, agent=unit.agent, **more)


def _is_undone(n: int, stream: str, first: int) -> Script[bool]:
    """Remove the turns undone since from a parked unit; True if none is left.

    Their retraction may be settled already, so a replay would restore them for good.
    """
    undone = yield from one(FIRST_UNDONE, n=n)
    if undone is None or undone[0] is None:
        return False
    if undone[0] > first:
        yield from run(SHORTEN, n=n, stream=stream, through=undone[0] - 1)
        return False
    yield from run(DROP, n=n, reason=UNDONE)
    return True
