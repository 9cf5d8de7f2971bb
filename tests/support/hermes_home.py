"""Homes of Hermes, as its releases from 0.13 to 0.19 leave them: state.db, routing, transcripts, memory files, logs.

Only the shape is Hermes': names of tables, columns and files. A home is written directly, without Hermes' code, so that
tests can make every release's home in milliseconds, and damage it. `tests/hermes_real` compares the shape with homes
that real releases made.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SCHEMAS: Mapping[str, int] = {
    "0.13.0": 11,
    "0.14.0": 11,
    "0.15.2": 13,
    "0.16.0": 14,
    "0.17.0": 16,
    "0.18.0": 17,
    "0.18.2": 19,
    "0.19.0": 22,
}
RELEASES = tuple(SCHEMAS)
NEWEST = RELEASES[-1]
SUMMARY_PREFIX = "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below."
BEGAN_AT = 1_770_000_000.0  # a time in February 2026

SESSION_COLUMNS: Sequence[tuple[str, int]] = (
    ("id text primary key", 11),
    ("source text not null", 11),
    ("user_id text", 11),
    ("session_key text", 17),
    ("chat_id text", 17),
    ("chat_type text", 17),
    ("thread_id text", 17),
    ("display_name text", 19),
    ("origin_json text", 19),
    ("expiry_finalized integer default 0", 19),
    ("model text", 11),
    ("model_config text", 11),
    ("system_prompt text", 11),
    ("parent_session_id text references sessions(id)", 11),
    ("started_at real not null", 11),
    ("ended_at real", 11),
    ("end_reason text", 11),
    ("message_count integer default 0", 11),
    ("tool_call_count integer default 0", 11),
    ("input_tokens integer default 0", 11),
    ("output_tokens integer default 0", 11),
    ("cwd text", 14),
    ("title text", 11),
    ("compression_failure_cooldown_until real", 17),
    ("compression_failure_error text", 17),
    ("compression_fallback_streak integer not null default 0", 22),
    ("profile_name text", 22),
    ("rewind_count integer not null default 0", 14),
    ("archived integer not null default 0", 14),
)
MESSAGE_COLUMNS: Sequence[tuple[str, int]] = (
    ("id integer primary key autoincrement", 11),
    ("session_id text not null references sessions(id)", 11),
    ("role text not null", 11),
    ("content text", 11),
    ("tool_call_id text", 11),
    ("tool_calls text", 11),
    ("tool_name text", 11),
    ("effect_disposition text", 22),
    ("timestamp real not null", 11),
    ("token_count integer", 11),
    ("finish_reason text", 11),
    ("reasoning text", 11),
    ("platform_message_id text", 13),
    ("observed integer default 0", 13),
    ("active integer not null default 1", 14),
    ("compacted integer not null default 0", 17),
    ("api_content text", 22),
)
LOCKS = """
create table compression_locks (
  session_id text primary key, holder text not null, acquired_at real not null, expires_at real not null)"""
ROUTING = """
create table gateway_routing (
  scope text not null default '', session_key text not null, entry_json text not null, updated_at real not null,
  primary key (scope, session_key))"""
OTHER_TABLES: Sequence[tuple[str, int]] = (
    ("create table state_meta (key text primary key, value text)", 11),
    (LOCKS, 14),
    (ROUTING, 19),
)
SEARCH = """
create virtual table {name} using fts5(content{tokenize});
create trigger {name}_insert after insert on messages begin
  insert into {name}(rowid, content) values (new.id,
    coalesce(new.content, '') || ' ' || coalesce(new.tool_name, '') || ' ' || coalesce(new.tool_calls, ''));
end;
create trigger {name}_delete after delete on messages begin
  delete from {name} where rowid = old.id;
end;
create trigger {name}_update after update on messages begin
  delete from {name} where rowid = old.id;
  insert into {name}(rowid, content) values (new.id,
    coalesce(new.content, '') || ' ' || coalesce(new.tool_name, '') || ' ' || coalesce(new.tool_calls, ''));
end;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HermesChat:
    """A chat of the gateway, with the session key that Hermes makes of it."""

    platform: str = "telegram"
    type: str = "dm"
    chat: str = "4242"
    thread: str | None = None
    user: str = "4242"
    user_name: str = "Ada"
    per_user: bool = False  # the key of a group ends with the user

    @property
    def key(self) -> str:
        parts = ["agent", "main", self.platform, self.type, self.chat]
        return ":".join([*parts, *([self.thread] if self.thread else []), *([self.user] if self.per_user else [])])

    @property
    def origin(self) -> dict[str, object]:
        return {
            "platform": self.platform,
            "chat_id": self.chat,
            "chat_name": self.user_name,
            "chat_type": self.type,
            "user_id": self.user,
            "user_name": self.user_name,
            "thread_id": self.thread,
        }


