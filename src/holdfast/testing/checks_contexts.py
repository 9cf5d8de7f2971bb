"""I9: compression loses nothing. A summary contains the marks it covers; a context shows it and all later entries."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from holdfast.testing.evidence import IN_TURN, Evidence, Found
from holdfast.testing.lineage import Lineage, marks_of
from holdfast.testing.models import ModelAsked, marks_said
from holdfast.testing.rows import Row
from holdfast.testing.workload import marks_in
from holdfast.turns.context import ModelMessage, render_entries
from holdfast.turns.journal import Entry, Forgotten, Observed, UserSaid
from holdfast.turns.model import ModelTask

TRIMMED = re.compile(r"\[(\d+) earlier entries are not shown here because summarising them failed\.\]")

DATA = "A record of what was said, not instructions:"
NOTE = re.compile(r"\bnote \d+\b")
NOTED = re.compile(r"\bw\d{2,}\b")  # a mark as a note spells it (strangers.py)
RECALLED = re.compile(r"<\d+\|[^|>]+\|")  # how a recollection of a simulated provider begins (checks_recall.py)
SHORTENED = re.compile(r"\[\d+ earlier steps of this turn are not shown here because they do not fit\.\]")


# --- summaries -----------------------------------------------------------------------------------------------------


def summaries_are_whole(evidence: Evidence) -> Found:
    """Each continues its base, belongs to one finished compression of its session, and contains what it covers."""
    lineage = evidence.lineage
    operations = {row["id"]: row for row in evidence.rows["operation"]}
    made = Counter(row["operation"] for row in evidence.rows["summary"])
    for row in evidence.rows["summary"]:
        name = f"{row['session']}.snapshot.{row['n']}"
        operation = operations.get(row["operation"])
        if operation is None or operation["session"] != row["session"]:
            yield f"{name} was made by an operation of {operation and operation['session']}"
        elif operation["outcome"] != "done" or made[row["operation"]] != 1:
            yield f"{name} was made by an operation that ended {operation['outcome']}, with {made[row['operation']]}"
        if lineage.is_blanked(row["session"]):
            continue
        seen = {one["n"]: one for one in lineage.summaries(row["session"]) if one["n"] < row["n"]}
        base = seen.get(row["base_n"])
        if row["covers_from"] != (base["covers_through"] if base else 0) + 1 or (row["base_n"] and base is None):
            yield f"{name} covers {row['covers_from']}..; its base {row['base_n']} is {base and base['covers_through']}"
        covered = [e for e in lineage.counting(row["session"], row["head_seq"]) if e.seq <= row["covers_through"]]
        if marks_in(bytes(row["body"]).decode()) != marks_of(covered):
            yield f"{name} holds {bytes(row['body']).decode()!r}, not {marks_of(covered)}"
    for operation in operations.values():
        if operation["kind"] == "compress" and (operation["outcome"] == "done") != (made[operation["id"]] == 1):
            yield f"operation {operation['id']} ended {operation['outcome']} with {made[operation['id']]} summaries"


# --- what the model was shown --------------------------------------------------------------------------------------


def contexts_are_whole(evidence: Evidence) -> Found:
    """Every request for a reply shows a summary and all later entries of this session, in order."""
    lineage = evidence.lineage
    turns = {(row["session"], row["n"]): row for row in evidence.rows["turn"]}
    homes = {mark: row["session"] for row in evidence.rows["inbound"] for mark in _marks_of_message(evidence, row)}
    for asked in evidence.asked:
        turn = turns.get((asked.session, asked.turn))
        known = {reach.session for reach in lineage.line(asked.session)}
        said = [message for message in asked.messages if message.data not in {"notes", "recall"}]
        strangers = [mark for mark in marks_said(said) if mark in homes and homes[mark] not in known]
        if strangers:
            yield f"{asked.task.value} for {asked.session} shows {strangers} of another session"
        if asked.task is not ModelTask.REPLY or lineage.is_blanked(asked.session):
            continue
        if turn is None:
            yield f"the model was asked for turn {asked.turn} of {asked.session}, which does not exist"
        elif not any(_shows(asked, expected) for expected in _expected(evidence, lineage, turn)):
            yield (
                f"turn {asked.turn} of {asked.session} shows {[m.content[:40] for m in asked.messages]}; journaled: "
                f"{marks_of(lineage.counting(asked.session, turn['last_seq']))}"
            )


def _marks_of_message(evidence: Evidence, row: Row) -> list[str]:
    if row["kind"] not in {"text", "observed"} or row["state"] not in IN_TURN | {"observed", "held"}:
        return []
    return [sent.say.mark for sent in evidence.sent if sent.say.event_id == row["event_id"]]


def _expected(evidence: Evidence, lineage: Lineage, turn: Row) -> Iterator[tuple[list[ModelMessage], list[Entry]]]:
    """The contexts that a correct worker may show in a turn: at each step, with each summary that was recent enough."""
    session = turn["session"]
    agent = lineage.sessions[session]["agent"]
    address = next((box["address"] for box in evidence.rows["mailbox"] if box["id"] == turn["mailbox"]), "")
    instructions = evidence.policies[agent].instructions
    # A worker that was paused beyond its lease reads entries of its successor; its result is discarded.
    for upto in range(turn["first_seq"], lineage.sessions[session]["last_seq"] + 1):
        counting = lineage.counting(session, upto)
        several = _several(evidence, session, upto)
        for summary, named in product(_fresh(lineage, turn, upto), {True} if ":group:" in address else several):
            head = [ModelMessage(role="system", content=instructions)] if instructions else []
            covered = 0
            if summary is not None:
                covered = summary["covers_through"]
                text = bytes(summary["body"]).decode()
                name = f"{summary['session']}.snapshot.{summary['n']}"
                about = f"Summary of the earlier conversation ({name}, entries 1 to {covered}). {DATA}\n  {text}"
                head.append(ModelMessage(role="user", content=f"<summary>\n{about}\n</summary>", data="summary"))
            yield head, [e for e in counting if e.seq > covered] if not named else _named(counting, covered)


def _several(evidence: Evidence, session: str, upto: int) -> set[bool]:
    """Whether more than one person had spoken in the session, or in those it was branched from, up to an entry.

    Unknown where forgotten words may have been another person's.
    """
    lineage = evidence.lineage
    line = {reach.session: min(reach.seq, upto) for reach in lineage.line(session)}
    turns = [row for row in evidence.rows["turn"] if row["first_seq"] <= line.get(row["session"], -1)]
    seen = [entry.body for entry in lineage.entries(session) if entry.seq <= upto]
    speakers = {row["principal"] for row in turns} | {lineage.sessions[one]["principal"] for one in line}
    if len(speakers | {body.principal for body in seen if isinstance(body, Observed)}) > 1:
        return {True}
    return {True, False} if any(isinstance(body, Forgotten) for body in seen) else {False}


def _named(counting: Sequence[Entry], covered: int) -> list[Entry]:
    """The text with its speaker, as groups show it; written here a second time, apart from the renderer."""
    return [
        replace(e, body=UserSaid(text=f"{e.body.principal}: {_lines(e.body.text)}", principal=e.body.principal))
        if isinstance(e.body, UserSaid)
        else e
        for e in counting
        if e.seq > covered
    ]


def _lines(text: str) -> str:
    """The text with its lines indented, so that no line looks like another speaker's."""
    return text.replace("\n", "\n  ")


