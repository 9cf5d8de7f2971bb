"""What a repair does about each kind of finding: one function for each, which changes rows of a private copy.

A finding that is only suspected never comes here. Nothing is merged, and no words are deleted: the only rows that are
removed are a second copy of a message where the schema cannot hide it, a stale lock, and entries of indexes.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import apsw

from holdfast.hermes.doctor.carry import Said, block_in_child, blocks_in_place, uncovered
from holdfast.hermes.doctor.finding import HermesFinding
from holdfast.hermes.doctor.home_files import HomeFiles
from holdfast.hermes.doctor.lineage_checks import RETIRED, named_ancestor, rank, tip
from holdfast.hermes.doctor.message_checks import lost_in_transcript
from holdfast.hermes.doctor.records import ExaminedMessage, ExaminedSession, Records
from holdfast.hermes.doctor.repair_rows import (
    HIDES_ROWS_SINCE,
    columns,
    place_behind,
    recount,
    remember_ids,
    write_behind,
)
from holdfast.hermes.doctor.repetition import once, repeated_rows
from holdfast.hermes.doctor.routing_checks import ROUTING_TABLE_SINCE
from holdfast.hermes.doctor.store_checks import SEARCH_TABLES
from holdfast.hermes.doctor.unwritten_checks import unwritten

INDEXED = "coalesce(content, '') || ' ' || coalesce(tool_name, '') || ' ' || coalesce(tool_calls, '')"
ORIGIN = ("user_id", "session_key", "chat_id", "chat_type", "thread_id", "display_name", "origin_json")


@dataclass
class RepairWork:
    """The copy that is being repaired. `mirror` is the new content of sessions.json; None leaves the file."""

    db: apsw.Connection
    records: Records
    files: HomeFiles
    mirror: dict[str, Any] | None = None
    touched: set[str] = field(default_factory=set)

    def route(self, old: str, new: str | None) -> None:
        """Let every chat that uses one session use another; None removes the entries."""
        if self.records.schema >= ROUTING_TABLE_SINCE:
            rows = self.db.execute("select scope, session_key, entry_json from gateway_routing").fetchall()
            for scope, key, text in rows:
                entry = _entry(text)
                if entry.get("session_id") == old:
                    self._route_row(str(scope), str(key), entry, new)
        mirror = self.mirror if self.mirror is not None else dict(self.files.mirror_raw)
        keys = [key for key, one in mirror.items() if isinstance(one, dict) and one.get("session_id") == old]
        for key in keys:
            if new is None:
                del mirror[key]
            else:
                mirror[key] = {**mirror[key], "session_id": new}
        if keys:
            self.mirror = mirror

    def _route_row(self, scope: str, key: str, entry: dict[str, Any], new: str | None) -> None:
        if new is None:
            self.db.execute("delete from gateway_routing where scope = ? and session_key = ?", (scope, key))
            return
        text = json.dumps({**entry, "session_id": new})
        self.db.execute(
            "update gateway_routing set entry_json = ? where scope = ? and session_key = ?", (text, scope, key)
        )


def _entry(text: object) -> dict[str, Any]:
    try:
        found = json.loads(str(text))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _reopen(work: RepairWork, found: HermesFinding) -> None:
    work.db.execute("update sessions set ended_at = null, end_reason = null where id = ?", (found.sessions[0],))


def _retire(work: RepairWork, session: str) -> None:
    work.db.execute(
        "update sessions set ended_at = coalesce(ended_at, started_at), end_reason = ? where id = ?", (RETIRED, session)
    )


def _unfinished_continuation(work: RepairWork, found: HermesFinding) -> None:
    parent, child = found.sessions
    _retire(work, child)
    others = [one for one in work.records.continuations(parent) if one.id != child and one.end_reason != RETIRED]
    if others:
        work.route(child, tip(work.records, others[-1].id))
        return
    _reopen(work, found)
    work.route(child, parent)


def _forked_lineage(work: RepairWork, found: HermesFinding) -> None:
    records = work.records
    routed = {entry.session for entry in (*records.routing, *(work.files.mirror or ()))}
    branches = [records.sessions[one] for one in found.sessions[1:]]

    def preference(branch: ExaminedSession) -> tuple[bool, tuple[int, float, float]]:
        return tip(records, branch.id) in routed or branch.id in routed, rank(records, branch)

    kept = max(branches, key=preference)
    for branch in branches:
        if branch is not kept:
            _retire(work, tip(records, branch.id))


def _lineage_cycle(work: RepairWork, found: HermesFinding) -> None:
    oldest = min(found.sessions, key=lambda one: work.records.sessions[one].started_at)
    work.db.execute("update sessions set parent_session_id = null where id = ?", (oldest,))


def _parent_missing(work: RepairWork, found: HermesFinding) -> None:
    work.db.execute("update sessions set parent_session_id = null where id = ?", (found.sessions[0],))


def _rotation_broken(work: RepairWork, found: HermesFinding) -> None:
    old, new = found.sessions
    work.db.execute(
        "update sessions set parent_session_id = ? where id = ? and parent_session_id is null"
        " and exists (select 1 from sessions where id = ?)",
        (old, new, old),
    )


def _orphan_messages(work: RepairWork, found: HermesFinding) -> None:
    session = found.sessions[0]
    times = [row.at for row in work.records.said_in(session)]
    work.db.execute(
        "insert or ignore into sessions (id, source, started_at, ended_at, end_reason)"
        " values (?, 'recovered', ?, ?, 'recovered')",
        (session, min(times), max(times)),
    )
    work.touched.add(session)


def _origin_missing(work: RepairWork, found: HermesFinding) -> None:
    session = found.sessions[0]
    origin = named_ancestor(work.records, work.records.sessions[session])
    known = [name for name in ORIGIN if name in columns(work.db, "sessions")]
    for name in known:
        work.db.execute(
            f"update sessions set {name} = (select {name} from sessions where id = ?) where id = ? and {name} is null",  # noqa: S608
            (origin.id if origin is not None else None, session),
        )


def _hide(work: RepairWork, rows: list[ExaminedMessage]) -> None:
    hides = work.records.schema >= HIDES_ROWS_SINCE
    statement = "update messages set active = 0 where id = ?" if hides else "delete from messages where id = ?"
    for row in rows:
        work.db.execute(statement, (row.id,))
        work.touched.add(row.session)


def _rows_reinserted(work: RepairWork, found: HermesFinding) -> None:
    _hide(work, repeated_rows(work.records.said_in(found.sessions[0])))


def _inbound_twice(work: RepairWork, found: HermesFinding) -> None:
    second = int(found.evidence.rows[1].removeprefix("messages ").partition(":")[0])
    _hide(work, [row for row in work.records.said_in(found.sessions[0]) if row.id == second])


def _turn_archived(work: RepairWork, found: HermesFinding) -> None:
    session = found.sessions[0]
    rows = work.records.said_in(session)
    for block in reversed(blocks_in_place(rows)):
        lost = [row for row in uncovered(rows[: block.first], block) if row.is_archived]
        if any(str(row) in found.evidence.rows for row in lost):
            between = [r.id for r in rows if lost[0].id <= r.id <= lost[-1].id and r.is_archived and not r.is_summary]
            place_behind(work.db, work.records.schema, session, rows[block.last].id, between)
            work.touched.add(session)
            return


def _turn_left(work: RepairWork, found: HermesFinding) -> None:
    parent, child = found.sessions
    rows, carried = once(work.records.said_in(parent)), work.records.said_in(child)
    block = block_in_child(carried, rows)
    lost = uncovered(rows, block) if block is not None else []
    if block is None or not lost:
        return
    between = [row.id for row in rows if row.id >= lost[0].id and row.is_active and not row.is_summary]
    place_behind(work.db, work.records.schema, child, carried[block.last].id, between)
    work.touched |= {parent, child}


def _turn_lost(work: RepairWork, found: HermesFinding) -> None:
    session = found.sessions[0]
    transcript, rows = work.files.transcripts.get(session), work.records.said_in(session)
    lost = lost_in_transcript(rows, transcript) if transcript is not None else []
    if transcript is None or not lost:
        return
    summary = next(n for n, row in enumerate(rows) if row.is_summary)
    said = [(str(one.get("role")), str(one.get("content") or "").strip()) for one in transcript.messages]
    first = max(n for n, one in enumerate(said) if one == lost[0])
    carried = _last_carried(rows, summary, said[:first])
    messages = [one for one in transcript.messages[first:] if isinstance(one.get("content"), str)]
    write_behind(work.db, session, carried, messages)
    work.touched.add(session)


def _turn_not_stored(work: RepairWork, found: HermesFinding) -> None:
    """Write the turn where the conversation goes on: a continuation that was cut short was ended before this."""
    session = work.records.sessions[found.sessions[0]]
    transcript = work.files.transcripts[session.id]
    words = unwritten(work.records, session, transcript)
    target = tip(work.records, session.parent) if session.end_reason == RETIRED and session.parent else session.id
    rows = [row for row in work.records.said_in(target) if row.is_spoken]
    first = next((n for n, one in enumerate(transcript.messages) if _is_said(one, words[0])), None)
    if not rows or first is None:
        return
    messages = [one for one in transcript.messages[first:] if isinstance(one.get("content"), str)]
    write_behind(work.db, target, rows[-1], messages)
    work.touched.add(target)


def _is_said(message: Mapping[str, Any], words: Said) -> bool:
    return (str(message.get("role")), str(message.get("content") or "").strip()) == words


def _last_carried(rows: Sequence[ExaminedMessage], summary: int, known: list[tuple[str, str]]) -> ExaminedMessage:
    """The last row behind the summary that the transcript had before the lost turn."""
    last = rows[summary]
    for row in rows[summary + 1 :]:
        if row.is_spoken and (row.role, row.text) not in known:
            break
        last = row
    return last


def _message_ids(work: RepairWork, _found: HermesFinding) -> None:
    remember_ids(work.db)


def _routing_to_ended(work: RepairWork, found: HermesFinding) -> None:
    session = found.sessions[0]
    newest = tip(work.records, session)
    is_live = newest != session and work.records.sessions[newest].is_live
    work.route(session, newest if is_live else None)


def _routing_lost(work: RepairWork, found: HermesFinding) -> None:
    key = work.records.sessions[found.sessions[0]].session_key
    entry = work.files.mirror_raw.get(key or "")
    scopes = {one.scope for one in work.records.routing}
    if isinstance(entry, dict) and len(scopes) == 1:
        work.db.execute(
            "insert or ignore into gateway_routing (scope, session_key, entry_json, updated_at)"
            " values (?, ?, ?, (select max(updated_at) from gateway_routing))",
            (*scopes, key, json.dumps(entry)),
        )


def _mirror_differs(work: RepairWork, _found: HermesFinding) -> None:
    rows = work.db.execute("select scope, session_key, entry_json from gateway_routing").fetchall()
    own = {entry.scope for entry in work.files.mirror or ()}
    scopes = {str(row[0]) for row in rows}
    chosen = own & scopes or scopes
    comments = {key: one for key, one in work.files.mirror_raw.items() if key.startswith("_")}
    work.mirror = comments | {str(key): _entry(text) for scope, key, text in rows if scope in chosen}


def _stale_lock(work: RepairWork, found: HermesFinding) -> None:
    work.db.execute("delete from compression_locks where session_id = ?", (found.sessions[0],))


def _search(work: RepairWork, _found: HermesFinding) -> None:
    for table in SEARCH_TABLES:
        if not columns(work.db, f"{table}_docsize"):
            continue
        work.db.execute(f"insert into {table}({table}) values ('rebuild')")  # noqa: S608
        work.db.execute(f"delete from {table} where rowid not in (select id from messages)")  # noqa: S608
        work.db.execute(
            f"insert into {table}(rowid, content) select id, {INDEXED} from messages"  # noqa: S608
            f" where id not in (select id from {table}_docsize)"
        )


def _integrity(work: RepairWork, _found: HermesFinding) -> None:
    """Rebuild each index by itself: one that cannot be rebuilt does not keep the others from it."""
    names = [str(row[0]) for row in work.db.execute("select name from sqlite_master where type = 'index'")]
    for name in names:
        try:
            work.db.execute(f'reindex "{name}"')
        except apsw.ConstraintError:
            continue  # two rows that may not be equal are: the doctor still finds it afterwards


FIXES: Mapping[str, Callable[[RepairWork, HermesFinding], None]] = {
    "ended_without_child": _reopen,
    "empty_continuation": _unfinished_continuation,
    "incomplete_continuation": _unfinished_continuation,
    "forked_lineage": _forked_lineage,
    "lineage_cycle": _lineage_cycle,
    "parent_missing": _parent_missing,
    "rotation_broken": _rotation_broken,
    "orphan_messages": _orphan_messages,
    "origin_missing": _origin_missing,
    "rows_reinserted": _rows_reinserted,
    "inbound_twice": _inbound_twice,
    "turn_archived_uncovered": _turn_archived,
    "turn_left_in_parent": _turn_left,
    "turn_lost": _turn_lost,
    "turn_not_stored": _turn_not_stored,
    "message_ids_reused": _message_ids,
    "routing_to_ended": _routing_to_ended,
    "routing_lost": _routing_lost,
    "mirror_differs": _mirror_differs,
    "stale_lock": _stale_lock,
    "search_out_of_step": _search,
    "integrity": _integrity,
}


def fix(work: RepairWork, found: HermesFinding) -> None:
    """Apply the repair of one finding, and count the messages of the sessions that it changed."""
    FIXES[found.kind.code](work, found)
    for session in work.touched:
        recount(work.db, work.records.schema, session)
