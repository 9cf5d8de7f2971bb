"""Turns made of Hermes' rows, with the times of the rows, and the digest that proves them.

Rule 1: a turn begins with a user's row that follows an answer. Undone turns and carried copies are turns of their own,
        so that an undo and a delivery never divide a turn.
Rule 2: a model is never shown a call without its result or a result without its call. A call that Hermes left open
        gets a result that says so; a result without a call is kept as a record that no model is shown.
Rule 3: a summary is kept as a record at its place; the summary row of the session covers what it replaced.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.hermes.importing.compaction import Compaction, RowFate, RowFates
from holdfast.hermes.importing.rows import HermesRow, RowState
from holdfast.kernel.ids import Instant, Principal
from holdfast.turns.journal import (
    AnyBody,
    AssistantSaid,
    Body,
    Observed,
    Recalled,
    ToolReturned,
    Undone,
    UserSaid,
    encode_body,
)
from holdfast.turns.turn import OpenCall, close_call

SOURCE = "hermes"  # of a record that no model is shown


@dataclass(frozen=True, slots=True)
class TimedBody:
    body: AnyBody
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTurn:
    """A whole turn with its numbers in the journal."""

    n: int
    key: str
    first_seq: int
    entries: tuple[TimedBody, ...]
    undone: bool = False  # an undo entry follows the turn
    delivered: bool = True  # whether providers may get it: somebody spoke in it, and it is no copy
    held_by: frozenset[str] = frozenset()  # providers that have it already

    @property
    def last_seq(self) -> int:
        return self.first_seq + len(self.entries) - 1

    @property
    def undo(self) -> Undone:
        return Undone(first_turn=self.n, last_turn=self.n, from_seq=self.first_seq, by=SOURCE)

    @property
    def end_seq(self) -> int:
        """The number of the last entry, the undo included."""
        return self.last_seq + int(self.undone)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSummary:
    covers_through: int
    text: str


@dataclass(slots=True)
class TurnMaker:
    """Makes turns of the rows of one session, in order; afterwards it knows the session's summaries and counts."""

    principal: Principal
    model: str = ""
    counts: dict[str, int] = field(default_factory=lambda: {fate.value: 0 for fate in RowFate})
    added: int = 0  # entries that no row has: results of calls that were left open
    undone_rows: int = 0
    summaries: list[ImportedSummary] = field(default_factory=list)
    turns: int = 0
    last_seq: int = 0
    last_at: int = 0

    @property
    def rows(self) -> int:
        return sum(self.counts.values())

    def make(self, rows: Iterable[HermesRow], judged: RowFates) -> Iterator[ImportedTurn]:
        wanted = {place for one in judged.compactions for place in (one.summary, *one.head, *_places(one.tail))}
        seqs: dict[int, int] = {}  # of the rows that summaries refer to
        texts: dict[int, str] = {}
        pending: list[tuple[int, HermesRow, RowFate]] = []
        for place, row in enumerate(rows):
            fate = judged.fates[place] if place < len(judged.fates) else RowFate.RECORD
            self.counts[fate.value] += 1
            if place in wanted:
                texts[place] = row.text if fate is RowFate.SUMMARY else f"{row.role}: {row.text}"
            if fate in {RowFate.COPY, RowFate.RECORD}:
                continue
            self.undone_rows += row.state is RowState.UNDONE
            if pending and _begins(row, fate, pending[-1]):
                yield self._turn(pending, wanted, seqs)
                pending = []
            pending.append((place, row, fate))
        if pending:
            yield self._turn(pending, wanted, seqs)
        self._summarise(judged.compactions, seqs, texts)

    def _turn(
        self, rows: Sequence[tuple[int, HermesRow, RowFate]], wanted: set[int], seqs: dict[int, int]
    ) -> ImportedTurn:
        self.turns += 1
        entries: list[TimedBody] = []
        is_open: dict[str, OpenCall] = {}
        for place, row, fate in rows:
            if row.role != "tool":
                entries += self._closed(is_open, row.at_ms)
            if place in wanted:
                seqs[place] = self.last_seq + len(entries) + 1
            entries.append(TimedBody(self._body(row, fate, is_open), Instant(row.at_ms)))
            is_open |= {call.id: OpenCall(call, started=True) for call in row.calls}
        entries += self._closed(is_open, rows[-1][1].at_ms)
        first, last = rows[0][1], rows[-1][1]
        spoken = any(isinstance(one.body, UserSaid | AssistantSaid) and one.body.text.strip() for one in entries)
        turn = ImportedTurn(
            n=self.turns,
            key=f"{SOURCE}:{first.key}",
            first_seq=self.last_seq + 1,
            entries=tuple(entries),
            undone=first.state is RowState.UNDONE,
            delivered=spoken and rows[0][2] is RowFate.KEPT,
        )
        self.last_seq, self.last_at = turn.end_seq, max(self.last_at, last.at_ms)
        return turn

    def _closed(self, is_open: dict[str, OpenCall], at_ms: int) -> list[TimedBody]:
        closed = [TimedBody(close_call(call), Instant(at_ms)) for call in is_open.values()]
        self.added += len(closed)
        is_open.clear()
        return closed

    def _body(self, row: HermesRow, fate: RowFate, is_open: dict[str, OpenCall]) -> AnyBody:
        if fate is RowFate.SUMMARY:
            return Recalled(text=row.text, principal=self.principal, sources=(SOURCE,))
        if row.role == "assistant":
            return AssistantSaid(text=row.text, calls=row.calls, model=self.model)
        if row.role == "tool":
            if is_open.pop(row.call, None) is None:
                return Recalled(text=row.text, principal=self.principal, sources=(SOURCE,))
            return ToolReturned(call=row.call, name=row.tool or "tool", text=row.text)
        said = Observed if row.observed else UserSaid
        return said(text=row.text, principal=self.principal, event_id=row.event_id)

    def _summarise(self, compactions: Sequence[Compaction], seqs: dict[int, int], texts: dict[int, str]) -> None:
        covered = 0
        for one in compactions:
            through = seqs[one.summary] if one.tail is None else seqs.get(one.tail, 0) - 1
            if through <= covered:  # nothing new is covered; the summary stays as a record
                continue
            text = "\n".join([*(texts[place] for place in one.head if place in texts), texts[one.summary]])
            self.summaries.append(ImportedSummary(covers_through=through, text=text))
            covered = through


def _places(place: int | None) -> tuple[int, ...]:
    return () if place is None else (place,)


def _begins(row: HermesRow, fate: RowFate, before: tuple[int, HermesRow, RowFate]) -> bool:
    """Whether a row begins a turn after the row before it."""
    _, last, last_fate = before
    if fate is not last_fate or (row.state is RowState.UNDONE) is not (last.state is RowState.UNDONE):
        return True
    return row.role == "user" and last.role != "user"


class JournalDigest:
    """SHA-256 over the entries of one journal, in order: turn, time, kind and body."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()
        self.entries = 0

    def add(self, turn: int, at: int, body: Body) -> None:
        raw = encode_body(body)
        self._sha.update(f"{turn} {at} {body.kind} {len(raw)}\n".encode())
        self._sha.update(raw)
        self.entries += 1

    def add_turn(self, turn: ImportedTurn) -> None:
        for one in turn.entries:
            self.add(turn.n, one.at, one.body)
        if turn.undone:
            self.add(0, turn.entries[-1].at, turn.undo)

    def hex(self) -> str:
        return self._sha.hexdigest()