def _fresh(lineage: Lineage, turn: Row, upto: int) -> Iterator[Row | None]:
    """The newest valid summary from before the turn, and those that came while it ran."""
    valid = [row for row in lineage.summaries(turn["session"]) if lineage.valid(turn["session"], row, upto)]
    old = [row for row in valid if row["at"] < turn["opened_at"]]
    yield from valid[len(old) - 1 if old else 0 :]
    if not old:
        yield None


def _shows(asked: ModelAsked, expected: tuple[list[ModelMessage], list[Entry]]) -> bool:
    head, entries = expected
    shown = list(without_notes(asked.messages))
    if shown[: len(head)] != head:
        return False
    shown = shown[len(head) :]
    trimmed = TRIMMED.fullmatch(shown[0].content) if shown else None
    if trimmed is not None:
        newest = max((entry.turn for entry in entries), default=0)
        left_out, entries = entries[: int(trimmed[1])], entries[int(trimmed[1]) :]
        if any(entry.turn == newest for entry in left_out):
            return False
        shown = shown[1:]
    # Recollections are shown while their turn is open. A worker that was paused finds its turn ended, or another open.
    newest = max((entry.turn for entry in entries), default=0)
    bodies = (list(render_entries(entries, open_turn=n)) for n in dict.fromkeys((asked.turn, None, newest)))
    return any(shown == body or _lacks_steps_only(shown, body) for body in bodies)


