"""A session's ancestors and its valid entries, computed from the rows alone.

This is a second implementation on purpose, independent of the store's: a fault in one of them shows as a difference.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from holdfast.testing.rows import Row, Rows, body_of
from holdfast.testing.workload import marks_in
from holdfast.turns.journal import Entry, Observed, Undone, UserSaid

NO_LIMIT = 1 << 60


@dataclass(frozen=True, slots=True)
class Reach:
    """One ancestor, and how much of it the youngest session sees."""

    session: str
    seq: int
    n: int


@dataclass(slots=True)
class Lineage:
    rows: Rows
    sessions: dict[str, Row] = field(init=False)
    _entries: dict[str, list[Entry]] = field(init=False)
    _summaries: dict[Any, list[Row]] = field(init=False)
    _merged: dict[str, list[Entry]] = field(init=False)
    _counting: dict[tuple[str, int], list[Entry]] = field(init=False)

    def __post_init__(self) -> None:
        self.sessions = {row["id"]: row for row in self.rows["session"]}
        self._entries = {
            session: [_entry(row) for row in kept] for session, kept in self.rows.by("entry", "session").items()
        }
        self._summaries = self.rows.by("summary", "session")
        self._merged, self._counting = {}, {}

    def line(self, session: str) -> Iterator[Reach]:
        """The session itself first, then each ancestor up to the earliest fork on the way to it."""
        seq = n = NO_LIMIT
        at: str | None = session
        while at is not None and at in self.sessions:
            yield Reach(at, seq, n)
            row = self.sessions[at]
            seq, n, at = min(seq, row["fork_seq"]), min(n, row["fork_n"]), row["parent_id"]

    def is_blanked(self, session: str) -> bool:
        """Whether words of the session or its ancestors were deleted, so that its text is unknown."""
        return any(self.sessions[reach.session]["state"] == "deleted" for reach in self.line(session))

    def entries(self, session: str) -> list[Entry]:
        """Every entry that the session sees, oldest first, undone or not."""
        if session not in self._merged:
            seen = [
                entry
                for reach in self.line(session)
                for entry in self._entries.get(reach.session, [])
                if entry.seq <= reach.seq
            ]
            self._merged[session] = sorted(seen, key=lambda entry: entry.seq)
        return self._merged[session]

    def counting(self, session: str, upto: int) -> list[Entry]:
        """The entries up to a number that were neither undone by then nor undos themselves."""
        if (session, upto) not in self._counting:
            self._counting[session, upto] = self._count(session, upto)
        return self._counting[session, upto]

    def _count(self, session: str, upto: int) -> list[Entry]:
        seen = [entry for entry in self.entries(session) if entry.seq <= upto]
        undos = [(entry.seq, entry.body) for entry in seen if isinstance(entry.body, Undone)]
        if not undos:
            return seen
        return [
            entry
            for entry in seen
            if not isinstance(entry.body, Undone)
            and not any(seq > entry.seq and u.first_turn <= entry.turn <= u.last_turn for seq, u in undos)
        ]

    def summaries(self, session: str) -> list[Row]:
        """The summaries that the session sees, oldest first."""
        seen = [
            row for reach in self.line(session) for row in self._summaries.get(reach.session, []) if row["n"] <= reach.n
        ]
        return sorted(seen, key=lambda row: row["n"])

    def valid(self, session: str, summary: Row, upto: int) -> bool:
        """Whether no undo between the summary and `upto` reached an entry that it covers."""
        return not any(
            summary["head_seq"] < entry.seq <= upto and entry.body.from_seq <= summary["covers_through"]
            for entry in self.entries(session)
            if isinstance(entry.body, Undone)
        )


def _entry(row: Row) -> Entry:
    return Entry(
        seq=row["seq"], turn=row["turn"], body=body_of(row), tokens=row["tokens"], at=row["at"], session=row["session"]
    )


def marks_of(entries: list[Entry]) -> list[str]:
    """The marks of people's messages, in order."""
    return [mark for e in entries if isinstance(e.body, UserSaid | Observed) for mark in marks_in(e.body.text)]
