"""What a person decides about a delivery: it is given up, or it did arrive.

The caller holds the cursor and the lane of the delivery in this transaction and has checked its state.
"""

from holdfast.memory.cursor_sql import MARK, DeliveryRow
from holdfast.memory.lane_sql import TAKEN_BACK
from holdfast.store.script import Script, run

# It stays parked: undoing and erasing treat it as what it may be, and it can be replayed.
GIVE_UP = """
update delivery
   set state = 'parked', decided_by = :who, settled_at = :now, payload_hash = null, failing_at = null,
       reason = case when reason is null then '' else reason || '; ' end || 'given up by ' || cast(:who as text)
 where n = :n"""
ARRIVED = """
update delivery
   set state = 'delivered', decided_by = :who, settled_at = :now, payload_hash = null, failing_at = null,
       uncertain_at = null, reason = null, receipt = 'said to have arrived by ' || cast(:who as text)
 where n = :n"""


def give_up_delivery(unit: DeliveryRow, who: str) -> Script[str]:
    yield from run(GIVE_UP, n=unit.n, who=who)
    yield from run(MARK, provider=unit.provider, stream=unit.stream)
    return "parked"


def settle_delivery_as_arrived(unit: DeliveryRow, who: str) -> Script[str]:
    yield from run(ARRIVED, n=unit.n, who=who)
    if unit.op.startswith("retract:"):
        yield from run(TAKEN_BACK, n=unit.n)
    yield from run(MARK, provider=unit.provider, stream=unit.stream)
    return "delivered"
