"""Storing notes: batches become operations under the lock of their stream, each origin once.

The origin is looked up after the lock is held: the locking statement itself would see the state before the wait.
"""

from collections.abc import Sequence
from dataclasses import replace

from holdfast.audit import action_sql
from holdfast.audit.action import PROGRAM, Act, By
from holdfast.inbox.address import agent_name, check_part
from holdfast.inbox.identity_sql import linked_principals, withdraw
from holdfast.kernel.ids import AgentName, Principal
from holdfast.memory.cursor_sql import schedule_notes
from holdfast.memory.delivery import MemoryNote
from holdfast.memory.notes import (
    AgentNotes,
    Applied,
    MemoryBatch,
    MemoryEntry,
    MemoryOperation,
    MemoryOutcome,
    MemoryUndo,
    MemoryVerb,
    NotApplied,
    Target,
    stream_of,
)
from holdfast.memory.notes_plan import Gone, MemoryPlan, PlannedOperation, plan_batch, undo_batch, undo_origin
from holdfast.memory.visibility import SHARED, Audience, ShownNotes, holder_of, shown_notes
from holdfast.store.agent_lock_sql import hold_agents, share_agent
from holdfast.store.script import Columns, Params, Row, Script, many, one, rows, run, utf8, verb
from holdfast.turns.journal_sql import NO_LIMIT

NEW_STREAM = """
insert into memory (stream, agent, subject, head) values (:stream, :agent, :subject, 0)
on conflict (stream) do nothing"""
HOLD = "select head from memory where stream = :stream /*lock*/"
# Forgetting a person voids the claims of turns that hold their words; such a turn must not write notes.
CLAIMED = "select fence from mailbox where session_id = :session and fence = :fence /*lock*/"
HEAD = "select head from memory where stream = :stream"
KNOWN = "select seqs from memory_batch where stream = :stream and origin = :origin"
ENTRY = Columns(MemoryEntry, text=("text", utf8), by="written_by")
LIVE = f"""
select {ENTRY} from memory_op
 where stream = :stream and live = 1 order by place"""
# The last writer of the text that a change removed or replaced.
WRITER = """
select written_by, principal from memory_op
 where stream = :stream and seq < :seq and target = :target and text = :text order by seq desc limit 1"""
GONE = "select distinct target, old_text from memory_op where stream = :stream and op <> 'add'"
KILL = "update memory_op set live = 0 where stream = :stream and seq = :seq"
WRITE = """
insert into memory_op (stream, seq, agent, subject, target, op, place, text, old_text, origin, position, written_by,
                       principal, live, at)
values (:stream, :seq, :agent, :subject, :target, :op, :place, :text, :old_text, :origin, :position, :by,
        :principal, :live, :now)"""
ADVANCE = "update memory set head = :head where stream = :stream"
REMEMBER = "insert into memory_batch (stream, origin, seqs, at) values (:stream, :origin, :seqs, :now)"
CHANGE = Columns(MemoryOperation, verb="op", text=("text", utf8), old_text=("old_text", utf8), by="written_by")
HISTORY = f"select {CHANGE} from memory_op where stream = :stream and seq > :after order by seq limit :limit"
OPERATION = f"select {CHANGE} from memory_op where stream = :stream and seq = :seq"
NOTE = Columns(MemoryNote, without=("holder", "old_holder"), text=("text", utf8), old_text=("old_text", utf8))
NOTES = f"""
select written_by, principal, {NOTE} from memory_op
 where stream = :stream and seq >= :first and seq <= :last order by seq"""
SUBJECTS = """
select subject from memory
 where agent = :agent and head > 0 and subject > :after order by subject limit :limit"""
OPERATORS = frozenset({"user", "import"})  # writers whose changes are audited
SUBJECTS_FIRST = "select subject from memory where agent = :agent and head > 0 order by subject limit :limit"
ALL_SUBJECTS = """
select agent, subject from memory
 where head > 0 and (agent, subject) > (:agent, :subject) order by agent, subject limit :limit"""


@verb
def apply_memory(batch: MemoryBatch, by: By = PROGRAM) -> Script[MemoryOutcome]:
    """Apply the whole batch or none of it. A repeated origin gets the first result."""
    check_part("origin", batch.origin)
    check_part("writer", batch.by)
    if batch.principal:
        check_part("principal", batch.principal)
    stream = _stream(batch.agent, batch.subject)
    if batch.withdraws:
        yield from hold_agents([batch.agent])
    taken_away = batch.fence > 0 and (yield from one(CLAIMED, session=batch.session, fence=batch.fence)) is None
    head = yield from hold_stream(stream, batch.agent, batch.subject)
    known = yield from _known(stream, batch.origin)
    if known is not None:
        return known
    if taken_away:
        memory = yield from _memory(stream, batch.agent, batch.subject, head)
        return NotApplied("stale", "the turn lost its claim; it is resumed with the current notes", memory)
    if batch.withdraws:
        yield from withdraw(batch.agent)
    outcome = yield from _apply(stream, head, batch)
    if isinstance(outcome, Applied) and batch.by in OPERATORS:
        yield from _record(batch.agent, batch.subject, by, outcome)
    return outcome


