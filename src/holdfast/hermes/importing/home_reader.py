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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

from holdfast.hermes.doctor.carry import is_cut_short
from holdfast.hermes.doctor.examination import read_logs
from holdfast.hermes.doctor.home_files import log_files
from holdfast.hermes.doctor.log_runs import LogStory, read_story
from holdfast.hermes.doctor.schema import IN_PLACE_FROM
from holdfast.hermes.doctor.unwritten_checks import last_turn
from holdfast.hermes.home import HermesHome
from holdfast.hermes.importing.routing import HermesRoute, HermesSession, origin_of, route_of
from holdfast.hermes.importing.rows import HermesRow, RowState, calls_of, carried_row, text_of_content
from holdfast.hermes.importing.transcripts import HermesTranscripts, ReadableFiles, merged_rows, ms_of
from holdfast.hermes.routing_index import (
    READ,
    TABLE,
    RoutingEntry,
    choose_scope,
    current_routing,
    entries_of_file,
    entries_of_table,
)
from holdfast.kernel.errors import (
    HermesDatabaseCorrupt,
    HermesDatabaseMissing,
    HermesRunning,
    HermesSchemaUnknown,
    InvalidInput,
)
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


class HermesReader:
    """An open home. Use it as a context manager."""

    def __init__(self, home: HermesHome) -> None:
        self.home = home
        self._files = ReadableFiles()
        self._copy: TemporaryDirectory[str] | None = None
        self._db: sqlite3.Connection | None = None
        self._seen: tuple[int, int] | None = None
        self.schema: int | None = None
        if home.database.exists():
            if not home.database.is_file():
                raise HermesDatabaseMissing(f"{home.database} is not a file", path=str(home.database))
            self._open()
        self._columns: dict[str, frozenset[str]] = {}
        if self._db is not None:
            self._columns = {table: self._columns_of(table) for table in TABLES}
        self._transcripts = HermesTranscripts(home.path / "sessions", self._files)

    def __enter__(self) -> "HermesReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._db is not None:
            self._db.close()
        if self._copy is not None:
            self._copy.cleanup()

    @property
    def skipped(self) -> list[str]:
        """Files and entries that could not be read, each with the reason."""
        return self._files.skipped

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
            for row in self._connection.execute(f"select {listed} from {table} {ending}", values):  # noqa: S608
                yield dict(zip(wanted, map(_text, row), strict=True))
        except sqlite3.DatabaseError as error:
            raise self._broken(error) from error

    # --- sessions

    def sessions(self) -> list[HermesSession]:
        """The sessions of the database, and those that only a transcript has."""
        found = [_session(row) for row in self._rows("sessions", SESSION, "")] if self._db is not None else []
        known = {one.id for one in found}
        return [*found, *(self._transcripts.session(one) for one in sorted(self._transcripts.ids - known))]

    def count_rows(self) -> int:
        return self._number("select count(*) from messages")

    def unfinished_sessions(self) -> frozenset[str]:
        """Sessions without a message of the conversation, and continuations with only a part of what they carry.

        A transcript has what a killed Hermes did not store, so a session that has one is finished.
        """
        if self._db is None:
            return frozenset()
        sql = """select id from sessions where not exists (
                   select 1 from messages where session_id = sessions.id and role in ('user', 'assistant', 'tool'))"""
        empty = {row[0] for row in self._connection.execute(sql)}
        return frozenset({*empty, *self._cut_short}) - self._transcripts.ids

    @cached_property
    def _cut_short(self) -> frozenset[str]:
        """Live continuations that Hermes was stopped in while it wrote their rows, one by one."""
        if self._db is None or (self.schema or 0) >= IN_PLACE_FROM:
            return frozenset()
        sql = """select child.id, parent.id
                 from sessions child join sessions parent on parent.id = child.parent_session_id
                 where parent.end_reason = 'compression' and child.end_reason is null and child.ended_at is null
                   and child.source <> 'tool'
                   and instr(coalesce(child.model_config, ''), '"_branched_from"') = 0
                   and instr(coalesce(child.model_config, ''), '"_delegate_from"') = 0"""
        pairs = self._connection.execute(sql).fetchall()
        return frozenset(child for child, parent in pairs if self._is_cut_short(child, parent))

    def _is_cut_short(self, child: str, parent: str) -> bool:
        return is_cut_short(*(list(map(carried_row, self._stored(one))) for one in (child, parent)))

    def count_rows_of(self, sessions: Iterable[str]) -> int:
        return sum(self._number("select count(*) from messages where session_id = ?", one) for one in sessions)

    def orphan_rows(self) -> int:
        """Rows whose session is missing."""
        sql = "select count(*) from messages where session_id not in (select id from sessions)"
        return self._number(sql)

    def check_pages(self) -> None:
        """Read every page of the history. Raises `HermesDatabaseCorrupt` before anything is imported."""
        for table, column in (("sessions", "title"), ("messages", "content"), ("messages", "tool_calls")):
            self._number(f"select coalesce(sum(length({column})), 0) from {table}")  # noqa: S608

    def _number(self, sql: str, *values: object) -> int:
        try:
            return int(self._connection.execute(sql, values).fetchone()[0]) if self._db is not None else 0
        except sqlite3.DatabaseError as error:
            raise self._broken(error) from error

    def messages(self, session: str) -> Iterator[HermesRow]:
        """The rows of a session in their order, with what only a transcript still has.

        A continuation that Hermes was stopped in is as the transcript has it, which Hermes writes before the rows.
        """
        if session not in self._transcripts.ids:
            yield from self._stored(session)
            return
        written, stored = self._transcripts.rows(session), list(self._stored(session))
        known = {row.identity: row for row in stored}
        if session in self._cut_short and known.keys() <= {row.identity for row in written}:
            yield from (known.get(row.identity, row) for row in written)
        else:
            yield from merged_rows(written, stored, lambda rest: self._state_of_rest(session, rest))

    def _state_of_rest(self, session: str, rest: Sequence[HermesRow]) -> RowState:
        """Whether the last turn of a transcript was taken back, or cut off before it was stored: the log decides."""
        users = [row for row in rest if row.role == "user"]
        if len(users) != 1 or rest[0].role != "user":
            return RowState.ARCHIVED
        sql = "select coalesce(parent_session_id, id) from sessions where id = ?"
        ids = {session, *(str(row[0]) for row in self._connection.execute(sql, (session,)))}
        turn = last_turn(self._story, ids, ("user", users[0].text.strip()))
        if turn is None or not self._story.ended:
            return RowState.ARCHIVED
        return RowState.ACTIVE if self._story.was_cut_off(turn, ids) else RowState.UNDONE

    @cached_property
    def _story(self) -> LogStory:
        try:
            return read_story(read_logs(log_files(self.home.path), self.home.path))
        except InvalidInput as error:
            self._files.skip("logs", str(error))
            return LogStory()

    def _stored(self, session: str) -> Iterator[HermesRow]:
        if self._db is None:
            return
        for row in self._rows("messages", MESSAGE, "where session_id = ? order by id", session):
            yield _message(row)

    # --- routing

    def routes(self) -> tuple[list[HermesRoute], list[str]]:
        """The chats of this home, and the scopes of other homes in the same table."""
        chosen, left_out = choose_scope(current_routing(self._routing_table(), self._routing_file()), self.scope)
        return [route_of(entry) for entry in chosen], left_out

    def _routing_table(self) -> list[RoutingEntry]:
        if self._db is None or not self._columns_of(TABLE):
            return []
        found, unreadable = entries_of_table(self._connection.execute(READ).fetchall())
        for key in unreadable:
            self._files.skip(f"routing entry {key}", "it is not JSON, or names no session")
        return found

    def _routing_file(self) -> list[RoutingEntry]:
        path = self.home.path / "sessions" / "sessions.json"
        found = self._files.json(path.name, self._files.text(path)) if path.exists() else None
        return entries_of_file(found, self.scope)

    @property
    def scope(self) -> str:
        """The scope under which Hermes keeps the routing of this home."""
        return str(self.home.path / "sessions")


def _text(value: object) -> object:
    """Words as text, also where a tool stored them as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


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
        started_ms=ms_of(row["started_at"]) or 0,
        ended_ms=ms_of(row["ended_at"]),
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
        at_ms=ms_of(row["timestamp"]) or 0,
        state=state,
        calls=calls_of(row["tool_calls"]) if row["tool_calls"] else (),
        call=storable(str(row["tool_call_id"] or "")),
        tool=storable(row["tool_name"] or ""),
        observed=bool(row["observed"]),
        event_id=storable(str(row["platform_message_id"] or "")),
    )


def _object(raw: object) -> dict[str, Any]:
    try:
        found = json.loads(raw) if isinstance(raw, str) and raw else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
