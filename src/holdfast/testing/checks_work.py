"""The results of a turn, once each: its reply (I15), its cursor work (I11), the effects of its tools (I2, I19)."""

import json
import re
from collections import Counter
from collections.abc import Iterable

from holdfast.inbox.address import parse
from holdfast.testing.evidence import IN_TURN, Evidence, Found
from holdfast.testing.models import DANGEROUS, TOOLS
from holdfast.testing.rows import Row, body_of
from holdfast.turns.call_view import call_digest, is_digest
from holdfast.turns.journal import Undone

NAMED = re.compile(r"/approve (\S+) (\S+)")  # with a digest


def replies_are_single(evidence: Evidence) -> Found:
    """I15: each ended turn, each command and each signal has one reply; a refused message has at most one."""
    # Questions to people and messages to other agents are additional.
    answers = [row for row in evidence.rows["reply"] if not row["id"].startswith("ask_") and not is_agent_message(row)]
    replies = Counter(row["message"] for row in answers)
    of_turn = Counter((row["session"], row["turn"]) for row in answers if row["turn"] is not None)
    for turn in evidence.rows["turn"]:
        expected = 0 if turn["mailbox"] is None else 1
        if of_turn[turn["session"], turn["n"]] != expected:
            yield f"turn {turn['n']} of {turn['session']} has {of_turn[turn['session'], turn['n']]} replies"
    members = evidence.rows.by("inbound", "session", "turn")
    for row in evidence.rows["inbound"]:
        expected = int(row["state"] == "command")
        if row["state"] in IN_TURN:
            last = max(members[row["session"], row["turn"]], key=lambda one: one["seq"])
            expected = int(last["message"] == row["message"])
        if row["state"] == "refused":
            expected = min(replies[row["message"]], 1)
        if replies[row["message"]] != expected:
            yield f"{row['event_id']} ({row['state']}) has {replies[row['message']]} replies"


def is_agent_message(reply: Row) -> bool:
    """Whether a row of the ledger is a message to another agent, not an answer to one."""
    return bool(reply["channel"] == "agent" and parse(reply["address"]).agent != reply["agent"])


def effects_happen_once(evidence: Evidence) -> Found:
    """I2: a tool that is not idempotent runs at most once per call, also after a takeover."""
    for (name, call), times in evidence.effects.items():
        if times > 1 and not TOOLS[name]:
            yield f"{name} took effect {times} times for {call}"


def humans_said_yes(evidence: Evidence) -> Found:
    """I19: a dangerous call runs only after a human approved it, is asked about once, and is decided in the end."""
    approved = {row["call"] for row in evidence.rows["approval"] if row["decision"] == "approved"}
    for (name, call), times in evidence.effects.items():
        if name in DANGEROUS and call not in approved:
            yield f"{name} took effect {times} times for {call}, without an approval"
    for call, times in Counter(row["call"] for row in evidence.rows["approval"]).items():
        if times > 1:
            yield f"people were asked {times} times about {call}"
    for row in evidence.rows["approval"]:
        if row["decided_at"] is None:
            yield f"approval {row['id']} is open although its turn is over"


def what_was_approved_runs(evidence: Evidence) -> Found:
    """I19: a dangerous call runs with exactly the arguments that were asked about. An approval that names the digest of
    another call has no effect."""
    asked = {row["call"]: row for row in evidence.rows["approval"] if row["digest"] is not None}
    for (name, call), arguments in evidence.arguments.items():
        row = asked.get(call) if name in DANGEROUS else None
        if row is not None and call_digest(name, arguments, bytes(row["salt"])) != row["digest"]:
            yield f"{name} took effect for {call} with other arguments than those of approval {row['id']}"
    rows = {row["id"]: row for row in asked.values()}
    senders = {sent.say.event_id: sent.say.sender for sent in evidence.sent}
    for said in evidence.rows["inbound"]:
        named = NAMED.fullmatch(bytes(said["body"]).decode())
        row = rows.get(named[1]) if named else None
        if named is None or row is None or is_digest(named[2], row["digest"]):
            continue
        who = senders.get(said["event_id"], said["principal"])  # the account: links do not apply to decisions
        # A decision takes effect when it is accepted. A later one with another digest changes nothing.
        if (row["decision"], row["decided_by"], row["decided_at"]) == ("approved", who, said["at"]):
            yield f"{who} approved {row['id']} with the digest of another call"


def decisions_stand(evidence: Evidence) -> Found:
    """I29: the decision that an operator was shown stays: the first decision counts."""
    rows = {row["id"]: row for row in evidence.rows["approval"]}
    for view in evidence.company.operators.decided if evidence.company is not None else ():
        kept = rows[view.id]
        told = (view.decision.value if view.decision is not None else None, view.decided_by)
        if (kept["decision"], kept["decided_by"]) != told:
            yield f"approval {view.id} is {kept['decision']} by {kept['decided_by']}; an operator was told {told}"


