"""Turns that were answered and not stored: Hermes was stopped between writing the transcript and writing the rows.

Releases 0.13 and 0.14 write sessions/session_<id>.json first. A turn that the user took back leaves the same files, so
the log decides: it has no end of a turn that was cut off. A log that has no end of any turn only allows a suspicion.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from holdfast.hermes.doctor.carry import Said, said
from holdfast.hermes.doctor.finding import Certainty, FindingEvidence, HermesFinding, Severity, finding
from holdfast.hermes.doctor.home_files import SavedTranscript
from holdfast.hermes.doctor.log_runs import LoggedTurn, LogStory
from holdfast.hermes.doctor.message_checks import shown_words, transcript_said
from holdfast.hermes.doctor.records import ExaminedSession, Records
from holdfast.hermes.doctor.schema import IN_PLACE_FROM


def check_unwritten(
    records: Records, story: LogStory, transcripts: Mapping[str, SavedTranscript]
) -> Iterator[HermesFinding]:
    if records.schema >= IN_PLACE_FROM:
        return
    rewritten = {run.session for run in story.runs if run.session == run.result}  # message_checks.py judges these
    for session in records.sessions.values():
        transcript = transcripts.get(session.id) if session.id not in rewritten else None
        words = unwritten(records, session, transcript) if transcript is not None else []
        ids = {session.id, session.parent or session.id}
        turn = last_turn(story, ids, words[0]) if words else None
        if transcript is None or turn is None or not story.was_cut_off(turn, ids):
            continue
        yield finding(
            "turn_not_stored",
            f"{len(words)} messages of {session.id} are in {transcript.path.name} and have no rows",
            session.id,
            certainty=Certainty.LIKELY if story.ended else Certainty.SUSPECTED,
            severity=Severity.ERROR if story.ended else Severity.INFO,
            evidence=FindingEvidence(
                tuple(f"{role}: {text[:60]!r}" for role, text in words),
                (str(turn.record),),
                (f"sessions/{transcript.path.name}: {len(transcript.messages)} messages",),
            ),
        )


def unwritten(records: Records, session: ExaminedSession, transcript: SavedTranscript) -> Sequence[Said]:
    """The last turn of the transcript, if neither the session nor the one that it continues has any of its words."""
    known = {said(row) for one in (session.id, session.parent or "") for row in records.said_in(one)}
    words = transcript_said(transcript)
    first = len(words)
    while first > 0 and words[first - 1] not in known:
        first -= 1
    turn = words[first:]
    return turn if turn and turn[0][0] == "user" else []


def last_turn(story: LogStory, sessions: Collection[str], words: Said) -> LoggedTurn | None:
    """The last logged turn of the sessions, if the user said these words in it."""
    last = next((turn for turn in reversed(story.turns) if turn.session in sessions), None)
    return last if last is not None and words[1].startswith(shown_words(last.message)) else None
