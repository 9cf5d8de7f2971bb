"""How `holdfast memory` shows notes and changes, to people and as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.cli.output import print_heading, print_table, visible, when
from holdfast.memory.notes import Applied, Memory, MemoryEntry, MemoryOperation, MemoryOutcome, NotApplied, Target
from holdfast.memory.notes_review import mark_of
from holdfast.memory.visibility import holder_of


@dataclass(frozen=True, slots=True)
class ImportedEntry:
    file: str
    entry: int
    state: str  # imported, there already, refused
    reason: str | None = None

    @classmethod
    def of(cls, file: str, n: int, outcome: MemoryOutcome) -> "ImportedEntry":
        if isinstance(outcome, NotApplied):
            return cls(file, n, "refused", f"{outcome.code}: {outcome.reason}")
        fresh = any(outcome.seqs) and not outcome.repeated
        return cls(file, n, "imported" if fresh else "there already")


def memory_view(memory: Memory) -> dict[str, object]:
    return {
        "agent": memory.agent,
        "about": memory.subject,
        "head": memory.head,
        "entries": [_entry_view(memory, entry) for entry in memory.entries],
        "used": {target.value: memory.used_chars(target) for target in Target},
    }


def _entry_view(memory: Memory, entry: MemoryEntry) -> dict[str, object]:
    return {
        "version": entry.seq,
        "target": entry.target.value,
        "text": entry.text,
        "by": entry.by,
        "made_in_group": mark_of(memory.subject, entry, ()) is not None,
        "shown_to": holder_of(memory.subject, entry.by, entry.principal),
        "origin": entry.origin,
        "at": entry.at,
    }


def subjects_view(memories: Sequence[Memory]) -> dict[str, object]:
    return {"subjects": [{"about": one.subject, "notes": len(one.entries)} for one in memories]}


def print_subjects(memories: Sequence[Memory]) -> None:
    print_table(("about", "notes"), [(one.subject or "(everybody)", len(one.entries)) for one in memories])


def history_view(operations: Sequence[MemoryOperation]) -> dict[str, object]:
    return {"changes": [_operation_view(one) for one in operations]}


def _operation_view(one: MemoryOperation) -> dict[str, object]:
    return {
        "change": one.seq,
        "target": one.target.value,
        "action": one.verb.value,
        "text": one.text,
        "old_text": one.old_text,
        "by": one.by,
        "principal": one.principal,
        "origin": one.origin,
        "holds": one.live,
        "at": one.at,
    }


def print_memory(memory: Memory) -> None:
    if not memory.entries:
        print("No notes yet.")
    for target in Target:
        if entries := memory.of(target):
            print_heading(f"{target.value}, {memory.used_chars(target)} characters")
        for entry in entries:
            shown = visible(entry.text).replace("\n", "\n" + " " * 8)
            holder = holder_of(memory.subject, entry.by, entry.principal)
            only = f", only for {visible(holder)}" if holder != memory.subject else ""
            group = ", made in a group" if mark_of(memory.subject, entry, ()) else ""
            print(f"{entry.seq:>6}  {shown}  ({entry.by}, {when(entry.at)}{only}{group})")


def print_history(operations: Sequence[MemoryOperation]) -> None:
    rows = [
        (
            one.seq,
            when(one.at),
            one.target.value,
            one.verb.value,
            one.by,
            "yes" if one.live else "",
            one.old_text,
            one.text,
        )
        for one in operations
    ]
    print_table(("change", "at", "target", "action", "by", "holds", "before", "after"), rows)


def print_import(done: Sequence[ImportedEntry]) -> None:
    print_table(("file", "entry", "state", "reason"), [(one.file, one.entry, one.state, one.reason) for one in done])


def outcome_text(outcome: Applied) -> str:
    if not any(outcome.seqs):
        return "There already; nothing was changed."
    if outcome.repeated:
        return f"That was done before, as change {outcome.seqs[0]}."
    return f"Done, as change {outcome.seqs[0]}. `holdfast memory undo {outcome.seqs[0]}` takes it back."
