"""Reading a home of Hermes: one snapshot of state.db, the routing index and the transcripts beside it.

Rule 1: nothing is written into the home. The database is opened with `mode=ro`, which includes its write-ahead log;
        where SQLite cannot read it without making files beside it, a private copy of both files is read.
Rule 2: one read transaction lasts as long as the reader, so that a running Hermes changes nothing in between.
Rule 3: a column that a release does not have is read as its default. A schema that is newer than any known one, or
        older, is refused before anything is read.
"""

import json
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

from holdfast.hermes.home import HermesHome
from holdfast.hermes.importing.routing import HermesRoute, HermesSession, origin_of
from holdfast.hermes.importing.rows import HermesRow, RowState, calls_of, text_of_content
from holdfast.kernel.errors import HermesDatabaseCorrupt, HermesDatabaseMissing, HermesRunning, HermesSchemaUnknown
from holdfast.turns.journal import storable

SCHEMAS = range(11, 23)  # of 0.13 to 0.19
TABLES = ("sessions", "messages")
SESSION = (
    *("id", "source", "user_id", "session_key", "chat_id", "chat_type", "thread_id", "origin_json", "model"),
    *("model_config", "parent_session_id", "started_at", "ended_at", "end_reason", "cwd", "title"),
)
MESSAGE = (
    *("id", "role", "content", "tool_call_id", "tool_calls", "tool_name", "timestamp", "platform_message_id"),
    *("observed", "active", "compacted"),
)
TRANSCRIPT_BYTES_MAX = 512 * 1024 * 1024