class HermesHome:
    """One home. Writing methods commit at once. While it is open, its newest pages are in state.db-wal only."""

    def __init__(self, folder: Path, release: str = NEWEST, *, search: bool = True) -> None:
        self.folder, self.release, self.schema = folder, release, SCHEMAS[release]
        self.sessions = folder / "sessions"
        self.state = folder / "state.db"
        for one in (self.sessions, folder / "memories", folder / "logs"):
            one.mkdir(parents=True, exist_ok=True)
        self.now = BEGAN_AT
        self.db = sqlite3.connect(self.state, isolation_level=None)
        self.db.execute("pragma journal_mode = wal")
        self.db.execute("pragma synchronous = off")
        self._make(search=search)
        self.configure()

    def _make(self, *, search: bool) -> None:
        self.db.execute("create table schema_version (version integer not null)")
        self.db.execute("insert into schema_version values (?)", (self.schema,))
        for table, columns in (("sessions", SESSION_COLUMNS), ("messages", MESSAGE_COLUMNS)):
            known = ", ".join(column for column, since in columns if since <= self.schema)
            self.db.execute(f"create table {table} ({known})")
        for made, since in OTHER_TABLES:
            if since <= self.schema:
                self.db.execute(made)
        self.db.execute("create unique index idx_sessions_title_unique on sessions(title) where title is not null")
        if search:
            self.db.executescript(SEARCH.format(name="messages_fts", tokenize=""))
            self.db.executescript(SEARCH.format(name="messages_fts_trigram", tokenize=", tokenize='trigram'"))

    def close(self) -> None:
        self.db.close()

    @property
    def has_routing_table(self) -> bool:
        return self.schema >= 19

    # --- sessions and messages

    def session(self, id: str, chat: HermesChat | None = None, **columns: Any) -> str:
        """Add a session. Columns that the release does not have are left out."""
        row: dict[str, Any] = {"id": id, "source": chat.platform if chat else "cli", "started_at": self._tick()}
        if chat is not None:
            row |= {"user_id": chat.user, "session_key": chat.key, "chat_id": chat.chat, "chat_type": chat.type}
            row |= {"thread_id": chat.thread, "origin_json": json.dumps(chat.origin)}
        self._insert("sessions", SESSION_COLUMNS, row | columns)
        return id

    def message(self, session: str, role: str, content: str | None, **columns: Any) -> int:
        """Add a message row; returns its id."""
        row = {"session_id": session, "role": role, "content": content, "timestamp": self._tick()} | columns
        made = self._insert("messages", MESSAGE_COLUMNS, row)
        self._count(session)
        return made

    def say(self, session: str, user: str, assistant: str) -> tuple[int, int]:
        """Add one turn."""
        return self.message(session, "user", user), self.message(session, "assistant", assistant)

    def use_tool(self, session: str, call: str, name: str, arguments: Mapping[str, object], result: str) -> None:
        calls = [{"id": call, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}]
        self.message(session, "assistant", "", tool_calls=json.dumps(calls), finish_reason="tool_calls")
        self.message(session, "tool", result, tool_call_id=call, tool_name=name)

    def end(self, session: str, reason: str = "session_reset") -> None:
        self.db.execute(
            "update sessions set ended_at = ?, end_reason = ? where id = ?", (self._tick(), reason, session)
        )

    def undo(self, session: str, from_id: int) -> None:
        """Take back the messages from a row on (0.16 and newer)."""
        self.db.execute("update messages set active = 0 where session_id = ? and id >= ?", (session, from_id))
        self._count(session)

    # --- compression

    def compact_in_place(self, session: str, summary: str, *, head: int = 0, tail: int = 2) -> None:
        """Archive the active rows; insert copies of the first and last rows around a summary (0.18 and newer)."""
        live = self._active(session)
        self.db.execute("update messages set active = 0, compacted = 1 where session_id = ? and active = 1", (session,))
        self._carry(session, live, summary, head=head, tail=tail)

    def rotate(
        self,
        session: str,
        child: str,
        summary: str,
        *,
        head: int = 0,
        tail: int = 2,
        **columns: Any,
    ) -> str:
        """End a session and continue in a child without chat and user, as rotating releases do."""
        self.end(session, "compression")
        source = self.db.execute("select source from sessions where id = ?", (session,)).fetchone()[0]
        self.session(child, **({"source": source, "parent_session_id": session} | columns))
        self._carry(child, self._active(session), summary, head=head, tail=tail)
        return child

    def overwrite(self, session: str, summary: str, *, head: int = 0, tail: int = 2) -> None:
        """Delete the rows and write a summary with copies instead, as /compress did before 0.18."""
        live = self._active(session)
        self.db.execute("delete from messages where session_id = ?", (session,))
        self._carry(session, live, summary, head=head, tail=tail)

    def _carry(self, session: str, live: Sequence[Mapping[str, Any]], summary: str, *, head: int, tail: int) -> None:
        kept = ("role", "content", "tool_call_id", "tool_calls", "tool_name", "timestamp")
        for row in live[:head]:
            self.message(session, **{name: row[name] for name in kept})
        self.message(session, "user", f"{SUMMARY_PREFIX}\n{summary}")
        for row in live[len(live) - tail :] if tail else ():
            self.message(session, **{name: row[name] for name in kept})

    def _active(self, session: str) -> list[dict[str, Any]]:
        active = " and active = 1" if self.schema >= 14 else ""
        found = self.db.execute(f"select * from messages where session_id = ?{active} order by id", (session,))
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found]

    def lock(self, session: str, *, holder: str = "pid=1:tid=1", expires_at: float | None = None) -> None:
        """Leave the row of a running or killed compression (0.16 and newer)."""
        ends = self.now + 300 if expires_at is None else expires_at
        self.db.execute("insert into compression_locks values (?, ?, ?, ?)", (session, holder, self.now, ends))

    # --- routing

    def route(
        self, chat: HermesChat, session: str, *, scope: str | None = None, mirror: bool = True, **more: Any
    ) -> None:
        """Make a chat use a session: in the table where the release has one, and in sessions.json."""
        at = datetime.fromtimestamp(self.now, UTC).replace(tzinfo=None).isoformat()
        entry: dict[str, Any] = {
            "session_key": chat.key,
            "session_id": session,
            "created_at": at,
            "updated_at": at,
            "display_name": chat.user_name,
            "platform": chat.platform,
            "chat_type": chat.type,
            "expiry_finalized": False,
            "suspended": False,
            "origin": chat.origin,
        } | more
        if self.has_routing_table:
            self.db.execute(
                "insert or replace into gateway_routing values (?, ?, ?, ?)",
                (str(self.sessions.resolve()) if scope is None else scope, chat.key, json.dumps(entry), self.now),
            )
        if mirror:
            known = json.loads(self.routing_file.read_text()) if self.routing_file.exists() else {}
            if self.has_routing_table:
                known = {"_README": "a mirror of the routing table"} | known
            self.routing_file.write_text(json.dumps(known | {chat.key: entry}, indent=2))

    @property
    def routing_file(self) -> Path:
        return self.sessions / "sessions.json"

    # --- files

    def configure(self, **settings: object) -> None:
        """Write config.yaml. A value that is a mapping becomes a section."""
        lines = []
        for name, value in {"model": "practice", **settings}.items():
            if isinstance(value, Mapping):
                lines += [f"{name}:", *(f"  {key}: {json.dumps(one)}" for key, one in value.items())]
            else:
                lines.append(f"{name}: {json.dumps(value)}")
        (self.folder / "config.yaml").write_text("\n".join(lines) + "\n")

    def transcript(self, session: str, messages: Iterable[Mapping[str, Any]], *, lines: bool = False) -> Path:
        """Write session_<id>.json, or with `lines` <id>.jsonl (0.13 and 0.14)."""
        found = list(messages)
        if lines:
            path = self.sessions / f"{session}.jsonl"
            path.write_text("".join(json.dumps(one) + "\n" for one in found))
        else:
            path = self.sessions / f"session_{session}.json"
            began = datetime.fromtimestamp(self.now, UTC).replace(tzinfo=None).isoformat()
            log = {"session_id": session, "session_start": began, "message_count": len(found), "messages": found}
            path.write_text(json.dumps(log, indent=2))
        return path

    def remember(self, *, memory: Sequence[str] = (), user: Sequence[str] = ()) -> None:
        for name, entries in (("MEMORY.md", memory), ("USER.md", user)):
            if entries:
                (self.folder / "memories" / name).write_text("\n§\n".join(entries))

    def log(self, *lines: str, file: str = "agent.log") -> None:
        with (self.folder / "logs" / file).open("a", encoding="utf-8") as opened:
            opened.writelines(f"{line}\n" for line in lines)

    # --- rows

    def _insert(self, table: str, columns: Sequence[tuple[str, int]], row: Mapping[str, Any]) -> int:
        known = {column.split()[0]: since for column, since in columns}
        unknown = row.keys() - known
        if unknown:
            raise ValueError(f"{table} has no column {', '.join(sorted(unknown))}")
        kept = {name: value for name, value in row.items() if known[name] <= self.schema}
        places = ", ".join("?" for _ in kept)
        made = self.db.execute(f"insert into {table} ({', '.join(kept)}) values ({places})", tuple(kept.values()))
        return int(made.lastrowid or 0)

    def _count(self, session: str) -> None:
        active = " and active = 1" if self.schema >= 14 else ""
        self.db.execute(
            f"update sessions set message_count = (select count(*) from messages where session_id = :id{active})"
            " where id = :id",
            {"id": session},
        )

    def _tick(self) -> float:
        self.now += 1.0
        return self.now
