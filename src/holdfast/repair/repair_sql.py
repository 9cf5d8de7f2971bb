"""Reading what a repair means, and carrying it out: each batch is one transaction.

Locks are taken in the order cursors, lanes, deliveries; replies and mailboxes in the order of their ids; the head of
the audit trail last. Under lock every item is judged again by the rules of the plan.
"""

from collections.abc import Callable, Iterable, Sequence

from holdfast.audit import action_sql
from holdfast.audit.action import PROGRAM, Act, By
from holdfast.inbox.message import MessageKind
from holdfast.kernel.ids import ReplyId
from holdfast.memory.cursor_sql import DeliveryRow
from holdfast.memory.decided_sql import give_up_delivery, settle_delivery_as_arrived
from holdfast.memory.forget_person_sql import VOID
from holdfast.memory.lane_sql import LOCK_CURSOR
from holdfast.memory.replay_sql import find_unit, hold_lane, put_back, record_replay, wake_lane
from holdfast.outbox.decided_sql import give_up_reply, send_again, settle_reply_as_arrived
from holdfast.outbox.reply_sql import insert_reply
from holdfast.repair.plan import (
    NAMEABLE,
    STATES,
    Candidate,
    PlannedItem,
    Repaired,
    RepairFilter,
    RepairSubject,
    RepairVerb,
    planned,
)
from holdfast.sessions.system_messages import GIVEN_UP
from holdfast.store.script import Columns, Script, rows, run, verb
from holdfast.turns.turn import NewReply
from holdfast.turns.turn_sql import LIGHTEN

DELIVERY = Columns(
    Candidate,
    "delivery",
    subject="'delivery'",
    name="delivery.provider",
    since="coalesce(delivery.settled_at, delivery.uncertain_at, delivery.at)",
    is_doubtful="delivery.uncertain_at is not null",
    is_busy="""
       exists (select 1 from lane where lane.agent = delivery.agent and lane.provider = delivery.provider
                  and lane.place = delivery.place and lane.owner is not null)""",
    is_undone="""
       (delivery.op = 'retain'
        and exists (select 1 from delivery as back
                     where back.stream = delivery.stream and back.provider = delivery.provider
                       and back.from_seq = delivery.from_seq and back.op like 'retract:%'))""",
    is_empty="0 = 1",
)
REPLY = Columns(
    Candidate,
    "reply",
    subject="'reply'",
    name="reply.channel",
    place="reply.address",
    op="''",
    since="coalesce(reply.settled_at, reply.at)",
    is_doubtful="(reply.state = 'uncertain' or reply.doubts > 0)",
    is_busy="reply.owner is not null",
    is_undone="0 = 1",
    is_empty="length(reply.body) = 0",
)
MESSAGE = Columns(
    Candidate,
    "inbound",
    subject="'message'",
    n="0",
    id="inbound.message",
    agent="mailbox.agent",
    name="inbound.channel",
    place="mailbox.address",
    op="inbound.kind",
    attempt="0",
    since="inbound.at",
    decided_by="null",
    is_doubtful="0 = 1",
    is_busy="mailbox.owner is not null",
    is_undone="0 = 1",
    is_empty="length(inbound.body) = 0",
)
MATCHES = """
   and (:agent = '' or agent = :agent) and (:reason = '' or lower(reason) like cast(:pattern as text) escape '!')"""
# The ranges of states are those of partial indexes over open rows.
OPEN_DELIVERIES = "delivery.state in ('scheduled', 'sending', 'uncertain')"
DELIVERIES = f"""
select {DELIVERY} from delivery
 where {{range}} and state = :state and n > :after and (decided_by is null or state <> 'parked')
   and (:name = '' or provider = :name) and coalesce(settled_at, uncertain_at, at) <= :before {MATCHES}
 order by n limit :limit"""
REPLIES = f"""
select {REPLY} from reply
 where state <> 'delivered' and state = :state and n > :after and decided_by is null
   and (:name = '' or channel = :name) and coalesce(settled_at, at) <= :before {MATCHES}
 order by n limit :limit"""
MESSAGES = f"""
select {MESSAGE} from inbound join mailbox on mailbox.id = inbound.mailbox
 where inbound.state in ('waiting', 'in_turn') and inbound.state = :state and inbound.message > :after
   and (:name = '' or inbound.channel = :name) and inbound.at <= :before
   and (:agent = '' or mailbox.agent = :agent) and :reason = '' and :pattern = :pattern
 order by inbound.message limit :limit"""
