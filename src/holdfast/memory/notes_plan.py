"""Planning a batch of note changes. The store makes the plan durable in one transaction.

Rule 1: each change sees the result of the changes before it; the plan has all of them or none.
Rule 2: an exact duplicate is not added again; it makes no operation and no delivery.
Rule 3: an entry is identified by its version, by its whole text, or by a part that no other entry has.
Rule 4: the capacity applies to the size after the whole batch. A batch that shrinks notes above the limit is accepted
        even if they stay above it.
Rule 5: a batch from stale history only adds, and never restores a text that was removed or replaced (R33).
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TypeAlias

from holdfast.kernel.ids import Instant
from holdfast.memory.notes import (
    AgentNotes,
    MemoryBatch,
    MemoryEntry,
    MemoryOperation,
    MemoryUndo,
    MemoryVerb,
    NotApplied,
    NoteChange,
    Target,
)
from holdfast.memory.notes_safety import reason_to_block
from holdfast.memory.visibility import SHARED, holder_of

CHANGES_MAX = 1_000
Gone: TypeAlias = Collection[tuple[Target, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOperation:
    """One row to write. `kills` is the version that it replaces or removes."""

    seq: int
    position: int
    verb: MemoryVerb
    target: Target
    text: str
    old_text: str
    place: int
    kills: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    seqs: tuple[int, ...]  # one per change, 0 for a text that existed already
    operations: tuple[PlannedOperation, ...]
    memory: AgentNotes  # after the batch


class _ChangeRefused(Exception):
    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


def plan_batch(memory: AgentNotes, batch: MemoryBatch, *, gone: Gone = ()) -> MemoryPlan | NotApplied:
    """The plan of a batch. `gone` are removed or replaced texts; only a batch from stale history needs them."""
    if not batch.changes or len(batch.changes) > CHANGES_MAX:
        return NotApplied("empty", f"a batch has 1 to {CHANGES_MAX} changes, not {len(batch.changes)}", memory)
    after, seqs, operations = memory, [0] * len(batch.changes), list[PlannedOperation]()
    for position, change in enumerate(batch.changes):
        try:
            operation = _decide(after, batch, change, position, gone)
        except _ChangeRefused as refused:
            return NotApplied(refused.code, refused.reason, memory, position)
        if operation is not None:
            after = _follow(after, operation)
            seqs[position] = operation.seq
            operations.append(operation)
    full = _over_capacity(memory, after, batch)
    return full or MemoryPlan(seqs=tuple(seqs), operations=tuple(operations), memory=after)


def normal(text: str) -> str:
    """A text as it is stored: Unix line ends, stripped."""
    return text.replace("\r\n", "\n").strip()


def _decide(
    memory: AgentNotes, batch: MemoryBatch, change: NoteChange, position: int, gone: Gone
) -> PlannedOperation | None:
    if batch.add_only and change.verb is not MemoryVerb.ADD:
        raise _ChangeRefused("stale", "the history has changed since, so this batch may only add notes")
    text = "" if change.verb is MemoryVerb.REMOVE else _checked(change.text)
    twin = next((entry for entry in memory.of(change.target) if entry.text == text), None) if text else None
    made = PlannedOperation(
        seq=memory.head + 1,
        position=position,
        verb=change.verb,
        target=change.target,
        text=text,
        old_text="",
        place=_free_place(memory, change),
        kills=None,
    )
    if change.verb is MemoryVerb.ADD:
        is_back = batch.add_only and (change.target, text) in gone
        if twin is not None and _widens(memory, batch, twin):
            return replace(made, verb=MemoryVerb.REPLACE, old_text=text, place=twin.place, kills=twin.seq)
        return None if twin is not None or is_back else made
    old = _named(memory, change)
    if twin is not None and twin.seq == old.seq:
        return None
    # The new text exists already, so only the removal of the old one remains.
    verb = MemoryVerb.REMOVE if twin is not None else change.verb
    return replace(
        made, verb=verb, text="" if twin is not None else text, old_text=old.text, place=old.place, kills=old.seq
    )


def _widens(memory: AgentNotes, batch: MemoryBatch, twin: MemoryEntry) -> bool:
    """Whether the operator shares a text that an earlier release stored in the shared notes for one person."""
    held = holder_of(memory.subject, twin.by, twin.principal)
    return held != SHARED and holder_of(batch.subject, batch.by, batch.principal) == SHARED


def _checked(text: str) -> str:
    kept = normal(text)
    if not kept:
        raise _ChangeRefused("empty", "the text is empty")
    reason = reason_to_block(kept)
    if reason is not None:
        raise _ChangeRefused("blocked", reason)
    return kept


def entry_named(memory: AgentNotes, change: NoteChange) -> MemoryEntry | NotApplied:
    """The entry that a change identifies."""
    try:
        return _named(memory, change)
    except _ChangeRefused as refused:
        return NotApplied(refused.code, refused.reason, memory)


def _named(memory: AgentNotes, change: NoteChange) -> MemoryEntry:
    entries = memory.of(change.target)
    if change.version is not None:
        found = next((entry for entry in entries if entry.seq == change.version), None)
        if found is None:
            raise _ChangeRefused(
                "stale", f"entry {change.version} of {change.target.value} was changed or removed since"
            )
        return found
    part = normal(change.old)
    if not part:
        raise _ChangeRefused("empty", "name the entry by a unique part of its text, or by its version")
    matches = [entry for entry in entries if entry.text == part] or [e for e in entries if part in e.text]
    if not matches:
        raise _ChangeRefused("no_match", f"no entry of {change.target.value} has this part")
    if len(matches) > 1:
        versions = ", ".join(str(entry.seq) for entry in matches)
        raise _ChangeRefused("ambiguous", f"several entries of {change.target.value} have this part: {versions}")
    return matches[0]


def _free_place(memory: AgentNotes, change: NoteChange) -> int:
    taken = {entry.place for entry in memory.entries}
    wanted = change.place
    return wanted if wanted is not None and 0 < wanted <= memory.head and wanted not in taken else memory.head + 1


def _follow(memory: AgentNotes, operation: PlannedOperation) -> AgentNotes:
    """The memory after one operation."""
    entries = [entry for entry in memory.entries if entry.seq != operation.kills]
    if operation.verb is not MemoryVerb.REMOVE:
        written = MemoryEntry(
            seq=operation.seq,
            target=operation.target,
            text=operation.text,
            at=Instant(0),
            place=operation.place,
        )
        entries.append(written)
    entries.sort(key=lambda entry: entry.place)
    return replace(memory, entries=tuple(entries), head=operation.seq)


def _over_capacity(before: AgentNotes, after: AgentNotes, batch: MemoryBatch) -> NotApplied | None:
    for target in Target:
        used, limit = after.used_chars(target), batch.capacity.of(target)
        if used > limit and used > before.used_chars(target):
            position = max((n for n, change in enumerate(batch.changes) if change.target is target), default=0)
            reason = f"{target.value} would have {used} characters of {limit}; it has {before.used_chars(target)} now"
            return NotApplied("over_capacity", reason, before, position)
    return None


# --- undo ----------------------------------------------------------------------------------------


def undo_origin(seq: int) -> str:
    return f"undo:{seq}"


def undo_batch(undo: MemoryUndo, operation: MemoryOperation) -> MemoryBatch:
    """The batch that reverses an operation. It is stale if the entry was changed again since."""
    match operation.verb:
        case MemoryVerb.ADD:
            change = NoteChange(verb=MemoryVerb.REMOVE, target=operation.target, version=operation.seq)
        case MemoryVerb.REPLACE:
            change = NoteChange(
                verb=MemoryVerb.REPLACE, target=operation.target, version=operation.seq, text=operation.old_text
            )
        case MemoryVerb.REMOVE:
            change = NoteChange(
                verb=MemoryVerb.ADD, target=operation.target, text=operation.old_text, place=operation.place
            )
    return replace(undo, origin=undo_origin(undo.seq), changes=(change,))
