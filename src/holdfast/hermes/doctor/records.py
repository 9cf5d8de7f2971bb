"""The rows of state.db as values. A column that a release does not have gets the value that it means there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.hermes.doctor.schema import check_schema
from holdfast.hermes.doctor.snapshot import DatabaseSnapshot
from holdfast.hermes.doctor.summary_text import is_summary
from holdfast.hermes.routing_index import READ, TABLE, RoutingEntry, entries_of_table
from holdfast.kernel.errors import HermesHomeInvalid

SESSION_FIELDS: Mapping[str, object] = {
    "id": "",
    "source": "",
    "user_id": None,
    "session_key": None,
    "chat_id": None,
    "parent_session_id": None,
    "started_at": 0.0,
    "ended_at": None,
    "end_reason": None,
    "expiry_finalized": 0,
    "title": None,
    "model_config": None,
}
MESSAGE_FIELDS: Mapping[str, object] = {
    "id": 0,
    "session_id": "",
    "role": "",
    "content": None,
    "timestamp": 0.0,
    "tool_call_id": None,
    "tool_calls": None,
    "tool_name": None,
    "platform_message_id": None,
    "active": 1,
    "compacted": 0,
}
SPOKEN = ("user", "assistant")
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "schema_version": ("version",),
    "sessions": ("id", "source", "parent_session_id", "started_at", "ended_at", "end_reason"),
    "messages": ("id", "session_id", "role", "content", "timestamp", "tool_calls"),
}


@dataclass(frozen=True, slots=True)
class ExaminedSession:
    id: str
    source: str
    user_id: str | None
    session_key: str | None
    chat_id: str | None
    parent: str | None
    started_at: float
    ended_at: float | None
    end_reason: str | None
    is_finalised: bool
    title: str | None
    is_branch: bool  # made by /branch or for a delegated task: no continuation of its parent

    @property
    def is_live(self) -> bool:
        return self.end_reason is None and self.ended_at is None

    @property
    def is_rotated(self) -> bool:
        """Whether a compression ended it, so that a child continues it."""
        return self.end_reason == "compression"


@dataclass(frozen=True, slots=True)
class ExaminedMessage:
    id: int
    session: str
    role: str
    text: str  # stripped: carried copies lose outer blanks
    at: float
    call: str | None
    calls: str | None
    tool: str | None
    platform_id: str | None
    is_active: bool
    is_archived: bool
    is_summary: bool

    @property
    def is_spoken(self) -> bool:
        """Whether it is words of the user or the agent, and not a summary or a tool's result."""
        return self.role in SPOKEN and bool(self.text) and not self.is_summary

    @property
    def is_undone(self) -> bool:
        return not self.is_active and not self.is_archived

    def __str__(self) -> str:
        text = self.text if len(self.text) <= 60 else f"{self.text[:57]}..."
        return f"messages {self.id}: {self.role} in {self.session}, {text!r}"


@dataclass(frozen=True, slots=True)
class CompressionLock:
    session: str
    holder: str
    acquired_at: float
    expires_at: float


@dataclass(frozen=True)
class Records:
    """Everything that the checks read from the database."""

    schema: int
    sessions: Mapping[str, ExaminedSession]
    messages: Sequence[ExaminedMessage]  # by id
    routing: Sequence[RoutingEntry] = ()
    locks: Sequence[CompressionLock] = ()
    sequence: int = 0  # the highest message number that SQLite remembers
    of_session: Mapping[str, Sequence[ExaminedMessage]] = field(default_factory=dict)
    children: Mapping[str, Sequence[ExaminedSession]] = field(default_factory=dict)  # continuations, oldest first

    def said_in(self, session: str) -> Sequence[ExaminedMessage]:
        return self.of_session.get(session, ())

    def continuations(self, session: str) -> Sequence[ExaminedSession]:
        return self.children.get(session, ())


