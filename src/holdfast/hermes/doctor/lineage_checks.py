"""Checks of the lineage: how sessions continue each other."""

from collections.abc import Iterator

from holdfast.hermes.doctor.carry import block_in_child, is_cut_short, uncovered
from holdfast.hermes.doctor.finding import Certainty, FindingEvidence, HermesFinding, Severity, finding
from holdfast.hermes.doctor.log_runs import LogStory
from holdfast.hermes.doctor.records import ExaminedSession, Records
from holdfast.hermes.doctor.repetition import once
from holdfast.hermes.doctor.schema import IN_PLACE_FROM

RETIRED = "orphaned_compression"  # the reason with which Hermes itself ends a continuation that leads nowhere
CHAT_SINCE = 17


def check_lineage(records: Records, story: LogStory, *, is_running: bool = False) -> Iterator[HermesFinding]:
    yield from _cycles(records)
    yield from _missing_parents(records)
    yield from _orphans(records)
    for session in records.sessions.values():
        if session.is_rotated:
            yield from _continuations(records, story, session, is_running=is_running)
    if records.schema >= CHAT_SINCE:
        yield from _missing_origins(records)


def tip(records: Records, session: str) -> str:
    """The newest session of the conversation: a rotated session leads to its best continuation."""
    seen: set[str] = set()
    while session not in seen:
        seen.add(session)
        found = [one for one in records.continuations(session) if one.end_reason != RETIRED]
        if not found:
            return session
        session = max(found, key=lambda one: rank(records, one)).id
    return session


def rank(records: Records, session: ExaminedSession) -> tuple[int, float, float]:
    """Which of several continuations goes on: one that rotated again, then a live one, then the newest words."""
    newest = max((row.at for row in records.said_in(session.id)), default=session.started_at)
    return 2 if session.is_rotated else 1 if session.is_live else 0, newest, session.started_at


def describe(session: ExaminedSession) -> str:
    ended = f", ended by {session.end_reason}" if session.end_reason else ", live"
    parent = f", parent {session.parent}" if session.parent else ""
    return f"sessions {session.id}: {session.source}{parent}{ended}"


def _cycles(records: Records) -> Iterator[HermesFinding]:
    done: set[str] = set()
    for start in records.sessions:
        path: list[str] = []
        at: str | None = start
        while at is not None and at in records.sessions and at not in done and at not in path:
            path.append(at)
            at = records.sessions[at].parent
        if at is not None and at in path:
            cycle = path[path.index(at) :]
            rows = tuple(describe(records.sessions[one]) for one in cycle)
            yield finding("lineage_cycle", " -> ".join([*cycle, at]), *cycle, evidence=FindingEvidence(rows))
        done.update(path)


def _missing_parents(records: Records) -> Iterator[HermesFinding]:
    for one in records.sessions.values():
        if one.parent and one.parent not in records.sessions:
            what = f"{one.id} names the parent {one.parent}, which has no row"
            yield finding("parent_missing", what, one.id, evidence=FindingEvidence((describe(one),)))


def _orphans(records: Records) -> Iterator[HermesFinding]:
    for session in sorted(records.of_session.keys() - records.sessions.keys()):
        rows = records.said_in(session)
        what = f"{len(rows)} messages belong to {session}, which has no row"
        yield finding("orphan_messages", what, session, evidence=FindingEvidence(tuple(map(str, rows[:5]))))


def _continuations(
    records: Records, story: LogStory, parent: ExaminedSession, *, is_running: bool
) -> Iterator[HermesFinding]:
    all_children = records.continuations(parent.id)
    children = [one for one in all_children if one.end_reason != RETIRED]
    if not children:
        what = f"{parent.id} was ended by a compression, and no session continues it"
        yield finding("ended_without_child", what, parent.id, evidence=FindingEvidence((describe(parent),)))
        return
    unfinished = [one for one in children if _unfinished(records, parent, one)]
    filled = [one for one in children if records.said_in(one.id) and one not in unfinished]
    for child in unfinished:
        # Before 0.18 the rows of a continuation are written one by one at the end of the turn.
        count = len(records.said_in(child.id))
        has = f"only {count} messages of the compressed history" if count else "no messages"
        pair = (describe(parent), describe(child), *map(str, records.said_in(child.id)))
        yield finding(
            "incomplete_continuation" if count else "empty_continuation",
            f"{child.id} continues {parent.id} and has {has}",
            parent.id,
            child.id,
            certainty=Certainty.SUSPECTED if is_running else Certainty.CERTAIN,
            severity=Severity.INFO if is_running else Severity.ERROR,
            evidence=FindingEvidence(pair),
        )
    alive = [one for one in filled if _leads_to_live(records, one)]
    if len(alive) > 1:
        ids = [one.id for one in alive]
        rows = tuple(describe(one) for one in (parent, *alive))
        what = f"{parent.id} is continued by {' and by '.join(ids)}"
        yield finding("forked_lineage", what, parent.id, *ids, evidence=FindingEvidence(rows))
    elif len(filled) == 1:
        yield from _left_behind(records, story, parent, filled[0])


def _unfinished(records: Records, parent: ExaminedSession, child: ExaminedSession) -> bool:
    """Whether Hermes was stopped before it had written the compressed history to the continuation."""
    if not child.is_live or records.continuations(child.id):
        return False
    rows = records.said_in(child.id)
    return not rows or (records.schema < IN_PLACE_FROM and is_cut_short(rows, records.said_in(parent.id)))


def _leads_to_live(records: Records, session: ExaminedSession) -> bool:
    return session.is_live or (session.is_rotated and records.sessions[tip(records, session.id)].is_live)


def _left_behind(
    records: Records, story: LogStory, parent: ExaminedSession, child: ExaminedSession
) -> Iterator[HermesFinding]:
    rows = once(records.said_in(parent.id))
    block = block_in_child(records.said_in(child.id), rows)
    if block is None:
        return
    in_child = {(row.role, row.text) for row in records.said_in(child.id)}
    left = [row for row in uncovered(rows, block) if (row.role, row.text) not in in_child and row.is_active]
    if not any(row.role == "user" for row in left):
        return
    turns = [turn for run in story.runs if run.session == parent.id for turn in story.during(run)]
    yield finding(
        "turn_left_in_parent",
        f"{len(left)} messages of {parent.id} were said while it was compressed, and are not in {child.id}",
        parent.id,
        child.id,
        certainty=Certainty.CERTAIN if turns else Certainty.LIKELY,
        evidence=FindingEvidence(tuple(map(str, left)), tuple(str(turn.record) for turn in turns)),
    )


def _missing_origins(records: Records) -> Iterator[HermesFinding]:
    """Only live continuations count: Hermes names the chat after the turn, so a session in between may lack it."""
    for one in records.sessions.values():
        origin = named_ancestor(records, one)
        if origin is not None and one.is_live and not one.session_key:
            what = f"{one.id} continues {origin.id} and does not name its chat {origin.session_key}"
            yield finding("origin_missing", what, one.id, evidence=FindingEvidence((describe(origin), describe(one))))


def named_ancestor(records: Records, session: ExaminedSession) -> ExaminedSession | None:
    """The nearest session that this one continues and that names its chat."""
    seen = {session.id}
    while not session.is_branch and (parent := records.sessions.get(session.parent or "")) is not None:
        if not parent.is_rotated or parent.id in seen:
            return None
        if parent.session_key:
            return parent
        seen.add(parent.id)
        session = parent
    return None
