"""Backfill: sessions from before a provider was configured (D22), and all delivered parcels for a lost index."""

from holdfast.audit import action_sql
from holdfast.audit.action import PROGRAM, Act, By
from holdfast.kernel.ids import AgentName, SessionId
from holdfast.memory.cursor_sql import BEGIN, add_units, pending_turns
from holdfast.memory.delivery import DeliveryPolicy, Parcel, due_units
from holdfast.memory.lane import LaneKey
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