class HermesReader:
    """An open home. Use it as a context manager."""

    def __init__(self, home: HermesHome) -> None:
        self.home = home
        self.skipped: list[str] = []  # files and entries that could not be read, each with the reason
        self._copy: TemporaryDirectory[str] | None = None
        self._db: sqlite3.Connection | None = None
        self._seen: tuple[int, int] | None = None
        self.schema: int | None = None
        if home.database.exists():
            self._open()
        self._columns: dict[str, frozenset[str]] = {}
        if self._db is not None:
            self._columns = {table: self._columns_of(table) for table in TABLES}
        self._transcripts = self._find_transcripts()

    def __enter__(self) -> "HermesReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._db is not None:
            self._db.close()
        if self._copy is not None:
            self._copy.cleanup()

    # --- the database

    def _open(self) -> None:
        """Open the database so that SQLite makes no file beside it."""
        log, index = (self.home.database.with_name(f"state.db-{name}") for name in ("wal", "shm"))
        try:
            if not log.exists():  # no process uses the database, and there is nothing beside it
                self._seen = _stamp(self.home.database)
                self._db = _connect(self.home.database, "mode=ro&immutable=1")
            elif index.exists():
                self._db = _connect(self.home.database, "mode=ro")
            else:
                self._db = self._open_copy()
            self._begin()
        except sqlite3.OperationalError as error:
            if self._copy is not None:
                raise self._broken(error) from error
            self._db = self._open_copy()
            self._begin()
        except sqlite3.DatabaseError as error:
            raise self._broken(error) from error

    def check_unchanged(self) -> None:
        """Raises `HermesRunning` if Hermes was started and wrote while the database was read as immutable."""
        if self._seen is not None and _stamp(self.home.database) != self._seen:
            what = f"{self.home.database} was changed while it was read"
            raise HermesRunning(what, path=str(self.home.database))

    def _begin(self) -> None:
        """Begin the snapshot and check the schema."""
        db = self._connection
        db.execute("begin")
        names = {row[0] for row in db.execute("select name from sqlite_master where type = 'table'")}
        if not {*TABLES, "schema_version"} <= names:
            what = f"{self.home.database} has no tables of Hermes"
            raise HermesDatabaseMissing(what, path=str(self.home.database))
        row = db.execute("select max(version) from schema_version").fetchone()
        self.schema = row[0] if row else None
        if self.schema not in SCHEMAS:
            known = f"{SCHEMAS[0]} to {SCHEMAS[-1]}, of Hermes 0.13 to 0.19"
            what = f"{self.home.database} has schema {self.schema}; this release of Holdfast knows {known}"
            raise HermesSchemaUnknown(what, path=str(self.home.database))

    def _open_copy(self) -> sqlite3.Connection:
        self._copy = TemporaryDirectory(prefix="holdfast-hermes-")
        for suffix in ("", "-wal"):
            source = self.home.database.with_name(f"state.db{suffix}")
            if source.exists():
                shutil.copyfile(source, Path(self._copy.name) / source.name)
        return _connect(Path(self._copy.name) / "state.db", "mode=rw")

    @property
    def _connection(self) -> sqlite3.Connection:
        assert self._db is not None  # noqa: S101 - callers ask for rows of a database only if there is one
        return self._db

    def _broken(self, error: sqlite3.Error) -> HermesDatabaseCorrupt:
        return HermesDatabaseCorrupt(f"{self.home.database}: {error}", path=str(self.home.database))

    def _columns_of(self, table: str) -> frozenset[str]:
        return frozenset(row[1] for row in self._connection.execute(f"pragma table_info({table})"))

    def _rows(self, table: str, wanted: tuple[str, ...], ending: str, *values: object) -> Iterator[dict[str, Any]]:
        known = self._columns[table]
        listed = ", ".join(name if name in known else f"null as {name}" for name in wanted)
        try:
            with closing(self._connection.execute(f"select {listed} from {table} {ending}", values)) as found:  # noqa: S608
                for row in found:
                    yield dict(zip(wanted, row, strict=True))
        except sqlite3.DatabaseError as error:
            raise self._broken(error) from error

    # --- sessions

    def sessions(self) -> list[HermesSession]:
        """The sessions of the database, and those that only a transcript has."""
        found = [_session(row) for row in self._rows("sessions", SESSION, "")] if self._db is not None else []
        known = {one.id for one in found}
        return [*found, *(self._from_transcript(one) for one in sorted(self._transcripts.keys() - known))]

    def count_rows(self) -> int:
        return self._number("select count(*) from messages")

    def empty_sessions(self) -> frozenset[str]:
        """Sessions without a message of the conversation, in the database and in transcripts."""
        if self._db is None:
            return frozenset()
        sql = """select id from sessions where not exists (
                   select 1 from messages where session_id = sessions.id and role in ('user', 'assistant', 'tool'))"""
        return frozenset(row[0] for row in self._connection.execute(sql)) - self._transcripts.keys()

    def orphan_rows(self) -> int:
        """Rows whose session is missing."""
        sql = "select count(*) from messages where session_id not in (select id from sessions)"
        return self._number(sql)

    def check_pages(self) -> None:
        """Read every page of the history. Raises `HermesDatabaseCorrupt` before anything is imported."""
        for table, column in (("sessions", "title"), ("messages", "content"), ("messages", "tool_calls")):
            self._number(f"select coalesce(sum(length({column})), 0) from {table}")  # noqa: S608

    def _number(self, sql: str) -> int:
        try:
            return int(self._connection.execute(sql).fetchone()[0]) if self._db is not None else 0
        except sqlite3.DatabaseError as error:
            raise self._broken(error) from error

    def messages(self, session: str) -> Iterator[HermesRow]:
        """The rows of a session in their order; before them what only a transcript still has."""
        if session not in self._transcripts:
            yield from self._stored(session)
            return
        written = self._written(session)
        known = {row.identity for row in self._stored(session)}
        state = RowState.ARCHIVED if known else RowState.ACTIVE
        for row in written:
            if row.identity not in known:
                yield HermesRow(**{**_fields(row), "state": state})
        yield from self._stored(session)

    def _stored(self, session: str) -> Iterator[HermesRow]:
        if self._db is None:
            return
        for row in self._rows("messages", MESSAGE, "where session_id = ? order by id", session):
            yield _message(row)

    # --- routing

    def routes(self) -> list[HermesRoute]:
        """The routing index: the table where there is one with entries, else the file."""
        found = list(self._routing_table())
        return found or list(self._routing_file())

    def _routing_table(self) -> Iterator[HermesRoute]:
        if self._db is None or not self._columns_of("gateway_routing"):
            return
        sql = "select scope, session_key, entry_json, updated_at from gateway_routing"
        for scope, key, raw, updated_at in self._connection.execute(sql).fetchall():
            entry = self._json(f"routing entry {key}", raw)
            if isinstance(entry, dict) and entry.get("session_id"):
                yield _route(key, entry, scope=scope, updated_at=float(updated_at or 0))

    def _routing_file(self) -> Iterator[HermesRoute]:
        path = self.home.path / "sessions" / "sessions.json"
        found = self._json(path.name, self._text(path)) if path.exists() else None
        for key, entry in found.items() if isinstance(found, dict) else ():
            if not key.startswith("_") and isinstance(entry, dict) and entry.get("session_id"):
                yield _route(key, entry, scope=self.scope)

    @property
    def scope(self) -> str:
        """The scope under which Hermes keeps the routing of this home."""
        return str(self.home.path / "sessions")

    # --- transcripts of 0.13 and 0.14

    def _find_transcripts(self) -> dict[str, Path]:
        folder = self.home.path / "sessions"
        found: dict[str, Path] = {}
        for path in sorted(folder.glob("*.jsonl")) if folder.is_dir() else ():
            found[path.stem] = path
        for path in sorted(folder.glob("session_*.json")) if folder.is_dir() else ():
            found[path.stem.removeprefix("session_")] = path
        return found

    def _from_transcript(self, id: str) -> HermesSession:
        rows = self._written(id)
        path = self._transcripts[id]
        start = rows[0].at_ms if rows else int(path.stat().st_mtime * 1000)
        end = rows[-1].at_ms if rows else start
        return HermesSession(id=id, started_ms=start, ended_ms=end, end_reason="transcript")

    def _written(self, session: str) -> list[HermesRow]:
        """The messages of a transcript; none if it cannot be read, which is reported once."""
        path = self._transcripts[session]
        text = self._text(path)
        if path.suffix == ".jsonl":
            lines = [self._json(f"{path.name} line {n}", line) for n, line in enumerate(text.splitlines(), 1) if line]
            messages: list[Any] = lines
            began = None
        else:
            log = self._json(path.name, text)
            log = log if isinstance(log, dict) else {}
            messages, began = log.get("messages") or [], log.get("session_start")
        at = _ms(began) or int(path.stat().st_mtime * 1000)
        rows = []
        for n, message in enumerate(messages):
            if isinstance(message, dict) and isinstance(message.get("role"), str):
                at = _ms(message.get("timestamp")) or at
                rows.append(_said(f"file:{n}", message, at))
        return rows

    def _text(self, path: Path) -> str:
        try:
            if path.stat().st_size > TRANSCRIPT_BYTES_MAX:
                self._skip(path.name, f"it is larger than {TRANSCRIPT_BYTES_MAX} bytes")
                return ""
            return path.read_bytes().decode("utf-8", "replace")
        except OSError as error:
            self._skip(path.name, error.strerror or "it cannot be read")
            return ""

    def _json(self, what: str, text: str) -> Any:  # noqa: ANN401 - any JSON
        try:
            return json.loads(text) if text else None
        except ValueError as error:
            self._skip(what, f"it is not JSON: {error}")
            return None

    def _skip(self, what: str, why: str) -> None:
        line = f"{what}: {why}"
        if line not in self.skipped:
            self.skipped.append(line)


