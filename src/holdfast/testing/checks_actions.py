"""I32: every privileged act in the database has exactly one row of the audit trail, and every row has its act; the
trail has no gap and its digests are correct."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping

from holdfast.audit.action import broken_link
from holdfast.audit.action_sql import FIELDS, action_of
from holdfast.testing.evidence import Evidence, Found
from holdfast.testing.rows import Row

DECIDED = frozenset({"approved", "denied"})
VERBS: Mapping[str, str] = {"link": "identity.linked", "unlink": "identity.unlinked", "move": "address.moved"}
COUNTED = frozenset({"approval.decided", "memory.changed", "memory.shared", *VERBS.values()})
ENDINGS = frozenset({"session.deleted", "session.forgotten"})


def acts_are_on_record_once(evidence: Evidence) -> Found:
    trail = Counter((row["verb"], row["subject"]) for row in _done(evidence))
    acts = Counter(_acts(evidence))
    for act in sorted({*acts, *(one for one in trail if one[0] in COUNTED)}):
        if acts[act] != trail[act]:
            yield f"{act[0]} of {act[1]} happened {acts[act]} times and is on record {trail[act]} times"
    for session in evidence.rows["session"]:
        ends = sum(trail[verb, session["id"]] for verb in ENDINGS)
        if session["state"] == "deleted" and not ends:
            yield f"the session {session['id']} was deleted without a row of the audit trail"


def trail_is_whole(evidence: Evidence) -> Found:
    rows = sorted(evidence.rows["action"], key=lambda row: int(row["n"]))
    wrong = broken_link(action_of(tuple(row[name] for name in FIELDS.split(", "))) for row in rows)
    if wrong is not None:
        yield wrong


def _done(evidence: Evidence) -> Iterator[Row]:
    return (row for row in evidence.rows["action"] if row["outcome"] == "done")


def _acts(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Acts that other tables prove, as the trail should name them."""
    for row in evidence.rows["approval"]:
        if row["decision"] in DECIDED:
            yield "approval.decided", row["id"]
    for row in evidence.rows["operation"]:
        if row["kind"] in VERBS and row["outcome"] == "done":
            detail = json.loads(bytes(row["detail"]))
            yield VERBS[row["kind"]], detail["principal"] if "principal" in detail else detail["to"]
    changed = {
        (row["stream"], row["origin"], row["subject"])
        for row in evidence.rows["memory_op"]
        if row["written_by"] == "user" or row["origin"].startswith("undo:")
    }
    for stream, _, subject in changed:
        yield "memory.changed" if subject else "memory.shared", stream
