"""Lanes: one dispatcher claims a whole lane, under the lane's fence, and delivers from its head (D17 to D21).

A settlement stores the outcomes of a call under the same fence, frees the lane, and moves the settled mark (R5).

Deliveries are never claimed singly: two dispatchers could then hold one lane. A delivery that a claim finds `sending`
was left by a dispatcher that died; it may have landed, so it becomes uncertain.

If the provider's notes may overtake each other (`passing`), a note that waits for its quiet period blocks only the
notes that depend on it: the claim skips it, and the lane is due as soon as one of its first deliveries is.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from holdfast.kernel.errors import LaneLost
from holdfast.kernel.ids import AgentName, Instant, NodeId, Provider
from holdfast.kernel.vendor_error import NO_ANSWER
from holdfast.memory.cursor_sql import MARK
from holdfast.memory.delivery import OPEN, DeliveryState, Op, Parcel
from holdfast.memory.lane import LaneClaim, LaneKey, Package, Settlement, may_pass
from holdfast.memory.parcel_sql import ITEM, ITEMS, Item, parcel_of, payload_hash
from holdfast.monitor.attempt_sql import answer_of, record_delivery_attempts
from holdfast.store.script import Params, Script, claim_name, locked_verb, many, one, plain, rows, run, verb

HELD = """
select place, fence, cast(:now as int8) - doubted_at from lane
 where owner = :node and claim = :name and agent = :agent and provider = :provider"""
FREE = """
select place, fence, cast(:now as int8) - doubted_at from lane
 where agent = :agent and provider = :provider and owner is null and due_at is not null and due_at <= :now
   and exists (select 1 from node where node.id = :node)
 order by due_at, place limit :limit /*skip locked*/"""
TAKE = """
update lane set owner = :node, claim = :name, fence = fence + 1
 where agent = :agent and provider = :provider and place = :place"""
# The unsettled deliveries of a lane, in their order. With `place = :place`, PostgreSQL may read the primary key from
# its beginning, past all that was ever delivered; only the index delivery_lane can answer this.
UNSETTLED = """
       delivery.agent = :agent and delivery.provider = :provider and delivery.place between :place and :place
   and delivery.state in ('scheduled', 'sending', 'uncertain')
 order by delivery.place, delivery.n"""
HEAD = f"""
select delivery.n, delivery.state, payload_hash, renderer, due_at <= cast(:now as int8),
       cast(:now as int8) - coalesce(failing_at, cast(:now as int8)),
       cast(:now as int8) - coalesce(uncertain_at, cast(:now as int8)), suspect, late, {ITEM},
       case when suspected_at is null then 0
            when (select max(delivered_at) from lane where lane.agent = :agent and lane.provider = :provider
                     and lane.place <> :place) > suspected_at then 1 else 0 end
  from {ITEMS}
 where {UNSETTLED} limit :limit"""
SEND = """
update delivery
   set state = 'sending', attempt = attempt + 1, sent_at = :now, payload_hash = :hash, renderer = :renderer,
       fence = :fence,
       lease_fence = (select fence from lane where agent = :agent and provider = :provider and place = :place)
 where n = :n"""
DOUBT = """
update delivery
   set state = 'uncertain', uncertain_at = coalesce(uncertain_at, cast(:now as int8)), fence = :fence, reason = :reason,
       lease_fence = (select fence from lane where agent = :agent and provider = :provider and place = :place)
 where n = :n"""
FREED = f"""
update lane
   set owner = null, claim = null,
       delivered_at = case when :delivered = 1 then cast(:now as int8) else delivered_at end,
       doubted_at = case when :doubted = 1 then cast(:now as int8) else doubted_at end,
       due_at = coalesce(
           case when :look > 0 then
             (select min(due_at) from (
                 select due_at from delivery where {UNSETTLED} limit :look) as first_ones
               where :stuck = 0 or due_at > cast(:now as int8)) end,
           (select due_at from delivery where {UNSETTLED} limit 1))
 where agent = :agent and provider = :provider and place = :place
returning due_at - cast(:now as int8)"""
# The next due lane of each provider with waiting lanes: a few index seeks each, however many lanes wait.
WAITING_LANES = """
with recursive waiting (agent, provider) as (
  select * from (select agent, provider from lane where owner is null and due_at is not null
                  order by agent, provider limit 1) as first_one
  union all
  select (select lane.agent from lane
           where owner is null and due_at is not null and (agent, provider) > (waiting.agent, waiting.provider)
           order by agent, provider limit 1),
         (select lane.provider from lane
           where owner is null and due_at is not null and (agent, provider) > (waiting.agent, waiting.provider)
           order by agent, provider limit 1)
    from waiting where waiting.agent is not null)