def _connect(path: Path, how: str) -> sqlite3.Connection:
    db = sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, isolation_level=None)
    db.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return db


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size


def _session(row: Mapping[str, Any]) -> HermesSession:
    config = _object(row["model_config"])
    origin = _object(row["origin_json"]) or {
        name: row[name] for name in ("chat_id", "chat_type", "thread_id", "user_id")
    }
    found = origin_of({"platform": row["source"], **origin}, row["session_key"] or "")
    return HermesSession(
        id=str(row["id"]),
        source=row["source"] or "",
        user=str(row["user_id"] or ""),
        parent=str(row["parent_session_id"] or ""),
        title=storable(row["title"] or ""),
        model=storable(row["model"] or ""),
        directory=storable(row["cwd"] or ""),
        started_ms=_ms(row["started_at"]) or 0,
        ended_ms=_ms(row["ended_at"]),
        end_reason=storable(row["end_reason"] or ""),
        origin=found if found.chat else None,
        delegated=bool(config.get("_delegate_from")),
    )


def _message(row: Mapping[str, Any]) -> HermesRow:
    archived, active = row["compacted"], row["active"]
    state = RowState.ACTIVE if active in (None, 1) else RowState.ARCHIVED if archived else RowState.UNDONE
    return HermesRow(
        key=str(row["id"]),
        role=row["role"] or "",
        text=text_of_content(row["content"]),
        at_ms=_ms(row["timestamp"]) or 0,
        state=state,
        calls=calls_of(row["tool_calls"]) if row["tool_calls"] else (),
        call=storable(str(row["tool_call_id"] or "")),
        tool=storable(row["tool_name"] or ""),
        observed=bool(row["observed"]),
        event_id=storable(str(row["platform_message_id"] or "")),
    )


def _said(key: str, message: Mapping[str, Any], at_ms: int) -> HermesRow:
    return HermesRow(
        key=key,
        role=message["role"],
        text=text_of_content(message.get("content")),
        at_ms=at_ms,
        calls=calls_of(message.get("tool_calls")) if message.get("tool_calls") else (),
        call=storable(str(message.get("tool_call_id") or "")),
        tool=storable(str(message.get("tool_name") or message.get("name") or "")),
    )


def _fields(row: HermesRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in HermesRow.__slots__}


def _route(key: str, entry: Mapping[str, Any], *, scope: str, updated_at: float = 0.0) -> HermesRoute:
    origin = entry.get("origin") if isinstance(entry.get("origin"), dict) else {}
    known = {"platform": entry.get("platform"), "chat_type": entry.get("chat_type"), **_from_key(key)}
    finished = entry.get("expiry_finalized", entry.get("memory_flushed", False)) or entry.get("suspended")
    merged = {**known, **{name: value for name, value in (origin or {}).items() if value is not None}}
    return HermesRoute(
        key=key,
        session=str(entry["session_id"]),
        origin=origin_of(merged, key),
        finished=bool(finished),
        scope=scope,
        updated_at=updated_at,
    )


def _from_key(key: str) -> dict[str, str]:
    """The chat that a session key names, for an entry without an origin."""
    parts = key.split(":")
    return {"platform": parts[2], "chat_type": parts[3], "chat_id": parts[4]} if len(parts) > 4 else {}


def _object(raw: object) -> dict[str, Any]:
    try:
        found = json.loads(raw) if isinstance(raw, str) and raw else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _ms(at: object) -> int | None:
    """A time of Hermes in milliseconds: seconds since 1970, or ISO 8601 in local time without a zone."""
    if isinstance(at, int | float):
        return int(at * 1000)
    if isinstance(at, str) and at:
        try:
            read = datetime.fromisoformat(at)
        except ValueError:
            return None
        return int(read.timestamp() * 1000)
    return None
