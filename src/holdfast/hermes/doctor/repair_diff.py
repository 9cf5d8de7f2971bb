"""The difference between two states of a database, as lines for people: what a repair would change, or has changed."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import apsw

from holdfast.hermes.doctor.snapshot import read_only

KEYS: Mapping[str, tuple[str, ...]] = {
    "sessions": ("id",),
    "messages": ("id",),
    "gateway_routing": ("scope", "session_key"),
    "compression_locks": ("session_id",),
    "sqlite_sequence": ("name",),
    "messages_fts_docsize": ("id",),
    "messages_fts_trigram_docsize": ("id",),
}
INDEXES = {"messages_fts_docsize": "messages_fts", "messages_fts_trigram_docsize": "messages_fts_trigram"}
SHOWN_CHARS = 60
Row = dict[str, Any]


def database_diff(before: Path, after: Path) -> list[str]:
    """One line for each row that was added, removed or changed; entries of search indexes are counted."""
    with read_only(before, before) as old, read_only(after, after) as new:
        lines = [line for table in KEYS if table not in INDEXES for line in _table_diff(table, old, new)]
        return [*lines, *(line for table in INDEXES for line in _index_diff(table, old, new))]


def mirror_diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The chats of sessions.json that use another session."""
    old, new = ({key: _target(one) for key, one in side.items() if not key.startswith("_")} for side in (before, after))
    keys = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    return [f"~ sessions.json {key}: {old.get(key, 'none')} -> {new.get(key, 'none')}" for key in keys]


def _target(entry: object) -> str:
    return str(entry.get("session_id")) if isinstance(entry, dict) else "none"


def _rows(db: apsw.Connection, table: str) -> dict[tuple[Any, ...], Row]:
    names = [str(row[1]) for row in db.execute(f"pragma table_info({table})")]
    if not names:
        return {}
    found = (dict(zip(names, row, strict=True)) for row in db.execute(f"select * from {table}"))  # noqa: S608
    return {tuple(row[key] for key in KEYS[table]): row for row in found}


def _table_diff(table: str, old: apsw.Connection, new: apsw.Connection) -> Iterator[str]:
    before, after = _rows(old, table), _rows(new, table)
    for key in sorted(before.keys() | after.keys(), key=str):
        name = f"{table} {' '.join(map(str, key))}"
        if key not in after:
            yield f"- {name}: {_shown(before[key])}"
        elif key not in before:
            yield f"+ {name}: {_shown(after[key])}"
        elif before[key] != after[key]:
            changed = [column for column in after[key] if before[key][column] != after[key][column]]
            parts = (f"{one} {_value(before[key][one])} -> {_value(after[key][one])}" for one in changed)
            yield f"~ {name}: {', '.join(parts)}"


def _index_diff(table: str, old: apsw.Connection, new: apsw.Connection) -> Iterator[str]:
    before, after = _rows(old, table).keys(), _rows(new, table).keys()
    added, removed = len(after - before), len(before - after)
    if added or removed:
        yield f"~ {INDEXES[table]}: {added} entries added, {removed} removed"


def _shown(row: Row) -> str:
    wanted = ("session_id", "role", "content", "source", "end_reason", "active", "holder", "entry_json")
    return ", ".join(f"{name} {_value(row[name])}" for name in wanted if row.get(name) is not None)


def _value(value: object) -> str:
    if value is None:
        return "null"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 3]}..."
