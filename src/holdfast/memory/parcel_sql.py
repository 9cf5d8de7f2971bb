"""Parcels: the content of deliveries, rendered from the journal during the claim and not copied before."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from holdfast.kernel.ids import AgentName, DeliveryId, Instant, Principal, SessionId
from holdfast.memory.delivery import Erasure, MemoryNote, NamingInputs, Op, Parcel, SaidTurn, SpokenLine
from holdfast.memory.lane import LaneKey
from holdfast.memory.notes import MEMORY
from holdfast.memory.notes_sql import memory_notes, notes_held
from holdfast.memory.visibility import holder_of
from holdfast.store.script import Columns, Script, one, rows
from holdfast.turns.journal import AssistantSaid, Entry, UserSaid
from holdfast.turns.journal_sql import ENTRY, entry_of

ENTRIES = f"""
select {ENTRY} from entry
 where session = :session and seq >= :first and seq <= :last and turn > 0 and kind in ('user', 'assistant')
 order by seq"""
UNIT = """
select through_seq from delivery
 where stream = :stream and provider = :provider and from_seq = :from_seq and op = 'retain'"""
ERASED_UNITS = "select unit, shared from erased_unit where erasure = :erasure order by unit"
NOTE_OF_UNIT = "select subject, written_by, principal from memory_op where stream = :stream and seq = :seq"
# Prefixes of an erasure's stream: its subject is a session, a person, or named units.
ERASE_SESSION, ERASE_PERSON, ERASE_UNITS = "erase:session:", "erase:person:", "erase:units:"


class Item(NamedTuple):
    """The columns that determine the content of a delivery: its own, those of its first turn, its session's parent."""

    id: str
    stream: str
    from_seq: int
    through_seq: int
    from_turn: int
    through_turn: int
    op: str
    principal: str
    attempt: int
    sent_at: int | None
    address: str | None
    speaker: str | None
    title: str | None
    directory: str | None
    repo: str | None
    parent: str | None


ITEM = Columns(
    Item,
    "delivery",
    address="turn.place",
    speaker="turn.principal",
    title="turn.title",
    directory="turn.directory",
    repo="turn.repo",
    parent="session.parent_id",
)
ITEMS = """
delivery left join turn on turn.session = delivery.stream and turn.n = delivery.from_turn
         left join session on session.id = delivery.stream"""


def parcel_of(key: LaneKey, place: str, item: Item) -> Script[Parcel]:
    op = Op(item.op.split(":")[0])
    parcel = Parcel(
        id=DeliveryId(item.id),
        op=op,
        provider=key.provider,
        place=place,
        naming=NamingInputs(
            agent=key.agent,
            session=SessionId(item.stream if op in {Op.RETAIN, Op.RETRACT} else ""),
            principal=Principal(item.speaker or item.principal),
            address=item.address or "",
            parent=SessionId(item.parent) if item.parent else None,
            title=item.title,
            directory=item.directory or "",
            repo=item.repo or "",
        ),
        attempt=item.attempt,
        sent_at=Instant(item.sent_at or 0),
    )
    match op:
        case Op.RETAIN:
            return replace(parcel, turns=(yield from _turns(key.agent, item.stream, item.from_seq, item.through_seq)))
        case Op.RETRACT:
            return (yield from _retraction(parcel, item))
        case Op.REMEMBER:
            notes = yield from memory_notes(item.stream, item.from_seq, item.through_seq)
            return replace(parcel, note=notes[0] if notes else None)
        case Op.ERASE:
            return replace(parcel, erasure=(yield from _erasure(key, place, item)))


def _retraction(parcel: Parcel, item: Item) -> Script[Parcel]:
    """The parcel of a retraction: the undone turns of a unit, and those that remain."""
    unit = yield from one(UNIT, stream=item.stream, provider=parcel.provider, from_seq=item.from_seq)
    turns = yield from _turns(parcel.naming.agent, item.stream, item.from_seq, unit[0] if unit else item.from_seq)
    return replace(
        parcel,
        of=DeliveryId(item.id.rsplit(":retract:", 1)[0]),
        gone=tuple(range(item.from_turn, item.through_turn + 1)),
        turns=tuple(turn for turn in turns if turn.n < item.from_turn),
    )


def _turns(agent: AgentName, session: str, first: int, last: int) -> Script[tuple[SaidTurn, ...]]:
    found = yield from ENTRY.rows(ENTRIES, session=session, first=first, last=last)
    said: dict[int, list[SpokenLine]] = {}
    for row in found:
        line = _line(agent, entry_of(SessionId(session), row))
        if line is not None:
            said.setdefault(row.turn, []).append(line)
    return tuple(SaidTurn(n=n, lines=tuple(lines)) for n, lines in said.items())


def _line(agent: AgentName, entry: Entry) -> SpokenLine | None:
    """A message of a person or of the agent; None for other entries, which providers do not get."""
    match entry.body:
        case UserSaid(text=text, principal=speaker, event_id=event):
            return SpokenLine(role="user", speaker=speaker, text=text, at=entry.at, seq=entry.seq, message=event)
        case AssistantSaid(text=text) if text.strip():
            return SpokenLine(role="assistant", speaker=agent, text=text, at=entry.at, seq=entry.seq)
        case _:
            return None


def _erasure(key: LaneKey, place: str, item: Item) -> Script[Erasure]:
    """The erasure of the units that were named by the request; later units are not affected."""
    session, principal = erased(item.stream)
    named = yield from rows(ERASED_UNITS, erasure=item.id)
    units = [DeliveryId(unit) for unit, shared in named if not shared]
    scopes = yield from _scopes(key, units)
    holds = list[MemoryNote]()
    for scope in scopes:
        holds += yield from notes_held(key.agent, scope)
    return Erasure(
        agent=key.agent,
        session=session,
        principal=principal,
        places=(place,),
        deliveries=tuple(units),
        shared=tuple(DeliveryId(unit) for unit, shared in named if shared),
        scopes=scopes,
        holds=tuple(holds),
    )


def _scopes(key: LaneKey, units: Sequence[DeliveryId]) -> Script[tuple[str, ...]]:
    """The scopes of the notes among the units. Their texts are blank, so a provider that identifies notes by text
    erases the notes that are no longer current."""
    found: set[str] = set()
    for unit in units:
        stream, _, seq = unit.removeprefix(f"{key.provider}:").rpartition(":")
        row = (yield from one(NOTE_OF_UNIT, stream=stream, seq=int(seq))) if stream.startswith(MEMORY) else None
        if row is not None:
            found |= {row[0], holder_of(*row)}
    return tuple(sorted(found))


def erased(stream: str) -> tuple[SessionId | None, Principal | None]:
    """The session or the person that an erasure's stream names; neither for named units."""
    if stream.startswith(ERASE_SESSION):
        return SessionId(stream.removeprefix(ERASE_SESSION)), None
    if stream.startswith(ERASE_UNITS):
        return None, None
    return None, Principal(stream.removeprefix(ERASE_PERSON))


def payload_hash(parcel: Parcel) -> str:
    """The hash of everything that a provider could render; the attempt is excluded (D19)."""
    said = (parcel.op.value, parcel.place, parcel.naming, parcel.turns, parcel.of, parcel.gone, parcel.note)
    return hashlib.sha256(msgspec.json.encode(said)).hexdigest()
