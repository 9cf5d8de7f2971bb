"""Changes of rows that several repairs share. Tables, columns and triggers stay as Hermes made them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import apsw

from holdfast.hermes.doctor.records import ExaminedMessage

HIDES_ROWS_SINCE = 14
ARCHIVES_ROWS_SINCE = 17


def columns(db: apsw.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in db.execute(f"pragma table_info({table})")]


def place_behind(db: apsw.Connection, schema: int, session: str, last: int, moved: Sequence[int]) -> None:
    """Give rows new numbers, so that they follow the row `last` of the session, and make them live.

    Rows that already follow it get numbers behind them. Hermes orders a conversation by these numbers.
    """
    later = [
        int(row[0])
        for row in db.execute("select id from messages where session_id = ? and id > ? order by id", (session, last))
        if row[0] not in moved
    ]
    live = [
        *(["active = 1"] if schema >= HIDES_ROWS_SINCE else []),
        *(["compacted = 0"] if schema >= ARCHIVES_ROWS_SINCE else []),
    ]
    for number in moved:
        sets = ", ".join(["id = ?", "session_id = ?", *live])
        db.execute(f"update messages set {sets} where id = ?", (next_id(db), session, number))  # noqa: S608
        remember_ids(db)
    for number in later:
        db.execute("update messages set id = ? where id = ?", (next_id(db), number))
        remember_ids(db)


def write_behind(
    db: apsw.Connection, session: str, last: ExaminedMessage, messages: Iterable[Mapping[str, Any]]
) -> None:
    """Insert messages of a transcript behind a row of the session, with the time of that row."""
    known = columns(db, "messages")
    later = [
        int(row[0])
        for row in db.execute("select id from messages where session_id = ? and id > ? order by id", (session, last.id))
    ]
    for message in messages:
        row = {"session_id": session, "timestamp": last.at} | _stored(message)
        kept = {name: value for name, value in row.items() if name in known}
        places = ", ".join("?" for _ in kept)
        db.execute(f"insert into messages ({', '.join(kept)}) values ({places})", tuple(kept.values()))  # noqa: S608
    for number in later:
        db.execute("update messages set id = ? where id = ?", (next_id(db), number))
        remember_ids(db)


def _stored(message: Mapping[str, Any]) -> dict[str, Any]:
    calls = message.get("tool_calls")
    return {
        "role": message.get("role"),
        "content": message.get("content"),
        "tool_call_id": message.get("tool_call_id"),
        "tool_calls": json.dumps(calls) if calls else None,
        "tool_name": message.get("tool_name"),
        "finish_reason": message.get("finish_reason"),
        "reasoning": message.get("reasoning") if isinstance(message.get("reasoning"), str) else None,
    }


def next_id(db: apsw.Connection) -> int:
    found = db.execute(
        "select max(coalesce((select max(id) from messages), 0),"
        " coalesce((select seq from sqlite_sequence where name = 'messages'), 0)) + 1"
    ).fetchall()
    return int(str(found[0][0]))


def remember_ids(db: apsw.Connection) -> None:
    """Let the counter of messages reach the highest number, so that no number is given again."""
    db.execute("update sqlite_sequence set seq = max(seq, (select max(id) from messages)) where name = 'messages'")


def recount(db: apsw.Connection, schema: int, session: str) -> None:
    """Set the number of messages as Hermes counts them: live rows, where the schema knows others."""
    live = " and active = 1" if schema >= HIDES_ROWS_SINCE else ""
    db.execute(
        f"update sessions set message_count = (select count(*) from messages where session_id = ?{live}) where id = ?",  # noqa: S608
        (session, session),
    )
