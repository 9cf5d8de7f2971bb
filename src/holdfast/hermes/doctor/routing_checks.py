"""Checks of routing and of sessions' ends: which session a chat uses, and which sessions were handed to memory."""

from collections import Counter
from collections.abc import Iterator, Sequence

from holdfast.hermes.doctor.finding import Certainty, FindingEvidence, HermesFinding, finding
from holdfast.hermes.doctor.lineage_checks import describe, tip
from holdfast.hermes.doctor.log_runs import LogStory
from holdfast.hermes.doctor.records import ExaminedSession, Records
from holdfast.hermes.routing_index import RoutingEntry, current_routing

ROUTING_TABLE_SINCE = 19
REOPENED = {"agent_close", "ws_orphan_reap"}  # Hermes opens these again with the next message
EXPIRED = {"idle", "daily", "suspended", "resume_pending_expired"}


def check_routing(records: Records, mirror: Sequence[RoutingEntry] | None) -> Iterator[HermesFinding]:
    entries = current_routing(records.routing, mirror)
    for entry in entries:
        yield from _target(records, entry)
    yield from _shared(entries)
    if records.schema >= ROUTING_TABLE_SINCE:
        # First what the table lost: its repair needs the mirror, which the other repair writes again from the table.
        yield from _lost(records, mirror)
        yield from _mirror(records, mirror)


def _target(records: Records, entry: RoutingEntry) -> Iterator[HermesFinding]:
    session = records.sessions.get(entry.session)
    row = f"routing {entry.key}: {entry.session}"
    if session is None:
        what = f"{entry.key} is routed to {entry.session}, which has no row"
        yield finding(
            "routing_to_missing", what, entry.session, certainty=Certainty.SUSPECTED, evidence=FindingEvidence((row,))
        )
    elif session.end_reason is not None and session.end_reason not in REOPENED:
        newest = tip(records, session.id)
        leads = f"; the conversation goes on in {newest}" if newest != session.id else ""
        what = f"{entry.key} is routed to {session.id}, which was ended by {session.end_reason}{leads}"
        ids = (session.id, newest) if newest != session.id else (session.id,)
        yield finding("routing_to_ended", what, *ids, evidence=FindingEvidence((row, describe(session))))


def _shared(entries: Sequence[RoutingEntry]) -> Iterator[HermesFinding]:
    used = Counter((entry.scope, entry.session) for entry in entries)
    for (scope, session), times in used.items():
        if times > 1:
            keys = [entry.key for entry in entries if (entry.scope, entry.session) == (scope, session)]
            rows = tuple(f"routing {key}: {session}" for key in keys)
            yield finding(
                "routing_shared", f"{' and '.join(keys)} use {session}", session, evidence=FindingEvidence(rows)
            )


def _mirror(records: Records, mirror: Sequence[RoutingEntry] | None) -> Iterator[HermesFinding]:
    """Compare one store's table with its own mirror. A moved home keeps the scope of its old place."""
    if mirror is None:
        return
    scopes = {entry.scope for entry in records.routing}
    own = {entry.scope for entry in mirror} & scopes or (scopes if len(scopes) == 1 else set())
    table = {entry.key: entry.session for entry in records.routing if entry.scope in own}
    shown = {entry.key: entry.session for entry in mirror}
    differing = sorted(key for key in table.keys() | shown.keys() if table.get(key) != shown.get(key))
    if differing and (own or not scopes):
        rows = tuple(
            f"{key}: table {table.get(key, 'none')}, sessions.json {shown.get(key, 'none')}" for key in differing
        )
        sessions = sorted({one for key in differing for one in (table.get(key), shown.get(key)) if one})
        what = f"{len(differing)} chats differ between gateway_routing and sessions.json"
        yield finding("mirror_differs", what, *sessions, evidence=FindingEvidence(rows))


def _lost(records: Records, mirror: Sequence[RoutingEntry] | None) -> Iterator[HermesFinding]:
    """A chat whose newest session is live, but which no scope routes: another store wrote over the entry."""
    routed = {entry.key for entry in records.routing}
    if not routed:
        return
    newest: dict[str, ExaminedSession] = {}
    for session in records.sessions.values():
        key = session.session_key
        if key and (key not in newest or session.started_at >= newest[key].started_at):
            newest[key] = session
    in_mirror = {entry.key for entry in mirror or ()}
    for key, session in sorted(newest.items()):
        if session.is_live and key not in routed:
            certainty = Certainty.LIKELY if key in in_mirror else Certainty.SUSPECTED
            what = f"{key} has the live session {session.id} and no entry in gateway_routing"
            rows = (describe(session), *(f"sessions.json {key}: still there" for _ in [0] if key in in_mirror))
            yield finding("routing_lost", what, session.id, certainty=certainty, evidence=FindingEvidence(rows))


def check_finalisation(records: Records, story: LogStory) -> Iterator[HermesFinding]:
    logged: dict[str, list[str]] = {}
    for session, record in story.finalised:
        logged.setdefault(session, []).append(str(record))
    for session, lines in logged.items():
        if len(lines) > 1:
            what = f"{session} was finalised {len(lines)} times"
            yield finding("finalised_twice", what, session, evidence=FindingEvidence(lines=tuple(lines)))
    if records.schema < ROUTING_TABLE_SINCE:
        return
    for one in records.sessions.values():
        if one.end_reason in EXPIRED and not one.is_finalised and one.id not in logged and records.said_in(one.id):
            what = f"{one.id} expired ({one.end_reason}) and is not marked as finalised"
            shown = FindingEvidence((describe(one),))
            yield finding("not_finalised", what, one.id, certainty=Certainty.LIKELY, evidence=shown)