ONE_DELIVERY = f"select {DELIVERY} from delivery where stream = :stream and provider = :provider and id = :id"
ONE_REPLY = f"select {REPLY} from reply where id = :id"
LOCKED_REPLY = f"{ONE_REPLY} /*lock*/"
ONE_MESSAGE = f"select {MESSAGE} from inbound join mailbox on mailbox.id = inbound.mailbox where inbound.message = :id"
HOLD_MAILBOX = "select id from mailbox where id = :mailbox /*lock*/"
MAILBOX_OF = "select mailbox from inbound where message = :id"
INTERRUPT = """
update inbound set state = 'interrupted', reason = 'given up by ' || cast(:who as text)
 where message = :id and state = 'waiting'
returning mailbox, address, channel, session, kind, human"""
NOW = "select cast(:now as int8)"


@verb
def list_candidates(
    subject: RepairSubject, wanted: RepairFilter, *, state: str, after: str, limit: int
) -> Script[Sequence[Candidate]]:
    """A page of the items in one state, after an id (of a message) or a number, oldest first."""
    ((now,),) = yield from rows(NOW)
    escaped = wanted.reason.lower().replace("!", "!!").replace("%", "!%").replace("_", "!_")
    about = {
        "agent": wanted.agent,
        "name": wanted.name,
        "state": state,
        "reason": wanted.reason,
        "pattern": f"%{escaped}%",
        "before": now - wanted.older_than_ms,
        "limit": limit,
    }
    match subject:
        case RepairSubject.DELIVERY:
            sql = DELIVERIES.format(range="delivery.state = 'parked'" if state == "parked" else OPEN_DELIVERIES)
            return (yield from DELIVERY.rows(sql, after=int(after or 0), **about))
        case RepairSubject.REPLY:
            return (yield from REPLY.rows(REPLIES, after=int(after or 0), **about))
        case RepairSubject.MESSAGE:
            return (yield from MESSAGE.rows(MESSAGES, after=after, **about))


@verb
def find_candidate(subject: RepairSubject, id: str) -> Script[Candidate | None]:
    return (yield from _find(subject, id))


def states_of(verb: RepairVerb, subject: RepairSubject, state: str) -> tuple[str, ...]:
    """The states that a request means; empty for one that it cannot name."""
    if not state:
        return STATES.get((verb, subject), ())
    return (state,) if state in NAMEABLE.get((verb, subject), ()) else ()


def _find(subject: RepairSubject, id: str) -> Script[Candidate | None]:
    match subject:
        case RepairSubject.DELIVERY:
            unit = yield from find_unit(id)
            if unit is None:
                return None
            return (yield from DELIVERY.one(ONE_DELIVERY, stream=unit.stream, provider=unit.provider, id=id))
        case RepairSubject.REPLY:
            return (yield from REPLY.one(ONE_REPLY, id=id))
        case RepairSubject.MESSAGE:
            return (yield from MESSAGE.one(ONE_MESSAGE, id=id))


# --- carrying out -------------------------------------------------------------------------------------


@verb
def repair_batch(
    verb: RepairVerb,
    subject: RepairSubject,
    ids: Sequence[str],
    replies: Sequence[ReplyId] = (),
    by: By = PROGRAM,
) -> Script[tuple[Repaired, ...]]:
    """Carry a repair out for some items. `replies` are ids for the answers to messages that are given up."""
    match subject:
        case RepairSubject.DELIVERY:
            return (yield from _repair_deliveries(verb, ids, by))
        case RepairSubject.REPLY:
            return (yield from _repair_replies(verb, ids, by))
        case RepairSubject.MESSAGE:
            return (yield from _drop_messages(ids, replies, by))


def _judged(verb: RepairVerb, id: str, item: Candidate | None) -> PlannedItem | Repaired:
    if item is None:
        return Repaired(id=id, obstacle="it is gone")
    plan = planned(verb, item)
    return Repaired(id=id, state=item.state, obstacle=plan.obstacle) if plan.obstacle else plan


def _repair_deliveries(verb: RepairVerb, ids: Sequence[str], by: By) -> Script[tuple[Repaired, ...]]:
    units: dict[str, DeliveryRow] = {}
    for ident in ids:
        unit = yield from find_unit(ident)
        if unit is not None:
            units[ident] = unit
    for provider, stream in sorted({(unit.provider, unit.stream) for unit in units.values()}):
        yield from run(LOCK_CURSOR, provider=provider, stream=stream)
    for unit in _one_of_each_lane(units.values()):
        yield from hold_lane(unit)
    done: list[Repaired] = []
    for ident in ids:
        unit = units.get(ident)
        item = None if unit is None else (yield from _find(RepairSubject.DELIVERY, ident))
        judged = _judged(verb, ident, item)
        if isinstance(judged, PlannedItem) and unit is not None:
            judged = Repaired(id=ident, state=(yield from _delivery_done(verb, unit, _who(by))))
        done.append(judged if isinstance(judged, Repaired) else Repaired(id=ident, obstacle="it is gone"))
    changed = [one_ for one_ in done if not one_.obstacle]
    for unit in _one_of_each_lane(units[one_.id] for one_ in changed):
        yield from wake_lane(unit)
    for one_ in changed:
        yield from _record_delivery(verb, units[one_.id], one_.state, by)
    return tuple(done)


