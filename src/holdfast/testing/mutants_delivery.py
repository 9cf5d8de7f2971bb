"""Guarantees of delivery and recall, broken on purpose: most of them are incidents that people had."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from holdfast.kernel.ids import DeliveryId, NodeId, Principal, SessionId
from holdfast.memory import cursor_sql, lane, lane_sql, parcel_sql
from holdfast.memory.cursor_sql import DeliveryRow
from holdfast.memory.delivery import DeliveryPolicy, DeliveryState, NamingInputs, Op, Parcel
from holdfast.memory.delivery_call import ProviderDelivery
from holdfast.memory.forget_sql import units_of
from holdfast.memory.lane import LaneClaim, LaneKey, Package, Settlement, after_asking
from holdfast.memory.notes import MemoryBatch, MemoryVerb, NoteChange, Target
from holdfast.memory.notes_sql import apply_memory
from holdfast.memory.recall import RecallOutcome, RecallPolicy, RecallQuery
from holdfast.memory.recaller import Recaller
from holdfast.sessions import command_sql, session_sql
from holdfast.sessions.extraction import Proposals, parse_answer
from holdfast.sessions.finalisation import FinishEvent
from holdfast.sessions.finalisation_sql import record_finalisation
from holdfast.sessions.session import Purpose
from holdfast.sessions.session_sql import PickedTurns
from holdfast.store.script import Call, Params, Script, one, run
from holdfast.testing.mutant import Patch, arguments, mutant
from holdfast.testing.watched import NodeDatabase
from holdfast.turns import record_sql
from holdfast.turns.turn import TurnRecord

WORK_TO_FLAG_S = 4.0
# --- scheduling ----------------------------------------------------------------------------------------------------


@mutant("I7", "I11", budget=10, short=62)
def flush_whole_buffer_on_switch() -> Sequence[Patch]:
    """Leaving a session delivers all of it again, as in the incident."""
    honest = cursor_sql.schedule_tail

    def broken(session: SessionId, policies: Sequence[DeliveryPolicy] = ()) -> Script[None]:
        yield from honest(session, policies)
        known = yield from units_of(session)
        more = f"flush{len(known)}"
        yield from cursor_sql.add_deliveries(
            [one_._replace(id=f"{one_.id}:{more}", op=f"retain:{more}") for one_ in known if one_.op == "retain"]
        )

    return [(command_sql, "schedule_tail", broken)]


@mutant("I7", "I11", budget=10, short=3)
def orphan_from_temp_run() -> Sequence[Patch]:
    """A run that is no conversation gets cursors, and with them a session at the provider."""
    honest = record_sql._session  # noqa: SLF001

    def broken(record_: TurnRecord) -> Script[record_sql.FoundSession]:
        return (yield from honest(record_))._replace(purpose=Purpose.CONVERSATION.value)

    return [(record_sql, "_session", broken)]


@mutant("I7", budget=40, short=61)
def retract_lost() -> Sequence[Patch]:
    """A delivered turn that is undone is not retracted."""
    honest = cursor_sql.add_deliveries

    def broken(batch: Sequence[DeliveryRow]) -> Script[None]:
        yield from honest([unit for unit in batch if not unit.op.startswith("retract")])

    return [(cursor_sql, "add_deliveries", broken)]


@mutant("I2", budget=40, short=2)
def repeated_undo() -> Sequence[Patch]:
    """A program's undo that is asked for again undoes the turns before those it named."""
    honest = session_sql.pick_turns

    def broken(session: SessionId, count: int) -> Script[PickedTurns]:
        found = yield from honest(session, count)
        return replace(found, picked=AnyTurns(found.picked)) if found.picked else found

    return [(record_sql, "pick_turns", broken)]


class AnyTurns(tuple[int, ...]):
    """Turns that equal all others."""

    __slots__ = ()

    def __ne__(self, other: object) -> bool:
        return False


# --- lanes ---------------------------------------------------------------------------------------------------------


@mutant("I7", budget=10, short=4)
def mark_on_enqueue() -> Sequence[Patch]:
    """A delivery counts as delivered when a dispatcher claims it."""
    honest = lane_sql.claim_lanes.script

    def broken(node: NodeId, key: LaneKey, **more: Any) -> Script[tuple[LaneClaim, ...]]:  # noqa: ANN401
        claims: tuple[LaneClaim, ...] = yield from honest(node, key, **more)
        for claim in claims:
            for package in claim.packages:
                yield from run("update delivery set state = 'delivered' where n = :n", n=package.n)
        return claims

    return [(lane_sql, "claim_lanes", broken)]


@mutant("I7", budget=20, short=1)
def resend_without_asking() -> Sequence[Patch]:
    """A delivery with an unknown outcome is resent without asking the provider."""
    honest = lane_sql._package  # noqa: SLF001

    def broken(
        lane: LaneClaim, row: lane_sql.QueuedDelivery, renderer: str, sends: list[Params], **more: bool
    ) -> Script[Package | None]:
        package = yield from honest(lane, row, renderer, sends, **more)
        return None if package is None else replace(package, ask=False)

    return [(lane_sql, "_package", broken)]


