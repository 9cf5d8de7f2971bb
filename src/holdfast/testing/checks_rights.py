"""I35: a session is deleted, switched or undone, a turn stopped and a call decided only by a person who has the right.

The rules are written here a second time, from the platform's knowledge of each message: sender, chat, and whether the
sender is a person. The simulated platforms have private chats and groups with one admin (`workload.ADMINS`).
"""

from collections.abc import Iterator, Mapping

from holdfast.testing.evidence import Evidence, Found
from holdfast.testing.rows import Row, body_of
from holdfast.testing.workload import ADMINS, Say, verb_of
from holdfast.turns.journal import Undone, UserSaid

SWITCHES = frozenset({"new", "resume", "branch", "delete"})
DECIDES = frozenset({"approve", "deny"})
DECIDED = frozenset({"approved", "denied"})


def may_change(say: Say) -> bool:
    """Whether a sender may change the session of a chat for everyone in it."""
    return say.human and (say.chat.type != "group" or say.sender in ADMINS)


def sessions_are_changed_by_those_who_may(evidence: Evidence) -> Found:
    left_in = {row["message"]: row["session"] for row in evidence.rows["reply"]}
    for row, say in _commands(evidence):
        before, after = row["session"], left_in.get(row["message"], row["session"])
        if verb_of(say.text) in SWITCHES and row["kind"] == "command" and before != after and not may_change(say):
            yield f"{say.event_id} ({say.text} of {_who(say)}) changed {before} to {after}"
        if verb_of(say.text) == "delete" and before is not None and after is None and " " not in say.text:
            yield f"{say.event_id} deleted {before} without a word that confirms it"


def turns_are_undone_by_those_who_may(evidence: Evidence) -> Found:
    given = {row["message"]: (row, say) for row, say in _commands(evidence, also_in_turns=True)}
    for entry in evidence.rows["entry"]:
        undo = body_of(entry) if entry["kind"] == "undo" else None
        if not isinstance(undo, Undone) or undo.by not in given:
            continue
        row, say = given[undo.by]
        if may_change(say):
            continue
        picked = [
            one.body.principal
            for one in evidence.lineage.counting(entry["session"], entry["seq"] - 1)
            if undo.first_turn <= one.turn <= undo.last_turn and isinstance(one.body, UserSaid)
        ]
        is_own = _are_linked(evidence) or set(picked) <= {row["principal"]}
        if not say.human or not is_own:
            yield f"{say.event_id} of {_who(say)} took back turns of {sorted(set(picked))} in {entry['session']}"


def turns_are_stopped_by_those_who_may(evidence: Evidence) -> Found:
    stops: dict[str, list[tuple[Row, Say]]] = {}
    for row, say in _commands(evidence):
        if verb_of(say.text) == "stop":
            stops.setdefault(row["mailbox"], []).append((row, say))
    for turn in evidence.rows["turn"]:
        given = stops.get(turn["mailbox"] or "", [])
        if turn["stop_at"] is None or _are_linked(evidence):
            continue
        if not any(may_change(say) or (say.human and row["principal"] == turn["principal"]) for row, say in given):
            yield f"turn {turn['n']} of {turn['session']} was stopped without a permitted /stop"


def calls_are_decided_by_those_who_may(evidence: Evidence) -> Found:
    said: dict[str, list[tuple[Row, Say]]] = {}
    for row, say in _commands(evidence):
        if verb_of(say.text) in DECIDES:
            said.setdefault(say.text.split()[1], []).append((row, say))
    for approval in evidence.rows["approval"]:
        by = approval["decided_by"]
        given = [(row, say) for row, say in said.get(approval["id"], []) if by in {row["principal"], say.sender}]
        if approval["decision"] not in DECIDED or not given or _are_linked(evidence):
            continue
        if not any(may_change(say) or (say.human and approval["principal"] == row["principal"]) for row, say in given):
            yield f"approval {approval['id']} was {approval['decision']} by {by}, who may not"


def _commands(evidence: Evidence, *, also_in_turns: bool = False) -> Iterator[tuple[Row, Say]]:
    says: Mapping[str, Say] = {sent.say.event_id: sent.say for sent in evidence.sent}
    for row in evidence.rows["inbound"]:
        say = says.get(row["event_id"])
        if say is not None and verb_of(say.text) and (row["state"] == "command" or also_in_turns):
            yield row, say


def _who(say: Say) -> str:
    return say.sender if say.human else f"a program as {say.sender}"


def _are_linked(evidence: Evidence) -> bool:
    """Whether accounts were linked in the history: then the owner of a turn is ambiguous here."""
    return evidence.company is not None and bool(evidence.company.identities.changes)
