"""Settlement: stores the outcomes of a call under the lane's fence and moves the settled mark (R5)."""

from collections.abc import Sequence

from holdfast.audit import action_sql
from holdfast.audit.action import PROGRAM, Act, By
from holdfast.kernel.errors import DeliveryNotFound, InvalidInput, LaneLost
from holdfast.kernel.ids import DeliveryId
from holdfast.memory.cursor_sql import DROP, MARK, SHORTEN, STANDING, UNIT
from holdfast.memory.delivery import DeliveryState, Op
from holdfast.memory.lane import LaneClaim, Settlement
from holdfast.memory.lane_sql import free_lane
from holdfast.store.script import Script, many, one, plain, run, verb

LOCK_CURSOR = "select scheduled_seq from cursor where provider = :provider and stream = :stream /*lock*/"
HOLD = """
select fence, owner from lane where agent = :agent and provider = :provider and place = :place /*lock*/"""
SETTLE = """
update delivery
   set state = :state, attempt = attempt - :untried,
       due_at = cast(:now as int8) + cast(:delay_ms as int8),
       receipt = coalesce(cast(:receipt as text), receipt), reason = cast(:reason as text),
       suspect = suspect + case when :suspect = 1 and (select max(delivered_at) from lane
                    where lane.agent = delivery.agent and lane.provider = delivery.provider
                      and lane.place <> delivery.place) > suspected_at then 1 else 0 end,
       suspected_at = case when :suspect = 1 then cast(:now as int8) else suspected_at end,
       failing_at = case when :failing = 1 then coalesce(failing_at, cast(:now as int8))
                         when :settled = 0 then failing_at end,
       uncertain_at = case when cast(:state as text) = 'uncertain' or :doubtful = 1
                           then coalesce(uncertain_at, cast(:now as int8))
                           when cast(:state as text) = 'parked' then uncertain_at end,
       settled_at = case when :settled = 1 then cast(:now as int8) end,
       payload_hash = case when :settled = 0 and :again = 0 and (:untried = 0 or attempt <> 1) then payload_hash end,
       fence = :fence,
       lease_fence = (select lane.fence from lane where lane.agent = delivery.agent
                         and lane.provider = delivery.provider and lane.place = delivery.place)
 where n = :n"""
# The unit of a retraction that covers all its turns.
TAKEN_BACK = """
update delivery set state = 'retracted'
 where op = 'retain' and state = 'delivered'
   and (stream, provider, from_seq, from_turn) = (
       select stream, provider, from_seq, from_turn from delivery as back where n = :n and back.op like 'retract:%')"""
FIND = f"""
select {UNIT} from delivery
 where stream = :stream and provider = :provider and id = :id"""
# The first undone turn of a unit.
UNDONE = """
select min(back.from_turn) from delivery as back, delivery as unit
 where unit.n = :n and unit.op = 'retain' and back.stream = unit.stream and back.provider = unit.provider
   and back.from_seq = unit.from_seq and back.op like 'retract:%'"""
# A delivery that was parked in doubt stays in doubt: the provider is asked before it is resent.
REPLAY = """
update delivery
   set state = case when uncertain_at is null then 'scheduled' else 'uncertain' end, late = 1, due_at = :now,
       reason = null, suspect = 0, suspected_at = null, failing_at = null, settled_at = null, payload_hash = null
 where n = :n and state = 'parked' returning state"""
WAKE = (
    "update lane set due_at = :now where agent = :agent and provider = :provider and place = :place and owner is null"
)
FINAL = frozenset({DeliveryState.DELIVERED, DeliveryState.PARKED, DeliveryState.DROPPED})


@verb
def settle_lanes(settled: Sequence[tuple[LaneClaim, Sequence[Settlement]]]) -> Script[int | None]:
    """Store the outcomes of one call and free its lanes. Raises `LaneLost`; then nothing is changed.

    Returns the milliseconds until the first of the lanes is due again; None if none of them has work left.
    """
    ordered = sorted(settled, key=lambda pair: (pair[0].key, pair[0].place))
    streams = yield from _lock_cursors(ordered)
    due_in_ms: list[int | None] = []
    for claim, settlements in ordered:
        if (yield from _is_settled(claim)):
            due_in_ms.append(0)  # the answer of the first settlement was lost: the lane may be due
            continue
        yield from many(SETTLE, [_params(claim, one_) for one_ in settlements])
        yield from many(TAKEN_BACK, [{"n": done.n} for done in _retracted(claim, settlements)])
        delivered = any(_is_delivered(done) for done in settlements)
        due_in_ms.append((yield from free_lane(claim, delivered=delivered, doubted=_is_doubted(claim, settlements))))
    yield from many(MARK, [{"provider": provider, "stream": stream} for provider, stream in streams])
    return min((wait_ms for wait_ms in due_in_ms if wait_ms is not None), default=None)