def recorded_once(evidence: Evidence) -> Found:
    """I2: recorded turns exist once per key, in the order of the calls; those that were to be undone are."""
    turns = evidence.rows.by("turn", "session")
    for session in {turn.session for turn in evidence.recorded}:
        keys = [turn.key for turn in evidence.recorded if turn.session == session and turn.turn is not None]
        kept = [row["key"] for row in turns.get(session, [])]
        if kept != keys:
            yield f"{session} has the turns {kept}; recorded were {keys}"
        undone = {turn.turn for turn in evidence.recorded if turn.session == session and turn.undone}
        if undone_turns(evidence, session) != undone:
            yield f"{session} has undone {undone_turns(evidence, session)}; asked for was {undone}"
    for turn in evidence.recorded:
        yield from turn.wrong


# --- I11 -----------------------------------------------------------------------------------------------------------


def cursor_work_exists(evidence: Evidence) -> Found:
    """I11: each valid closed turn is in one unit, or pending behind its cursor in a batch that is not full."""
    turns = evidence.rows.by("turn", "session")
    live = {row["session_id"] for row in evidence.rows["mailbox"]}
    for session in evidence.rows["session"]:
        closed = [row for row in turns.get(session["id"], []) if row["closed_at"] is not None]
        for policy in evidence.policies[session["agent"]].deliveries:
            key = (policy.provider, session["id"])
            if session["purpose"] != "conversation":
                if key in _cursors(evidence):
                    yield f"{session['id']} is a {session['purpose']} and has a cursor"
            elif closed and session["state"] != "deleted":
                is_left = session["mailbox"] is not None and session["id"] not in live
                yield from _wrong_work(evidence, key, closed, 1 if is_left else policy.every_turns)


def _is_excused(evidence: Evidence, key: tuple[str, str], turn: Row, turns: list[Row]) -> bool:
    return evidence.late is not None and evidence.late.is_excused(key, turn, turns)


def _cursors(evidence: Evidence) -> dict[tuple[str, str], int]:
    return {(row["provider"], row["stream"]): row["scheduled_seq"] for row in evidence.rows["cursor"]}


def _wrong_work(evidence: Evidence, key: tuple[str, str], closed: list[Row], pending_max: int) -> Found:
    scheduled = _cursors(evidence).get(key)
    if scheduled is None:
        yield f"{key} has no cursor and {len(closed)} closed turns"
        return
    undone = undone_turns(evidence, key[1])
    units = [row for row in evidence.rows["delivery"] if (row["provider"], row["stream"]) == key]
    held = _turns_in(row for row in units if row["op"] == "retain" and row["state"] != "dropped")
    retracted = _turns_in(row for row in units if row["op"] != "retain")
    pending = 0
    for turn in closed:
        n, counts = turn["n"], turn["n"] not in undone
        if held[n] > 1 or (held[n] and not counts and not retracted[n]):
            yield f"turn {n} of {key} is in {held[n]} units (undone: {not counts})"
        elif counts and not held[n] and not _is_excused(evidence, key, turn, closed):
            pending += 1
            if turn["first_seq"] <= scheduled:
                yield f"turn {n} of {key} is behind the cursor at {scheduled} and in no unit"
    if pending and pending >= pending_max:
        yield f"{key} has {pending} pending turns; {pending_max} are due"
    by_number = {turn["n"]: turn for turn in closed}
    for unit in units:
        yield from _wrong_unit(unit, by_number)


def _turns_in(units: Iterable[Row]) -> Counter[int]:
    return Counter(n for unit in units for n in range(unit["from_turn"], unit["through_turn"] + 1))


def _wrong_unit(unit: Row, turns: dict[int, Row]) -> Found:
    inside = [turns.get(n) for n in range(unit["from_turn"], unit["through_turn"] + 1)]
    if any(turn is None for turn in inside):
        yield f"{unit['id']} holds turns that do not exist"
        return
    speakers = {
        (turn["principal"], place_of(turn, unit["provider"], unit["place"])) for turn in inside if turn is not None
    }
    if speakers != {(unit["principal"], unit["place"])}:
        yield f"{unit['id']} of {unit['principal']} in {unit['place']} holds turns of {sorted(speakers)}"
    first, last = inside[0], inside[-1]
    covered = (unit["from_seq"], unit["through_seq"])
    if first and last and unit["op"] == "retain" and covered != (first["first_seq"], last["last_seq"]):
        yield f"{unit['id']} covers {unit['from_seq']}..{unit['through_seq']}"


def place_of(turn: Row, provider: str, place: str) -> str:
    """The place of a turn at a provider, as recorded with the turn.

    For a provider that was not configured then nothing is recorded, so any place is correct.
    """
    return str(json.loads(turn["places"] or "{}").get(provider, place))


def undone_turns(evidence: Evidence, session: str) -> set[int]:
    bodies = [body_of(row) for row in evidence.rows["entry"] if row["session"] == session and row["kind"] == "undo"]
    return {n for undo in bodies if isinstance(undo, Undone) for n in range(undo.first_turn, undo.last_turn + 1)}