@verb
def undo_memory(undo: MemoryUndo, by: By = PROGRAM) -> Script[MemoryOutcome]:
    """Reverse one operation, once; `stale` if its entry was changed again since."""
    stream = _stream(undo.agent, undo.subject)
    head = yield from hold_stream(stream, undo.agent, undo.subject)
    known = yield from _known(stream, undo_origin(undo.seq))
    if known is not None:
        return known
    undone = yield from CHANGE.one(OPERATION, stream=stream, seq=undo.seq)
    if undone is None:
        memory = yield from _memory(stream, undo.agent, undo.subject, head)
        return NotApplied("no_match", f"there is no operation {undo.seq}; the newest is {head}", memory)
    reverse = undo_batch(undo, undone)
    # A restored text keeps its first writer: an operator who undoes a removal does not share the note.
    writer = yield from _writer(stream, undone.seq, undone.target.value, undone.old_text)
    if writer is not None:
        reverse = replace(reverse, by=writer[0], principal=Principal(writer[1]))
    outcome = yield from _apply(stream, head, reverse)
    if isinstance(outcome, Applied) and undo.by in OPERATORS:
        yield from _record(undo.agent, undo.subject, by, outcome)
    return outcome


def _record(agent: AgentName, subject: str, by: By, applied: Applied) -> Script[None]:
    """Audit the changes that produced an operation."""
    changed = [seq for seq in applied.seqs if seq]
    if changed:
        act = Act.MEMORY_SHARED if subject == SHARED else Act.MEMORY_CHANGED
        yield from action_sql.record(act, by, stream_of(agent, subject), operations=changed)


def _writer(stream: str, seq: int, target: str, old_text: str) -> Script[Row | None]:
    """The writer and the principal of the text before an operation; None without such a text."""
    if not old_text:
        return None
    return (yield from one(WRITER, stream=stream, seq=seq, target=target, text=old_text.encode()))


def hold_stream(stream: str, agent: AgentName, subject: str) -> Script[int]:
    """Lock the stream, creating it if necessary; its head."""
    row = yield from one(HOLD, stream=stream)
    if row is None:
        yield from share_agent(agent)
        yield from run(NEW_STREAM, stream=stream, agent=agent, subject=subject)
        row = yield from one(HOLD, stream=stream)
    return int(row[0]) if row else 0


def _known(stream: str, origin: str) -> Script[Applied | None]:
    row = yield from one(KNOWN, stream=stream, origin=origin)
    return None if row is None else Applied(tuple(int(seq) for seq in row[0].split(",")), repeated=True)


def _apply(stream: str, head: int, batch: MemoryBatch) -> Script[MemoryOutcome]:
    memory = yield from _memory(stream, batch.agent, batch.subject, head)
    gone = (yield from _gone(stream)) if batch.add_only else frozenset()
    plan = plan_batch(memory, batch, gone=gone)
    if isinstance(plan, NotApplied):
        return plan
    yield from _write(stream, batch, plan)
    yield from schedule_notes(
        stream,
        batch.agent,
        batch.subject,
        batch.policies,
        first_seq=head + 1,
        last_seq=plan.memory.head,
        principal=batch.principal,
    )
    return Applied(plan.seqs)


def _write(stream: str, batch: MemoryBatch, plan: MemoryPlan) -> Script[None]:
    """Old entries are marked before new ones are written, so that no two live entries share a place."""
    live = {entry.seq for entry in plan.memory.entries}
    killed = [operation.kills for operation in plan.operations if operation.kills is not None]
    yield from many(KILL, [{"stream": stream, "seq": seq} for seq in killed])
    yield from many(WRITE, [_row(stream, batch, operation, live) for operation in plan.operations])
    if plan.operations:
        yield from run(ADVANCE, stream=stream, head=plan.memory.head)
    yield from run(REMEMBER, stream=stream, origin=batch.origin, seqs=",".join(map(str, plan.seqs)))


