"""Reading what waits. Each list reads the front of a partial index, whatever was settled before."""

from collections.abc import Sequence

from holdfast.kernel.errors import DeliveryNotFound
from holdfast.kernel.ids import DeliveryId
from holdfast.memory.delivery import DeliveryView
from holdfast.memory.lane_sql import split_id
from holdfast.monitor.undecided import LanesView, ReplayPlan, WaitingLane
from holdfast.outbox.reply import PostedReply
from holdfast.store.script import Columns, Script, one, rows, verb

OPEN = "state in ('scheduled', 'sending', 'uncertain')"
LANE = Columns(
    WaitingLane,
    "head",
    waiting="lanes.waiting",
    oldest_at="lanes.oldest_at",
    through_turn="lanes.through_turn",
)
IN_LANES = f"""
(select agent, provider, place, count(*) as waiting, min(n) as head, min(at) as oldest_at,
        max(through_turn) as through_turn
   from delivery where {OPEN} group by agent, provider, place)"""
LANES = f"""
select {LANE} from {IN_LANES} as lanes join delivery as head on head.n = lanes.head
 order by lanes.oldest_at, lanes.head limit :limit"""
COUNT = f"select count(*) from {IN_LANES} as lanes"
DELIVERY = Columns(DeliveryView, without=("means",))
PARKED = f"select {DELIVERY} from delivery where state = 'parked' and decided_by is null order by n desc limit :limit"
BY_ID = f"""
select {DELIVERY} from delivery where stream = :stream and provider = :provider and id = :id"""
AROUND = f"""
select uncertain_at is not null, settled_at,
       (select count(*) from delivery as other where other.agent = delivery.agent
           and other.provider = delivery.provider and other.place = delivery.place and other.{OPEN}),
       (select count(*) from delivery as newer where newer.stream = delivery.stream
           and newer.provider = delivery.provider and newer.from_seq > delivery.from_seq
           and newer.state = 'delivered')
  from delivery where n = :n"""
POSTED = Columns(PostedReply, parts_sent="part")
UNDECIDED = f"""
select {POSTED} from reply
 where state <> 'delivered' and state in ('uncertain', 'failed') and decided_by is null order by n desc limit :limit"""


@verb
def list_lanes(*, limit: int = 100) -> Script[LanesView]:
    found = yield from LANE.rows(LANES, limit=limit)
    count = yield from rows(COUNT)
    return LanesView(lanes=found, count=count[0][0])


@verb
def list_parked(*, limit: int = 100) -> Script[Sequence[DeliveryView]]:
    """Those that no person has given up, newest first."""
    return (yield from DELIVERY.rows(PARKED, limit=limit))


@verb
def list_undecided_replies(*, limit: int = 100) -> Script[Sequence[PostedReply]]:
    """Replies that are uncertain or failed and wait for a decision, newest first."""
    return (yield from POSTED.rows(UNDECIDED, limit=limit))


@verb
def plan_replay(delivery: DeliveryId) -> Script[ReplayPlan]:
    """Raises `DeliveryNotFound`."""
    provider, stream = split_id(delivery)
    found = yield from DELIVERY.one(BY_ID, stream=stream, provider=provider, id=delivery)
    around = None if found is None else (yield from one(AROUND, n=found.n))
    if found is None or around is None:
        raise DeliveryNotFound(f"there is no delivery {delivery[:120]!r}", delivery=delivery[:120])
    asks_first, parked_at, waiting = around[:3]
    return ReplayPlan(
        delivery=found,
        asks_first=bool(asks_first),
        waiting=waiting,
        newer=around[-1],
        parked_at=parked_at,
    )
