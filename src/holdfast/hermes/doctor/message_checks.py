"""Checks of messages: turns that a compression lost, rows that are stored twice, numbers that are used twice."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from holdfast.hermes.doctor.carry import Said, blocks_in_place, carried_suffix, repeated_by, uncovered
from holdfast.hermes.doctor.finding import Certainty, FindingEvidence, HermesFinding, Severity, finding
from holdfast.hermes.doctor.home_files import SavedTranscript
from holdfast.hermes.doctor.log_lines import seconds
from holdfast.hermes.doctor.log_runs import LoggedCompression, LogStory
from holdfast.hermes.doctor.records import SPOKEN, ExaminedMessage, ExaminedSession, Records
from holdfast.hermes.doctor.repetition import repeated_rows
from holdfast.hermes.doctor.schema import IN_PLACE_FROM
from holdfast.hermes.doctor.summary_text import is_summary, words_beside_summary

TWICE_WITHIN_S = 120.0
AT_ONCE_S = 5.0  # a person who repeats an unanswered message takes longer
BEFORE_START_S = 86_400.0
WORDS_CHARS_MIN = 20
QUARTER_S = 900.0
OFFSET_S_MAX = 14 * 3600.0
BEGINNING = re.compile(r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)_(?P<hour>\d\d)(?P<minute>\d\d)(?P<second>\d\d)_")


def check_messages(
    records: Records, story: LogStory, transcripts: Mapping[str, SavedTranscript]
) -> Iterator[HermesFinding]:
    for session in records.sessions:
        rows = records.said_in(session)
        if records.schema >= IN_PLACE_FROM:
            yield from _archived(session, rows, story)
        else:
            yield from _deleted(session, rows, story, transcripts.get(session))
        yield from _twice(session, rows)
        yield from _ids(records, session, rows)
    highest = records.messages[-1].id if records.messages else 0
    if records.messages and records.sequence < highest:
        what = f"the counter of messages is {records.sequence}, and the highest number is {highest}"
        rows_seen = (f"sqlite_sequence messages: {records.sequence}", str(records.messages[-1]))
        yield finding("message_ids_reused", what, evidence=FindingEvidence(rows_seen))


def _archived(session: str, rows: Sequence[ExaminedMessage], story: LogStory) -> Iterator[HermesFinding]:
    turns = [turn for run in story.runs if run.session == session for turn in story.during(run)]
    for block in blocks_in_place(rows):
        written = {(row.role, row.text) for row in rows[block.first :]}
        lost = [row for row in uncovered(rows[: block.first], block) if (row.role, row.text) not in written]
        lost = [row for row in lost if row.is_archived]
        if not any(row.role == "user" for row in lost):
            continue
        yield finding(
            "turn_archived_uncovered",
            f"{len(lost)} messages of {session} were said while it was compressed; no summary covers them",
            session,
            certainty=Certainty.CERTAIN if turns else Certainty.LIKELY,
            evidence=FindingEvidence(tuple(map(str, lost)), tuple(str(turn.record) for turn in turns)),
        )


def transcript_said(transcript: SavedTranscript) -> list[Said]:
    """The words of a transcript, without summaries and tool results."""
    found = ((str(one.get("role")), str(one.get("content") or "").strip()) for one in transcript.messages)
    return [(role, text) for role, text in found if role in SPOKEN and text and not is_summary(text)]


def _deleted(
    session: str, rows: Sequence[ExaminedMessage], story: LogStory, transcript: SavedTranscript | None
) -> Iterator[HermesFinding]:
    """A turn that was answered during a compression that replaced all rows (before 0.18)."""
    # A later compression of the session may have covered what an earlier one lost: only the last one proves a loss.
    runs = [run for run in story.runs if run.session == session == run.result][-1:]
    is_continuation = any(run.changes_session and run.result == session for run in story.runs) and not runs
    missing = lost_in_transcript(rows, transcript) if transcript is not None and not is_continuation else []
    turns = [(run, turn) for run in runs for turn in story.during(run)]
    unseen = [
        (run, turn) for run, turn in turns if not any(row.text.startswith(shown_words(turn.message)) for row in rows)
    ]
    if not unseen and not any(role == "user" for role, _ in missing):
        return
    if missing and not unseen and turns:
        return  # the log accounts for every turn: what is missing was taken back by the user
    files = (f"{transcript.path.name} holds {len(missing)} of them",) if transcript is not None and missing else ()
    words = tuple(f"{role}: {text[:60]!r}" for role, text in missing)
    lines = tuple(str(one) for run, turn in unseen for one in (run.started, turn.record, run.done) if one)
    yield finding(
        "turn_lost",
        f"{max(len(unseen), sum(role == 'user' for role, _ in missing))} turns of {session} were answered while it was "
        "compressed, and have no rows",
        session,
        certainty=Certainty.CERTAIN if unseen else Certainty.SUSPECTED,
        evidence=FindingEvidence(words, lines, files),
        is_repairable=bool(missing),
    )


def lost_in_transcript(rows: Sequence[ExaminedMessage], transcript: SavedTranscript) -> list[Said]:
    """The words at the end of a transcript that a compression neither carried nor knew."""
    at = next((n for n, row in enumerate(rows) if row.is_summary), None)
    if at is None:
        return []
    merged = words_beside_summary(rows[at].text)
    copies = ([(rows[at].role, merged)] if merged else []) + [(r.role, r.text) for r in rows[at + 1 :] if r.is_spoken]
    originals = transcript_said(transcript)
    length, known = carried_suffix(originals, copies)
    behind = originals[known:] if length else []
    present = repeated_by(behind, [(row.role, row.text) for row in rows])
    return [one for n, one in enumerate(behind) if n not in present]


def shown_words(message: str) -> str:
    """The beginning of a message as the log shows it: shortened, and with line breaks escaped."""
    return message.removesuffix("...").split("\\n", maxsplit=1)[0].strip()


def rewritten(run: LoggedCompression, records: Records) -> bool:
    """Whether the compression replaced the rows of its session: before 0.18, when both ends name the same session.

    Rows from before its beginning prove the contrary: an agent without database, such as a review, compressed its copy.
    """
    if run.done is None or run.session != run.result or records.schema >= IN_PLACE_FROM:
        return False
    session = records.sessions.get(run.session)
    if session is None or not any(row.is_summary for row in records.said_in(run.session)):
        return False
    offset_s = local_offset_s(session)
    return not any(row.at + offset_s < run.started.at for row in records.said_in(run.session))


def local_offset_s(session: ExaminedSession) -> float:
    """How far the local time of the home is ahead of UTC: the id of a session is its beginning in local time."""
    found = BEGINNING.match(session.id)
    if found is None:
        return 0.0
    date, time = "-".join(found.group("year", "month", "day")), ":".join(found.group("hour", "minute", "second"))
    local = seconds(date, time)
    ahead = round((local - session.started_at) / QUARTER_S) * QUARTER_S if local is not None else 0.0
    return ahead if abs(ahead) <= OFFSET_S_MAX else 0.0


def _twice(session: str, rows: Sequence[ExaminedMessage]) -> Iterator[HermesFinding]:
    repeated = repeated_rows(rows)
    if repeated:
        what = f"{len(repeated)} rows of {session} repeat earlier rows with the same times"
        yield finding("rows_reinserted", what, session, evidence=FindingEvidence(tuple(map(str, repeated[:10]))))
    hidden = {row.id for row in repeated}
    users = [row for row in rows if row.role == "user" and row.is_active and row.is_spoken and row.id not in hidden]
    position = {row.id: n for n, row in enumerate(rows)}
    for first, second in pairwise(users):
        if first.text != second.text or abs(second.at - first.at) > TWICE_WITHIN_S or _is_carried(rows, second):
            continue
        between = rows[position[first.id] + 1 : position[second.id]]
        is_answered = any(row.role == "assistant" for row in between)
        same_id = first.platform_id is not None and first.platform_id == second.platform_id
        differs = None not in (first.platform_id, second.platform_id) and not same_id
        if differs:
            continue
        if is_answered and not same_id and len(first.text) < WORDS_CHARS_MIN:
            continue  # people repeat short words
        is_at_once = second.at - first.at <= AT_ONCE_S and not is_answered
        certainty = Certainty.CERTAIN if same_id else Certainty.LIKELY if is_at_once else Certainty.SUSPECTED
        what = f"{session} has the message {first.id} again as {second.id}"
        yield finding(
            "inbound_twice",
            what,
            session,
            certainty=certainty,
            severity=Severity.INFO if certainty is Certainty.SUSPECTED else Severity.WARNING,
            evidence=FindingEvidence((str(first), str(second))),
        )


def _is_carried(rows: Sequence[ExaminedMessage], row: ExaminedMessage) -> bool:
    return any(one.is_summary for one in rows if one.id <= row.id) and any(
        one.id < row.id and one.at == row.at and one.text == row.text for one in rows
    )


def _ids(records: Records, session: str, rows: Sequence[ExaminedMessage]) -> Iterator[HermesFinding]:
    platform: dict[str, ExaminedMessage] = {}
    calls: dict[str, ExaminedMessage] = {}
    for row in rows:
        if not row.is_active:
            continue
        first = platform.setdefault(row.platform_id, row) if row.platform_id and row.role == "user" else row
        if first.text != row.text:
            what = f"{session} has two messages with the platform's id {row.platform_id}"
            pair = FindingEvidence((str(first), str(row)))
            yield finding("platform_id_reused", what, session, certainty=Certainty.SUSPECTED, evidence=pair)
        first = calls.setdefault(row.call, row) if row.call and row.role == "tool" else row
        if first is not row and first.text != row.text:
            what = f"{session} has two results of the tool call {row.call}"
            yield finding("tool_call_reused", what, session, evidence=FindingEvidence((str(first), str(row))))
    began = records.sessions[session].started_at
    old = [row for row in rows if row.at and row.at < began - BEFORE_START_S]
    if old and records.sessions[session].parent is None and not any(row.is_summary for row in rows):
        what = f"{session} has {len(old)} messages from more than a day before its beginning"
        shown = FindingEvidence(tuple(map(str, old[:3])))
        yield finding("session_id_reused", what, session, certainty=Certainty.SUSPECTED, evidence=shown)