def _lock_cursors(settled: Sequence[tuple[LaneClaim, Sequence[Settlement]]]) -> Script[list[tuple[str, str]]]:
    """Lock the cursors that may move, before any lane (D5)."""
    streams = sorted({split_id(package.parcel.id) for claim, _ in settled for package in claim.packages})
    for provider, stream in streams:
        yield from run(LOCK_CURSOR, provider=provider, stream=stream)
    return streams


def _retracted(claim: LaneClaim, settlements: Sequence[Settlement]) -> list[Settlement]:
    """The settlements of retractions that were delivered."""
    back = {package.n for package in claim.packages if package.parcel.op is Op.RETRACT}
    return [done for done in settlements if done.n in back and _is_delivered(done)]


def _is_settled(claim: LaneClaim) -> Script[bool]:
    """Check the claim under lock; True if this settlement was already committed and its answer was lost."""
    row = yield from one(HOLD, agent=claim.key.agent, provider=claim.key.provider, place=claim.place)
    if row is None or row[0] != claim.fence or row[1] not in (None, claim.node):
        raise LaneLost(f"fence {claim.fence} is behind {row and row[0]}", place=claim.place)
    return row[1] is None


def _is_delivered(settlement: Settlement) -> bool:
    return settlement.state is DeliveryState.DELIVERED


def _is_doubted(claim: LaneClaim, settlements: Sequence[Settlement]) -> bool:
    """Whether a write of the claim may still arrive after this settlement."""
    writes = {package.n for package in claim.packages if package.parcel.turns or package.parcel.note is not None}
    known = {done.n: done.leaves_doubt for done in settlements}
    return any(known.get(n, True) for n in writes)


def _params(claim: LaneClaim, settlement: Settlement) -> dict[str, object]:
    return {
        "n": settlement.n,
        "fence": claim.fence,
        "state": settlement.state.value,
        "delay_ms": settlement.delay_ms,
        "receipt": plain(settlement.receipt),
        "reason": plain(settlement.kept_reason),
        "suspect": int(settlement.suspect),
        "failing": int(settlement.failing),
        "again": int(settlement.again),
        "untried": int(settlement.untried),
        "doubtful": int(settlement.doubtful),
        "settled": int(settlement.state in FINAL),
    }


@verb
def replay_delivery(delivery: DeliveryId, by: By = PROGRAM) -> Script[str]:
    """Reschedule a parked delivery, marked as late, in its old position on the lane. Returns its new state."""
    provider, stream = split_id(delivery)
    unit = yield from UNIT.one(FIND, stream=stream, provider=provider, id=delivery)
    if unit is None:
        raise DeliveryNotFound(f"there is no delivery {delivery!r}", delivery=delivery)
    lane = {"agent": unit.agent, "provider": unit.provider, "place": unit.place}
    yield from run(HOLD, **lane)
    state, _ = (yield from one(STANDING, n=unit.n)) or ("gone", 0)
    if state == "parked" and (yield from _is_undone(unit.n, stream, unit.from_turn)):
        yield from action_sql.record(Act.DELIVERY_REPLAYED, by, delivery, agent=unit.agent, state="dropped")
        return "dropped"
    replayed = yield from one(REPLAY, n=unit.n)
    if replayed is None:
        if state in {"scheduled", "sending", "uncertain"}:
            return str(state)  # already replayed
        raise InvalidInput(f"delivery {delivery} is {state}; only a parked one can be replayed", delivery=delivery)
    yield from run(WAKE, **lane)
    yield from action_sql.record(Act.DELIVERY_REPLAYED, by, delivery, agent=unit.agent)
    return str(replayed[0])


def _is_undone(n: int, stream: str, first: int) -> Script[bool]:
    """Remove the turns undone since from a parked unit; True if none is left.

    Their retraction may be settled already, so a replay would restore them for good.
    """
    undone = yield from one(UNDONE, n=n)
    if undone is None or undone[0] is None:
        return False
    if undone[0] > first:
        yield from run(SHORTEN, n=n, stream=stream, through=undone[0] - 1)
        return False
    yield from run(DROP, n=n)
    return True


def split_id(delivery: str) -> tuple[str, str]:
    """The provider and the stream of a delivery id: `provider:stream:from_seq[:retract:turn]`."""
    base = delivery.rsplit(":retract:", 1)[0]
    provider, _, rest = base.partition(":")
    return provider, rest.rpartition(":")[0]