select agent, provider, (select min(due_at) from lane
                          where lane.agent = waiting.agent and lane.provider = waiting.provider
                            and owner is null and due_at is not null) as due_at
  from waiting where agent is not null"""
# Lanes whose head waits for any reason: a head that must wait longer is only postponed again.
WAITING = """
select place from lane
 where agent = :agent and provider = :provider and owner is null and due_at > cast(:now as int8)
 order by due_at desc, place limit :limit /*skip locked*/"""
DUE_NOW = f"update delivery set due_at = :now where n = (select n from delivery where {UNSETTLED} limit 1)"
LANE_DUE_NOW = "update lane set due_at = :now where agent = :agent and provider = :provider and place = :place"
PAIRS = "select distinct agent, provider from lane order by agent, provider"
PASSED_MAX = 120  # deliveries of one lane that are searched for one that may overtake
ROUNDS_MAX = 8  # searches of one claim, if lanes turn out to have nothing to send
INTERRUPTED = "the dispatcher was interrupted while it sent this delivery"
RENDERED_OTHERWISE = "its content would differ from that of the first attempt"


@locked_verb(claim_name)
def claim_lanes(
    node: NodeId,
    key: LaneKey,
    *,
    name: str = "",
    lanes: int = 1,
    units: int = 1,
    renderer: str = "",
    passing: bool = False,
) -> Script[tuple[LaneClaim, ...]]:
    """Claim free lanes whose heads are due, each with up to `units` rendered deliveries from its head."""
    lane = LaneClaim(key=key, place="", fence=0, node=node, packages=(), passing=passing)
    again = (yield from rows(HELD, node=node, name=name, agent=key.agent, provider=key.provider)) if name else []
    if again:
        held = [replace(lane, place=place, fence=fence, doubted_for_ms=ms) for place, fence, ms in sorted(again)]
        return tuple((yield from _load(held, units, renderer, repeated=True)))
    claims: list[LaneClaim] = []
    for _ in range(ROUNDS_MAX):
        limit = lanes - len(claims)
        found = yield from rows(FREE, agent=key.agent, provider=key.provider, node=node, limit=limit)
        taken = [replace(lane, place=place, fence=fence + 1, doubted_for_ms=ms) for place, fence, ms in sorted(found)]
        yield from many(TAKE, [{"node": node, "name": name, **_marks(one_)} for one_ in taken])
        claims += yield from _load(taken, units, renderer, repeated=False)
        if len(found) < limit or len(claims) == lanes:
            break
    return tuple(claims)


def _load(lanes: Sequence[LaneClaim], units: int, renderer: str, *, repeated: bool) -> Script[list[LaneClaim]]:
    """Render the deliveries of claimed lanes. Lanes of which nothing can be sent now are freed."""
    claims: list[LaneClaim] = []
    sends: list[Params] = []
    for lane in lanes:
        packages = yield from _packages(lane, units, renderer, sends, repeated=repeated)
        if packages:
            claims.append(replace(lane, packages=tuple(packages)))
        else:
            yield from free_lane(lane)
    yield from many(SEND, sends)
    return claims


def _marks(lane: LaneClaim) -> Params:
    return {"agent": lane.key.agent, "provider": lane.key.provider, "place": lane.place}


def free_lane(lane: LaneClaim, *, delivered: bool = False, doubted: bool = False) -> Script[int | None]:
    """Free a lane. It is due again with its head, or if notes may overtake, with one of its first deliveries.

    Of a lane without packages nothing can be sent now, so what is due now is left out. Returns the milliseconds until
    the lane is due; None without work.
    """
    look, flags = PASSED_MAX if lane.passing else 0, {"delivered": int(delivered), "doubted": int(doubted)}
    row = yield from one(FREED, look=look, stuck=int(not lane.packages), **flags, **_marks(lane))
    return None if row is None else row[0]


class QueuedDelivery(NamedTuple):
    """The row of HEAD."""

    n: int
    state: str
    payload_hash: str | None
    renderer: str | None
    is_due: int
    failing_for_ms: int
    uncertain_for_ms: int
    suspect: int
    late: int
    item: Item
    others_taken: int


def _packages(
    lane: LaneClaim, units: int, renderer: str, sends: list[Params], *, repeated: bool
) -> Script[list[Package]]:
    limit = max(units, PASSED_MAX) if lane.passing else units
    heads = yield from rows(HEAD, limit=limit, **_marks(lane))
    found = [QueuedDelivery._make((*head[:9], ITEM.value(head[9:-1]), head[-1])) for head in heads]
    # What a dead dispatcher was sending is doubted at once, so that it shares one quiet period.
    left = [] if repeated else [row.n for row in found if row.state == "sending"]
    if left:
        interrupted = {"node": lane.node, "asked": 0, **answer_of("interrupted", INTERRUPTED, NO_ANSWER)}
        yield from record_delivery_attempts([{**interrupted, "n": n} for n in left])
        yield from many(DOUBT, [{"fence": lane.fence, "reason": INTERRUPTED, "n": n, **_marks(lane)} for n in left])
    found = [row._replace(state="uncertain") if row.n in left else row for row in found]
    is_sending = any(row.state == "sending" for row in found)
    packages: list[Package] = []
    passed: list[Parcel] = []
    for row in found:
        if len(packages) == units or (packages and not passed and not _may_join(packages[-1], row, repeated=repeated)):
            break
        if lane.passing and (passed or _waits(row, is_sending=is_sending)):
            parcel = yield from parcel_of(lane.key, lane.place, row.item)
            if _waits(row, is_sending=is_sending) or not may_pass(parcel, passed):
                passed.append(parcel)
                continue
            if packages and not _may_join(packages[-1], row, repeated=repeated):
                break
        if not packages and not row.is_due and not repeated:
            break  # the head is not due
        package = yield from _package(lane, row, renderer, sends, repeated=repeated, joins=bool(packages))
        if package is None:
            break
        packages.append(package)
    return packages


def _waits(row: QueuedDelivery, *, is_sending: bool) -> bool:
    """Whether a note waits for its quiet period. The deliveries of a repeated claim are `sending`, not uncertain."""
    return row.item.op == Op.REMEMBER.value and row.state == "uncertain" and (is_sending or not row.is_due)


def _may_join(last: Package, row: QueuedDelivery, *, repeated: bool) -> bool:
    """Whether a delivery may join the call of the previous one."""
    wanted = "sending" if repeated else "scheduled"
    ops = {Op.RETAIN.value, Op.REMEMBER.value}
    return not last.ask and bool(row.is_due) and row.state == wanted and {row.item.op, last.parcel.op.value} <= ops


def _package(
    lane: LaneClaim, queued: QueuedDelivery, renderer: str, sends: list[Params], *, repeated: bool, joins: bool
) -> Script[Package | None]:
    """The package of a delivery; None if the provider must be asked about it and it is not the first of the call.

    The change of a delivery that is sent is added to `sends`.
    """
    item = queued.item
    fresh = queued.state == "scheduled" or (queued.state == "sending" and repeated)
    if fresh and not repeated:
        item = item._replace(attempt=item.attempt + 1)
    parcel = yield from parcel_of(lane.key, lane.place, item)
    made = payload_hash(parcel)
    changed = queued.payload_hash is not None and (queued.payload_hash, queued.renderer) != (made, renderer)
    ask = not fresh or (changed and not repeated)
    if joins and ask:
        return None
    marks = {"fence": lane.fence, "n": queued.n, **_marks(lane)}
    if ask and fresh:
        yield from run(DOUBT, reason=RENDERED_OTHERWISE, **marks)
    elif not ask and not repeated:
        sends.append({"hash": made, "renderer": renderer, **marks})
    return Package(
        n=queued.n,
        parcel=parcel,
        ask=ask,
        failing_for_ms=queued.failing_for_ms,
        uncertain_for_ms=queued.uncertain_for_ms,
        suspect=queued.suspect,
        others_taken=bool(queued.others_taken),
        late=bool(queued.late),
    )


# --- settlement --------------------------------------------------------------------------------------

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


@verb
def settle_lanes(settled: Sequence[tuple[LaneClaim, Sequence[Settlement]]]) -> Script[int | None]:
    """Store the outcomes of one call and free its lanes. Raises `LaneLost`; then nothing is changed.

    Returns the milliseconds until the first of the lanes is due again; None if none of them has work left.
    """
    ordered = sorted(settled, key=lambda pair: (pair[0].key, pair[0].place))
    streams = sorted({split_id(package.parcel.id) for claim, _ in ordered for package in claim.packages})
    for provider, stream in streams:  # lock the cursors that may move, before any lane (D5)
        yield from run(LOCK_CURSOR, provider=provider, stream=stream)
    due_in_ms: list[int | None] = []
    for claim, settlements in ordered:
        if (yield from _is_settled(claim)):
            due_in_ms.append(0)  # the answer of the first settlement was lost: the lane may be due
            continue
        if attempts := _attempts(claim, settlements):
            yield from record_delivery_attempts(attempts)
        yield from many(SETTLE, [_params(claim, one_) for one_ in settlements])
        delivered = {done.n for done in settlements if done.state is DeliveryState.DELIVERED}
        retracted = [one_.n for one_ in claim.packages if one_.parcel.op is Op.RETRACT and one_.n in delivered]
        yield from many(TAKEN_BACK, [{"n": n} for n in retracted])
        doubted = _is_doubted(claim, settlements)
        due_in_ms.append((yield from free_lane(claim, delivered=bool(delivered), doubted=doubted)))
    yield from many(MARK, [{"provider": provider, "stream": stream} for provider, stream in streams])
    return min((wait_ms for wait_ms in due_in_ms if wait_ms is not None), default=None)


def _attempts(claim: LaneClaim, settlements: Sequence[Settlement]) -> list[Params]:
    """The attempts that settled nothing. The settling one is in the delivery's own row."""
    asked = {package.n for package in claim.packages if package.ask}
    return [
        {"n": one_.n, "node": claim.node, "asked": int(one_.n in asked), **answer_of(outcome, one_.reason, one_.vendor)}
        for one_ in settlements
        if (outcome := one_.attempt_outcome(asked=one_.n in asked)) is not None
    ]


