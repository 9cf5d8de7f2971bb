"""How `holdfast memory` shows notes and changes, as text and as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.cli.output import Heading, TextTable, when
from holdfast.memory.notes import AgentNotes, Applied, MemoryEntry, MemoryOperation, MemoryOutcome, NotApplied, Target
from holdfast.memory.notes_view import NoteForReview, mark_of
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


def memory_view(memory: AgentNotes) -> dict[str, object]:
    return {
        "agent": memory.agent,
        "about": memory.subject,
        "head": memory.head,
        "entries": [_entry_view(memory, entry) for entry in memory.entries],
        "used": {target.value: memory.used_chars(target) for target in Target},
    }


def _entry_view(memory: AgentNotes, entry: MemoryEntry) -> dict[str, object]:
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


def memory_text(memory: AgentNotes) -> list[str | Heading]:
    text: list[str | Heading] = [] if memory.entries else ["No notes yet."]
    for target in Target:
        if entries := memory.of(target):
            text.append(Heading(f"{target.value}, {memory.used_chars(target)} characters"))
        for entry in entries:
            shown = entry.text.replace("\n", "\n" + " " * 8)
            holder = holder_of(memory.subject, entry.by, entry.principal)
            only = f", only for {holder}" if holder != memory.subject else ""
            group = ", made in a group" if mark_of(memory.subject, entry, ()) else ""
            text.append(f"{entry.seq:>6}  {shown}  ({entry.by}, {when(entry.at)}{only}{group})")
    return text


def operation_view(one: MemoryOperation) -> dict[str, object]:
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


def history_table(operations: Sequence[MemoryOperation]) -> TextTable:
    rows = (
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
    )
    return TextTable(("change", "at", "target", "action", "by", "holds", "before", "after"), rows)


def outcome_text(outcome: Applied) -> str:
    if not any(outcome.seqs):
        return "The note already exists; nothing was changed."
    if outcome.repeated:
        return f"This was already done as change {outcome.seqs[0]}."
    return f"Done as change {outcome.seqs[0]}. `holdfast memory undo {outcome.seqs[0]}` undoes it."


def review_views(notes: Sequence[NoteForReview]) -> list[dict[str, object]]:
    return [
        {
            "agent": one.agent,
            "about": one.subject,
            "version": one.entry.seq,
            "target": one.entry.target.value,
            "text": one.entry.text,
            "by": one.entry.by,
            "author": one.entry.principal or None,
            "chat": one.chat or None,
            "mark": one.mark.name.lower(),
            "at": one.entry.at,
        }
        for one in notes
    ]


def review_table(notes: Sequence[NoteForReview]) -> TextTable:
    rows = (
        (
            one.entry.seq,
            when(one.entry.at),
            one.entry.principal or "(several)",
            one.chat or "(private)",
            one.mark.value,
            one.entry.text,
        )
        for one in notes
    )
    return TextTable(("change", "when", "author", "chat", "mark", "note"), rows)