def _one_of_each_lane(units: Iterable[DeliveryRow]) -> list[DeliveryRow]:
    lanes = {unit.lane: unit for unit in units}
    return [lanes[lane] for lane in sorted(lanes)]


def _delivery_done(verb: RepairVerb, unit: DeliveryRow, who: str) -> Script[str]:
    match verb:
        case RepairVerb.REPLAY:
            return (yield from put_back(unit))
        case RepairVerb.SETTLE:
            return (yield from settle_delivery_as_arrived(unit, who))
        case _:
            return (yield from give_up_delivery(unit, who))


def _record_delivery(verb: RepairVerb, unit: DeliveryRow, state: str, by: By) -> Script[None]:
    if verb is RepairVerb.REPLAY:
        yield from record_replay(unit, state, by)
    else:
        act = Act.DELIVERY_SETTLED if verb is RepairVerb.SETTLE else Act.DELIVERY_DROPPED
        yield from action_sql.record(act, by, unit.id, agent=unit.agent)


REPLY_ACTS: dict[RepairVerb, Act] = {
    RepairVerb.RESEND: Act.REPLY_RESENT,
    RepairVerb.DROP: Act.REPLY_DROPPED,
    RepairVerb.SETTLE: Act.REPLY_SETTLED,
}
REPLY_CHANGES: dict[RepairVerb, Callable[[int, str], Script[str]]] = {
    RepairVerb.RESEND: lambda n, _who: send_again(n),
    RepairVerb.DROP: give_up_reply,
    RepairVerb.SETTLE: settle_reply_as_arrived,
}


def _repair_replies(verb: RepairVerb, ids: Sequence[str], by: By) -> Script[tuple[Repaired, ...]]:
    done: dict[str, Repaired] = {}
    for ident in sorted(ids):
        item = yield from REPLY.one(LOCKED_REPLY, id=ident)
        judged = _judged(verb, ident, item)
        if isinstance(judged, PlannedItem):
            judged = Repaired(id=ident, state=(yield from REPLY_CHANGES[verb](judged.item.n, _who(by))))
        done[ident] = judged
    for ident in ids:
        if not done[ident].obstacle:
            yield from action_sql.record(REPLY_ACTS[verb], by, ident)
    return tuple(done[ident] for ident in ids)


def _drop_messages(ids: Sequence[str], replies: Sequence[ReplyId], by: By) -> Script[tuple[Repaired, ...]]:
    """Give up waiting messages. A claim on their mailbox is voided, since its worker may have read them."""
    boxes: list[str] = []
    for ident in ids:
        boxes += [row[0] for row in (yield from rows(MAILBOX_OF, id=ident))]
    for mailbox in sorted(set(boxes)):
        yield from rows(HOLD_MAILBOX, mailbox=mailbox)
    done: list[Repaired] = []
    for ident, reply in zip(ids, replies, strict=True):
        judged = _judged(RepairVerb.DROP, ident, (yield from _find(RepairSubject.MESSAGE, ident)))
        if isinstance(judged, PlannedItem):
            yield from _interrupt(judged.item, reply, _who(by))
            judged = Repaired(id=ident, state="interrupted")
        done.append(judged)
    for one_ in done:
        if not one_.obstacle:
            yield from action_sql.record(Act.MESSAGE_DROPPED, by, one_.id)
    return tuple(done)


def _interrupt(item: Candidate, reply: ReplyId, who: str) -> Script[None]:
    ((mailbox, address, channel, session, kind, human),) = yield from rows(INTERRUPT, id=item.id, who=who)
    yield from run(VOID, mailbox=mailbox)
    yield from run(LIGHTEN, mailbox=mailbox, count=1, release=0)
    if human and kind != MessageKind.OBSERVED.value:
        yield from insert_reply(
            NewReply(id=reply, text=GIVEN_UP),
            mailbox=mailbox,
            address=address or item.place,
            channel=channel,
            message=item.id,
            session=session,
        )


def _who(by: By) -> str:
    """The actor as people know it."""
    shown = action_sql.kept(by)
    return shown.label or shown.id
