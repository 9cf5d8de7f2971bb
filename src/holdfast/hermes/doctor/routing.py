"""The routing of the gateway: which session a chat uses, in the table `gateway_routing` or in sessions.json."""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RoutingEntry:
    """One chat of the routing table or of sessions.json."""

    key: str
    session: str
    scope: str
    is_finalised: bool = False


def routing_entry(key: str, text: object, scope: str) -> RoutingEntry | None:
    """The entry of one chat; None if it is not JSON or names no session."""
    try:
        found = json.loads(text) if isinstance(text, str | bytes) else text
    except ValueError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("session_id"), str):
        return None
    flag = found.get("expiry_finalized", found.get("memory_flushed", False))
    return RoutingEntry(key, found["session_id"], scope, bool(flag))
