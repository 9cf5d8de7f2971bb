"""The routing of the gateway: which session each chat uses, in the table `gateway_routing` or in sessions.json.

Rule 1: the table counts if it has entries. Hermes 0.18.2 and newer write sessions.json as a copy of it; older releases
        have the file alone.
Rule 2: the table may have entries of several homes, each under the path of its folder of sessions. A home that was
        moved has its entries under the path that it had before: if no entry names the present path, the scope with the
        newest entry is the home's.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TABLE = "gateway_routing"
READ = f"select scope, session_key, entry_json, updated_at from {TABLE} order by scope, session_key"  # noqa: S608


@dataclass(frozen=True, slots=True)
class RoutingEntry:
    """The session of one chat. `values` is the whole entry."""

    key: str
    session: str
    scope: str
    is_finalised: bool = False
    updated_at: float = 0.0
    values: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


def routing_entry(key: str, raw: object, scope: str, updated_at: object = None) -> RoutingEntry | None:
    """The entry of one chat; None if it is not JSON or names no session."""
    try:
        found = json.loads(raw) if isinstance(raw, str | bytes) else raw
    except ValueError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("session_id"), str) or not found["session_id"]:
        return None
    flag = found.get("expiry_finalized", found.get("memory_flushed", False))
    at = float(updated_at) if isinstance(updated_at, int | float) else 0.0
    return RoutingEntry(key, found["session_id"], scope, bool(flag), at, found)


def entries_of_table(rows: Iterable[Sequence[Any]]) -> tuple[list[RoutingEntry], list[str]]:
    """The entries of the rows that `READ` gives, and the chats whose entry cannot be read."""
    found, unreadable = [], []
    for scope, key, raw, updated_at in rows:
        entry = routing_entry(str(key), raw, str(scope), updated_at)
        if entry is None:
            unreadable.append(str(key))
        else:
            found.append(entry)
    return found, unreadable


def entries_of_file(raw: object, scope: str) -> list[RoutingEntry]:
    """The entries of sessions.json. Keys that begin with `_` are remarks."""
    listed = raw.items() if isinstance(raw, dict) else ()
    found = (routing_entry(key, one, scope) for key, one in listed if not key.startswith("_"))
    return [entry for entry in found if entry is not None]


def current_routing(table: Sequence[RoutingEntry], file: Sequence[RoutingEntry] | None) -> Sequence[RoutingEntry]:
    return table or file or ()


def choose_scope(entries: Sequence[RoutingEntry], here: str) -> tuple[list[RoutingEntry], list[str]]:
    """The entries of this home, and the scopes that are not used."""
    scopes = {entry.scope for entry in entries}
    if not scopes:
        return [], []
    newest = max(entries, key=lambda entry: entry.updated_at).scope
    chosen = here if here in scopes else newest
    return [entry for entry in entries if entry.scope == chosen], sorted(scopes - {chosen})
