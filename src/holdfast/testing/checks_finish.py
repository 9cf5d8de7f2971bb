"""I8: finalising an epoch changes memory once, after the last turn; a reopened epoch changes nothing.

The simulated model never returns the same note twice, so a note in memory identifies the answer it came from.
"""

from itertools import pairwise

from holdfast.audit.action import Act
from holdfast.sessions.extraction import Proposals, parse_answer
from holdfast.testing.evidence import Evidence, Found
from holdfast.testing.rows import Row
from holdfast.turns.model import ModelTask

EXTRACTED = frozenset({"closed"})


def epochs_end_once(evidence: Evidence) -> Found:
    """Memory contains the answer that the ledger has for each finalisation, and nothing for one without an answer."""
    written = evidence.rows.by("memory_op", "origin")
    batches = evidence.rows.by("memory_batch", "origin")
    known = {row["id"] for row in evidence.rows["finalisation"]}
    for row in evidence.rows["finalisation"]:
        notes = sorted(bytes(op["text"]).decode() for op in written.get(row["id"], []))
        if notes != (_notes(row) if row["step"] in EXTRACTED else []):
            yield f"{row['id']} ({row['step']}) wrote {notes}; its answer has {_notes(row)}"
        if len(batches.get(row["id"], [])) > 1:
            yield f"{row['id']} was applied {len(batches[row['id']])} times"
    deleted = {row["id"] for row in evidence.rows["session"] if row["state"] == "deleted"}  # with their rows
    for origin in batches:
        if origin.startswith("finish:") and origin not in known and origin.split(":")[1] not in deleted:
            yield f"{origin} wrote to memory and is no end of an epoch"


def _notes(row: Row) -> list[str]:
    answer = parse_answer(bytes(row["answer"] or b"").decode()) if row["answer"] else None
    return sorted(change.text for change in answer.changes) if isinstance(answer, Proposals) else []


def epochs_follow_each_other(evidence: Evidence) -> Found:
    """The frozen ranges of ended epochs do not overlap, lie within the journal, and belong to ended epochs."""
    for session, ends in evidence.rows.by("finalisation", "session").items():
        row = evidence.lineage.sessions.get(session)
        kept = sorted((end for end in ends if end["step"] != "cancelled"), key=lambda end: end["epoch"])
        for earlier, later in pairwise(kept):
            if later["from_seq"] != earlier["through_seq"] + 1:
                yield f"{later['id']} begins at {later['from_seq']}; {earlier['id']} ends at {earlier['through_seq']}"
        for end in ends:
            if row is not None and (end["through_seq"] > row["last_seq"] or end["epoch"] > row["epoch"]):
                yield f"{end['id']} ends at {end['through_seq']}, behind its session"
        is_closed = row is not None and row["state"] == "closed"
        if is_closed and row is not None and row["epoch"] not in {end["epoch"] for end in ends}:
            yield f"{session} is closed and epoch {row['epoch']} has no end"


def models_are_asked_once(evidence: Evidence) -> Found:
    """Each request for an extraction had its own claim: a stored answer is never requested again."""
    asked = [one.session for one in evidence.asked if one.task is ModelTask.EXTRACT]
    retried = {row["subject"] for row in evidence.rows["action"] if row["verb"] == Act.FINALISATION_RETRIED.stored}
    for session in dict.fromkeys(asked):
        ends = [row for row in evidence.rows["finalisation"] if row["session"] == session]
        # An operator's retry sets the attempts to zero; the fence has grown with every claim.
        claims = sum(row["fence"] if row["id"] in retried else row["attempts"] for row in ends)
        deleted = evidence.lineage.sessions[session]["state"] == "deleted"
        if asked.count(session) > claims and not deleted:
            yield f"the model was asked {asked.count(session)} times about {session}, which was taken up {claims} times"