def split_id(delivery: str) -> tuple[str, str]:
    """The provider and the stream of a delivery id: `provider:stream:from_seq[:retract:turn]`."""
    base = delivery.rsplit(":retract:", 1)[0]
    provider, _, rest = base.partition(":")
    return provider, rest.rpartition(":")[0]


def _is_settled(claim: LaneClaim) -> Script[bool]:
    """Check the claim under lock; True if this settlement was already committed and its answer was lost."""
    row = yield from one(HOLD, **_marks(claim))
    if row is None or row[0] != claim.fence or row[1] not in (None, claim.node):
        raise LaneLost(f"fence {claim.fence} is behind {row and row[0]}", place=claim.place)
    return row[1] is None


def _is_doubted(claim: LaneClaim, settlements: Sequence[Settlement]) -> bool:
    """Whether a write of the claim may still arrive after this settlement."""
    writes = {package.n for package in claim.packages if package.parcel.turns or package.parcel.note is not None}
    known = {done.n: done.leaves_doubt for done in settlements}
    return any(known.get(n, True) for n in writes)


def _params(claim: LaneClaim, settlement: Settlement) -> dict[str, object]:
    has_reason = settlement.reason is not None or settlement.vendor is not NO_ANSWER
    return {
        "n": settlement.n,
        "fence": claim.fence,
        "state": settlement.state.value,
        "delay_ms": settlement.delay_ms,
        "receipt": plain(settlement.receipt),
        "reason": plain(settlement.vendor.kept(settlement.reason)) if has_reason else None,
        "suspect": int(settlement.suspect),
        "failing": int(settlement.failing),
        "again": int(settlement.again),
        "untried": int(settlement.untried),
        "doubtful": int(settlement.doubtful),
        "settled": int(settlement.state not in OPEN),
    }


