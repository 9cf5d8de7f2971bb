"""Checks of the log: compressions that changed the session, stale brackets, rewritten histories, unfinished work."""

from collections.abc import Iterator, Mapping, Sequence

from holdfast.hermes.doctor.finding import Certainty, FindingEvidence, HermesFinding, Severity, finding
from holdfast.hermes.doctor.home_files import SavedTranscript
from holdfast.hermes.doctor.lineage_checks import describe
from holdfast.hermes.doctor.log_runs import LoggedCompression, LogStory
from holdfast.hermes.doctor.message_checks import rewritten, transcript_said
from holdfast.hermes.doctor.records import Records
from holdfast.hermes.routing_index import RoutingEntry


def check_log(
    story: LogStory,
    records: Records | None,
    routing: Sequence[RoutingEntry] = (),
    transcripts: Mapping[str, SavedTranscript] | None = None,
) -> Iterator[HermesFinding]:
    """Without records, only the log is judged: a pasted report has no database."""
    for n, run in enumerate(story.runs):
        if run.changes_session:
            yield _rotation(run, records, routing)
        if run.foreign_bracket:
            what = f"the bracket names {run.foreign_bracket} while {run.session} was compressed"
            yield _of_run("stale_bracket", what, run, run.session, run.foreign_bracket, anomaly="B")
        if run.done is None and not _is_repeated(story, n):
            what = f"the compression of {run.session} has no end in the log"
            yield _of_run("compression_unfinished", what, run, run.session, severity=Severity.INFO)
        if records is not None and rewritten(run, records):
            yield _rewritten(run, records, (transcripts or {}).get(run.session))
        elif records is None and run.done is not None and run.session == run.result:
            what = f"{run.session} went from {run.count} to {run.left} messages under its own id"
            yield _of_run("history_rewritten", what, run, run.session, certainty=Certainty.SUSPECTED)


def _is_repeated(story: LogStory, n: int) -> bool:
    """Whether the same compression began again later: the log shows what became of it there."""
    return any(later.session == story.runs[n].session for later in story.runs[n + 1 :])


def _rotation(run: LoggedCompression, records: Records | None, routing: Sequence[RoutingEntry]) -> HermesFinding:
    what = f"the compression of {run.session} ended in {run.result}"
    ids = (run.session, run.result)
    if records is None:
        return _of_run("rotation_unverified", what, run, *ids, certainty=Certainty.SUSPECTED, anomaly="A")
    old, new = records.sessions.get(run.session), records.sessions.get(run.result)
    rows = tuple(describe(one) for one in (old, new) if one is not None)
    stays = [entry.key for entry in routing if entry.session == run.session]
    if old is not None and old.is_live:
        what += f"; the conversation goes on in {run.session}"
        return _of_run("rotation", what, run, *ids, anomaly="A", rows=rows)
    if new is None:
        what += ", which has no row"
    elif new.parent != run.session:
        what += f", whose parent is {new.parent or 'none'}"
    elif stays and old is not None and old.is_rotated:
        what += f", but {', '.join(stays)} is still routed to {run.session}"
    else:
        return _of_run("rotation", what, run, *ids, anomaly="A", rows=rows)
    return _of_run("rotation_broken", what, run, *ids, anomaly="A", rows=rows)


def _rewritten(run: LoggedCompression, records: Records, transcript: SavedTranscript | None) -> HermesFinding:
    left = {(row.role, row.text) for row in records.said_in(run.session)}
    what = f"the rows of {run.session} were replaced: {run.count} messages became {run.left}"
    files: tuple[str, ...] = ()
    if transcript is not None:
        words = [one for one in transcript_said(transcript) if one not in left]
        what += f"; {transcript.path.name} still holds {len(words)} of those that are gone"
        files = (f"sessions/{transcript.path.name}: {len(transcript.messages)} messages",)
    return _of_run("history_rewritten", what, run, run.session, severity=Severity.INFO, files=files)


def _of_run(
    code: str,
    what: str,
    run: LoggedCompression,
    *sessions: str,
    certainty: Certainty = Certainty.CERTAIN,
    severity: Severity | None = None,
    anomaly: str = "",
    rows: tuple[str, ...] = (),
    files: tuple[str, ...] = (),
) -> HermesFinding:
    ends = run.done.shown_at if run.done is not None else ""
    return finding(
        code,
        what,
        *sessions,
        certainty=certainty,
        severity=severity,
        evidence=FindingEvidence(rows, tuple(map(str, run.records)), files),
        begins=run.started.shown_at,
        ends=ends,
        anomaly=anomaly,
    )