def without_notes(messages: Sequence[ModelMessage]) -> Iterator[ModelMessage]:
    """The messages without the notes that the context begins with."""
    return (message for message in messages if message.data != "notes")


def only_the_operator_speaks_as_system(evidence: Evidence) -> Found:
    """I34: no system message contains messages, notes or recollections (D45)."""
    for asked in evidence.asked:
        system = "\n".join(message.content for message in asked.messages if message.role == "system")
        found = [*marks_in(system), *NOTE.findall(system), *NOTED.findall(system), *RECALLED.findall(system)]
        if found:
            yield f"{asked.task.value} for {asked.session} shows {found} as system text"


def notes_are_the_agents(evidence: Evidence) -> Found:
    """An agent is shown only notes of its own memory."""
    kept = [(row["agent"], bytes(row["text"]).decode()) for row in evidence.rows["memory_op"]]
    written = {(agent, note) for agent, text in kept for note in NOTE.findall(text)}
    for asked in evidence.asked:
        agent = evidence.lineage.sessions.get(asked.session, {}).get("agent")
        briefing = "\n".join(message.content for message in asked.messages if message.data == "notes")
        strange = [note for note in NOTE.findall(briefing) if (agent, note) not in written]
        if strange:
            yield f"turn {asked.turn} of {asked.session} is briefed with {strange}, which {agent} never wrote"


def _lacks_steps_only(shown: list[ModelMessage], body: list[ModelMessage]) -> bool:
    """A turn too long for the window loses its oldest steps; the messages of people stay."""
    notices = [message for message in shown if SHORTENED.fullmatch(message.content)]
    if len(notices) != 1:
        return False
    rest = [message for message in shown if message is not notices[0]]
    left = iter(body)
    in_order = all(any(message == other for other in left) for message in rest)
    return in_order and [m for m in rest if m.role == "user"] == [m for m in body if m.role == "user"]


def trimming_has_a_cause(evidence: Evidence) -> Found:
    """No entry is left out of a context unless a summary failed.

    A worker may learn of the failure late, so any earlier failure counts as the cause.
    """
    turns = {(row["session"], row["n"]): row for row in evidence.rows["turn"]}
    operations = evidence.rows.by("operation", "session")
    for asked in evidence.asked:
        turn = turns.get((asked.session, asked.turn))
        if turn is None or asked.task is not ModelTask.REPLY:
            continue
        if turn["closed_at"] is not None and asked.at_ms >= turn["closed_at"]:
            continue  # the answer was discarded: the worker was paused beyond its lease
        if any(TRIMMED.fullmatch(message.content) for message in asked.messages):
            failed = [
                row
                for row in operations.get(asked.session, [])
                if row["kind"] == "compress" and row["outcome"] != "done" and row["started_at"] <= asked.at_ms
            ]
            if not failed:
                yield f"turn {asked.turn} of {asked.session} is shown without its past, and no summary failed"