def _row(stream: str, batch: MemoryBatch, operation: PlannedOperation, live: set[int]) -> Params:
    return {
        "stream": stream,
        "seq": operation.seq,
        "agent": batch.agent,
        "subject": batch.subject,
        "target": operation.target.value,
        "op": operation.verb.value,
        "place": operation.place,
        "text": operation.text.encode(),
        "old_text": operation.old_text.encode(),
        "origin": batch.origin,
        "position": operation.position,
        "by": batch.by,
        "principal": batch.principal,
        "live": int(operation.seq in live),
    }


# --- reading -------------------------------------------------------------------------------------------


@verb
def read_memory(agent: AgentName, subject: str = "") -> Script[AgentNotes]:
    stream = _stream(agent, subject)
    row = yield from one(HEAD, stream=stream)
    return (yield from _memory(stream, agent, subject, int(row[0]) if row else 0))


@verb
def list_memory_subjects(agent: AgentName, *, after: str | None = None, limit: int = 1_000) -> Script[Sequence[str]]:
    """All subjects of an agent's notes, the agent itself as ''. `after` is the last subject of the previous page."""
    if after is None:
        found = yield from rows(SUBJECTS_FIRST, agent=agent, limit=limit)
    else:
        found = yield from rows(SUBJECTS, agent=agent, after=after, limit=limit)
    return [subject for (subject,) in found]


@verb
def list_all_subjects(*, after: tuple[AgentName, str], limit: int = 1_000) -> Script[list[tuple[AgentName, str]]]:
    """A page of the subjects of all agents' notes, after the last one of the previous page."""
    found = yield from rows(ALL_SUBJECTS, agent=after[0], subject=after[1], limit=limit)
    return [(AgentName(agent), subject) for agent, subject in found]


@verb
def list_memory_operations(
    agent: AgentName, subject: str = "", *, after: int = 0, limit: int = 200
) -> Script[Sequence[MemoryOperation]]:
    """The operations after number `after`, oldest first."""
    return (yield from CHANGE.rows(HISTORY, stream=_stream(agent, subject), after=after, limit=limit))


@verb
def read_shown_notes(audience: Audience) -> Script[ShownNotes]:
    """The notes that the audience may see, with the current linked accounts of its principal."""
    linked = yield from linked_principals(audience.principal)
    audience = replace(audience, kin=tuple(one for one in linked if one != audience.principal))
    found: dict[str, AgentNotes] = {}
    scopes: list[str] = [*audience.scopes]
    if audience.sees_all:
        scopes += yield from list_memory_subjects(audience.agent, limit=NO_LIMIT)
    for scope in dict.fromkeys(scopes):
        found[scope] = yield from read_memory(audience.agent, scope)
    return shown_notes(audience, found.values())


def memory_notes(stream: str, from_seq: int, through_seq: int) -> Script[list[MemoryNote]]:
    """The operations of a range for providers, each with the scope that may see it."""
    notes: list[MemoryNote] = []
    for by, principal, *row in (yield from rows(NOTES, stream=stream, first=from_seq, last=through_seq)):
        note, writer = NOTE.value(tuple(row)), None
        if note.subject == SHARED and note.op != MemoryVerb.ADD.value:
            writer = yield from _writer(stream, note.seq, note.target, note.old_text)
        old_holder = None if writer is None else _apart(note.subject, *writer)
        notes.append(replace(note, holder=_apart(note.subject, by, principal), old_holder=old_holder))
    return notes


def _apart(subject: str, by: str, principal: str) -> str | None:
    """The owner of a note, if it is not the subject that it is stored under."""
    holder = holder_of(subject, by, principal)
    return None if holder == subject else holder


def notes_held(agent: AgentName, scope: str) -> Script[list[MemoryNote]]:
    """The current notes of a scope, for providers."""
    memory = yield from read_memory(agent, scope)
    return [
        MemoryNote(
            seq=entry.seq,
            target=entry.target.value,
            op=MemoryVerb.ADD.value,
            text=entry.text,
            subject=scope,
            holder=_apart(scope, entry.by, entry.principal),
            at=entry.at,
        )
        for entry in memory.entries
    ]


def _memory(stream: str, agent: AgentName, subject: str, head: int) -> Script[AgentNotes]:
    entries = yield from ENTRY.rows(LIVE, stream=stream)
    return AgentNotes(agent=agent, subject=subject, entries=tuple(entries), head=head)


def _gone(stream: str) -> Script[Gone]:
    found = yield from rows(GONE, stream=stream)
    return frozenset((Target(target), bytes(text).decode()) for target, text in found)


def _stream(agent: AgentName, subject: str) -> str:
    agent_name(agent)
    if subject:
        check_part("subject", subject)
    return stream_of(agent, subject)
