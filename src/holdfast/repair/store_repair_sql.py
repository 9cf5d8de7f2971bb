"""Repairing contradictions between rows: one transaction, with the row of the audit trail.

Each repair finds its rows again, so it changes nothing where nothing is wrong, and a repeated repair does nothing.
"""

from collections.abc import Mapping

from holdfast.audit import action_sql
from holdfast.audit.action import PROGRAM, Act, By
from holdfast.outbox.reply_sql import CUT_OFF
from holdfast.repair.findings_sql import (
    BLOCKS,
    LAST_UNIT,
    MISCOUNTED,
    OPEN_DELIVERY,
    OPEN_MAIL,
    QUERIES,
    REPLY_IS_LEFT,
    SETTLED_AHEAD,
    STRANDED,
    UNPROVED,
    UNSCHEDULED,
    UNUSED,
)
from holdfast.store.node_sql import reap_nodes
from holdfast.store.script import Script, many, rows, run, verb

SUBJECT = "store"  # in the audit trail
PARKED = "parked by holdfast doctor: it blocked its lane"
CUT_OFF_REPLIES = f"{CUT_OFF} where {REPLY_IS_LEFT} returning id"
PARK = f"""
update delivery
   set state = 'parked', reason = '{PARKED}' || coalesce('; ' || reason, ''), settled_at = cast(:now as int8)
 where {BLOCKS} returning agent, provider, place"""
LANES_DUE = f"""
update lane set due_at = cast(:now as int8)
 where owner is null and due_at is null
   and exists (select 1 from delivery where delivery.agent = lane.agent and delivery.provider = lane.provider
                  and delivery.place = lane.place and {OPEN_DELIVERY})"""
LANES_MISSING = f"""
insert into lane (agent, provider, place, due_at)
select distinct agent, provider, place, cast(:now as int8) from delivery
 where {OPEN_DELIVERY} and not exists (select 1 from lane where lane.agent = delivery.agent
                                          and lane.provider = delivery.provider and lane.place = delivery.place)"""
WAKE = """
update lane set due_at = cast(:now as int8) where agent = :agent and provider = :provider and place = :place"""
# The turn that is closed says what became of the message; one without a turn is answered by a new one.
SETTLE_MAIL = f"""
update inbound
   set state = coalesce((select case turn.phase when 'committed' then 'answered' else turn.phase end from turn
                          where turn.session = inbound.session and turn.n = inbound.turn), 'waiting')
 where {STRANDED}"""
LEAVE_TURN = """
update inbound set turn = null, session = null
 where state = 'waiting' and turn is not null
   and not exists (select 1 from turn where turn.session = inbound.session and turn.n = inbound.turn)"""
RECOUNT = f"update mailbox set depth = (select count(*) from inbound where {OPEN_MAIL}) where {MISCOUNTED}"
READY = f"""
update mailbox set ready_at = cast(:now as int8)
 where owner is null and ready_at is null and exists (select 1 from inbound where {OPEN_MAIL})"""
EMPTY = "update mailbox set ready_at = null where owner is null and ready_at is not null and depth = 0"
DELETE_UNUSED = f"delete from attachment where {UNUSED}"
SCHEDULE_AGAIN = f"""
update cursor
   set scheduled_seq = (select last_seq from turn where turn.session = cursor.stream and turn.n = {LAST_UNIT}),
       due_at = cast(:now as int8)
 where {UNSCHEDULED}"""
SETTLE_AGAIN = f"""
update cursor
   set settled_seq = case when coalesce(({UNPROVED}) - 1, scheduled_seq) < scheduled_seq
                          then ({UNPROVED}) - 1 else scheduled_seq end
 where {SETTLED_AHEAD}"""


@verb
def repair_rows(*, lease_ms: int, also: Mapping[str, int] | None = None, by: By = PROGRAM) -> Script[Mapping[str, int]]:
    """Repair what can be repaired; the number of rows by the code of the fault.

    `also` are repairs outside the rows, which the caller made; they are in the row of the audit trail as well.
    """
    before: dict[str, int] = {}
    for code, query in QUERIES.items():
        ((count,),) = yield from rows(f"select count(*) from ({query}) as found", lease_ms=lease_ms)
        if count:
            before[code] = int(count)
    if before:
        yield from reap_nodes(lease_ms=lease_ms)
        yield from rows(CUT_OFF_REPLIES, lease_ms=lease_ms)
        yield from _park()
        yield from run(LANES_MISSING)
        yield from run(LANES_DUE)
        yield from run(SETTLE_MAIL)
        yield from run(LEAVE_TURN)
        yield from run(RECOUNT)
        yield from run(READY)
        yield from run(EMPTY)
        yield from run(SCHEDULE_AGAIN)
        yield from run(SETTLE_AGAIN)
        yield from run(DELETE_UNUSED)
    after: dict[str, int] = {}
    for code in before:
        ((count,),) = yield from rows(f"select count(*) from ({QUERIES[code]}) as found", lease_ms=lease_ms)
        after[code] = int(count)
    done = {code: count - after[code] for code, count in before.items() if count > after[code]}
    if done or also:
        yield from action_sql.record(Act.STORE_REPAIRED, by, SUBJECT, **{**done, **(also or {})})
    return done


def _park() -> Script[None]:
    """Park each delivery that blocks its lane, and wake the lane."""
    parked = yield from rows(PARK)
    lanes = [{"agent": agent, "provider": provider, "place": place} for agent, provider, place in parked]
    yield from many(WAKE, lanes)