@mutant("I14", budget=60, short=7)
def no_lane_fence() -> Sequence[Patch]:
    """A dispatcher whose lease expired may still settle."""

    def broken(_claim: LaneClaim) -> Script[bool]:
        yield from ()
        return False

    return [(lane_sql, "_is_settled", broken)]


@mutant("I7", budget=20, short=62)
def unit_order() -> Sequence[Patch]:
    """A lane is read newest first."""
    return [(lane_sql, "HEAD", lane_sql.HEAD.replace("delivery.n limit", "delivery.n desc limit"))]


# --- carrying ------------------------------------------------------------------------------------------------------


@mutant("I7", budget=5, short=3)
def new_key_per_attempt() -> Sequence[Patch]:
    """Each attempt has an id of its own, so no provider can recognise the second attempt."""
    honest = parcel_sql.parcel_of

    def broken(key: LaneKey, place: str, item: parcel_sql.Item) -> Script[Parcel]:
        parcel = yield from honest(key, place, item)
        return replace(parcel, id=DeliveryId(f"{parcel.id}#{item.attempt}"))

    return [(lane_sql, "parcel_of", broken)]


@mutant("I7", budget=20, short=2)
def deliver_under_current_session() -> Sequence[Patch]:
    """A unit goes out under the session that the chat is in now, as in the incident."""

    def moved(naming: NamingInputs) -> Script[NamingInputs]:
        now = yield from one("select session_id from mailbox where address = :address", address=naming.address)
        return replace(naming, session=SessionId(now[0])) if now and now[0] else naming

    return _with_naming(moved)


@mutant("I5", budget=20, short=62)
def speaker_of_the_session() -> Sequence[Patch]:
    """Every turn of a session is delivered under the name of the person who opened it."""

    def moved(naming: NamingInputs) -> Script[NamingInputs]:
        opener = yield from one("select principal from session where id = :session", session=naming.session)
        return replace(naming, principal=Principal(opener[0])) if opener else naming

    return _with_naming(moved)


def _with_naming(moved: Any) -> Sequence[Patch]:  # noqa: ANN401
    honest = parcel_sql.parcel_of

    def broken(key: LaneKey, place: str, item: parcel_sql.Item) -> Script[Parcel]:
        parcel = yield from honest(key, place, item)
        if not parcel.session:
            return parcel
        return replace(parcel, naming=(yield from moved(parcel.naming)))

    return [(lane_sql, "parcel_of", broken)]


@mutant("I7", budget=120, first=70)
def quiet_ignored() -> Sequence[Patch]:
    """A delivery that has not landed yet is resent although it may still arrive."""
    honest = after_asking

    def broken(*what: Any, quiet_ms: int, **more: Any) -> Settlement:  # noqa: ANN401
        return honest(*what, quiet_ms=min(quiet_ms, 0), **more)

    return [(lane, "after_asking", broken)]


@mutant("I7", budget=20, short=61)
def retract_believed() -> Sequence[Patch]:
    """A retraction counts as made without being sent."""
    honest = ProviderDelivery._idle  # noqa: SLF001

    def broken(self: ProviderDelivery, package: Package) -> Settlement | None:
        if package.parcel.op is Op.RETRACT:
            return Settlement(n=package.n, state=DeliveryState.DELIVERED)
        return honest(self, package)

    return [(ProviderDelivery, "_idle", broken)]


# --- recall --------------------------------------------------------------------------------------------------------


@mutant("I6", budget=20, short=4)
def global_prefetch_slot() -> Sequence[Patch]:
    """Prefetched recollections are shown to the next speaker, as in the incident."""
    honest = Recaller.recall

    async def broken(
        self: Recaller, query: RecallQuery, policy: RecallPolicy, *, as_of: int | None = None
    ) -> RecallOutcome:
        kept = self._prefetched
        if kept:
            kept[query.key] = kept.popitem()[1]
        return await honest(self, query, policy, as_of=as_of)

    return [(Recaller, "recall", broken)]


# --- finishing -----------------------------------------------------------------------------------------------------


@mutant("I8", budget=100, short=62)
def flag_after_work() -> Sequence[Patch]:
    """Extracted notes are written to memory before the step is recorded, as in the incident."""
    honest = NodeDatabase.write

    async def broken(db: NodeDatabase, call: Call[Any]) -> Any:  # noqa: ANN401
        if call.verb == record_finalisation.name:
            held, event = arguments(call)
            said = call.script.keywords.get("answer") if isinstance(call.script, partial) else None
            answer = parse_answer(said.decode()) if event is FinishEvent.ANSWERED and said is not None else None
            if isinstance(answer, Proposals):
                changes = tuple(
                    NoteChange(verb=MemoryVerb.ADD, target=Target.MEMORY, text=change.text) for change in answer.changes
                )
                batch = MemoryBatch(agent=held.agent, subject="", origin=held.origin, changes=changes)
                await honest(db, apply_memory(batch))
                await asyncio.sleep(WORK_TO_FLAG_S)
        return await honest(db, call)

    return [(NodeDatabase, "write", broken)]