# --- waiting lanes -----------------------------------------------------------------------------------


@verb
def hurry_lanes(key: LaneKey, *, limit: int) -> Script[int]:
    """Make up to `limit` waiting lanes of a provider due now, on all nodes; the number of lanes."""
    found = yield from rows(WAITING, agent=key.agent, provider=key.provider, limit=limit)
    for (place,) in sorted(found):
        yield from run(LANE_DUE_NOW, agent=key.agent, provider=key.provider, place=place)
        yield from run(DUE_NOW, agent=key.agent, provider=key.provider, place=place)
    return len(found)


@verb
def next_due() -> Script[tuple[Instant, dict[LaneKey, Instant]]]:
    """The store's time, and the due time of the next free lane of each provider that has one, configured or not."""
    (now,) = (yield from one("select cast(:now as int8)")) or (0,)
    found = yield from rows(WAITING_LANES)
    due = {LaneKey(AgentName(agent), Provider(provider)): Instant(due_at) for agent, provider, due_at in found}
    return Instant(now), due


@verb
def list_lane_keys() -> Script[tuple[LaneKey, ...]]:
    """The keys of all lanes, whether or not the provider is configured."""
    found = yield from rows(PAIRS)
    return tuple(LaneKey(AgentName(agent), Provider(provider)) for agent, provider in found)