def read_records(snapshot: DatabaseSnapshot) -> Records:
    """Raises `HermesHomeInvalid` for a foreign database, `HermesSchemaUnknown` and `HermesDatabaseCorrupt`."""
    schema = _schema(snapshot)
    sessions = {one.id: one for row in _table(snapshot, "sessions", SESSION_FIELDS) if (one := _session(row))}
    messages = [_message(row) for row in _table(snapshot, "messages", MESSAGE_FIELDS, "order by id")]
    of_session: dict[str, list[ExaminedMessage]] = {}
    for message in messages:
        of_session.setdefault(message.session, []).append(message)
    children: dict[str, list[ExaminedSession]] = {}
    for session in sorted(sessions.values(), key=lambda one: one.started_at):
        parent = sessions.get(session.parent or "")
        if parent is not None and parent.is_rotated and not session.is_branch:
            children.setdefault(parent.id, []).append(session)
    return Records(
        schema,
        sessions,
        messages,
        tuple(_routing(snapshot)),
        tuple(_locks(snapshot)),
        _sequence(snapshot),
        of_session,
        children,
    )


def _schema(snapshot: DatabaseSnapshot) -> int:
    for table, names in REQUIRED.items():
        known = snapshot.columns(table)
        if missing := [name for name in names if name not in known]:
            lacks = f"column {table}.{missing[0]}" if known else f"table {table}"
            what = f"{snapshot.source} is not a database of Hermes: it has no {lacks}"
            raise HermesHomeInvalid(what, path=str(snapshot.source))
    found = snapshot.rows("select max(version) from schema_version")[0][0]
    version = found if isinstance(found, int) else 0
    check_schema(version, str(snapshot.source))
    return version


def _table(
    snapshot: DatabaseSnapshot, table: str, fields: Mapping[str, object], order: str = ""
) -> list[dict[str, Any]]:
    known = snapshot.columns(table)
    names = [name for name in fields if name in known]
    # As a blob, because text that is not UTF-8 cannot be read as text.
    read = ", ".join(f"cast({name} as blob)" if name == "content" else name for name in names)
    rows = snapshot.rows(f"select {read} from {table} {order}")  # noqa: S608 - the names are constants
    return [dict(fields) | {n: _text(n, value) for n, value in zip(names, row, strict=True)} for row in rows]


def _text(name: str, value: object) -> object:
    """Words as text, also where a tool stored them as bytes; the content is decoded later."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) and name != "content" else value


def _time(value: object) -> float:
    """A time in seconds; 0 for what is none."""
    return float(value) if isinstance(value, int | float) else 0.0


def _session(row: Mapping[str, Any]) -> ExaminedSession:
    config = str(row["model_config"] or "")
    is_branch = '"_branched_from"' in config or '"_delegate_from"' in config or row["source"] == "tool"
    return ExaminedSession(
        str(row["id"]),
        str(row["source"]),
        row["user_id"],
        row["session_key"],
        row["chat_id"],
        row["parent_session_id"],
        _time(row["started_at"]),
        None if row["ended_at"] is None else _time(row["ended_at"]),
        row["end_reason"],
        bool(row["expiry_finalized"]),
        row["title"],
        is_branch,
    )


def _message(row: Mapping[str, Any]) -> ExaminedMessage:
    text = row["content"].decode("utf-8", "replace") if isinstance(row["content"], bytes) else str(row["content"] or "")
    return ExaminedMessage(
        int(row["id"]),
        str(row["session_id"]),
        str(row["role"]),
        text.strip(),
        _time(row["timestamp"]),
        row["tool_call_id"],
        row["tool_calls"],
        row["tool_name"],
        row["platform_message_id"],
        bool(row["active"]),
        bool(row["compacted"]) and not row["active"],
        is_summary(text),
    )


def _routing(snapshot: DatabaseSnapshot) -> list[RoutingEntry]:
    return entries_of_table(snapshot.rows(READ))[0] if snapshot.columns(TABLE) else []


def _locks(snapshot: DatabaseSnapshot) -> list[CompressionLock]:
    if not snapshot.columns("compression_locks"):
        return []
    rows = snapshot.rows("select session_id, holder, acquired_at, expires_at from compression_locks")
    return [CompressionLock(str(row[0]), str(row[1]), _time(row[2]), _time(row[3])) for row in rows]


def _sequence(snapshot: DatabaseSnapshot) -> int:
    rows = snapshot.rows("select seq from sqlite_sequence where name = 'messages'")
    return int(rows[0][0]) if rows else 0
