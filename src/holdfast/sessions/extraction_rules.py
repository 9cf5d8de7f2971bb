"""Extraction rules: the part of an extraction's answer that may be written to memory.

Rule 1: a note is changed only in the version that the model saw, and never if it was changed after the last message of
        the conversation. A note that was removed since then does not come back (R33).
Rule 2: a proposal is applied whole or not at all, in the model's order; proposals that miss or do not fit stay visible.
Rule 3: saved notes are not deleted for proposals that do not fit: while a proposal for a target is left over, plain
        removals of that target's notes are held back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from holdfast.kernel.ids import Instant
from holdfast.memory.notes import DELIMITER, AgentNotes, Capacity, MemoryEntry, MemoryVerb, NoteChange, Target
from holdfast.memory.notes_plan import Gone, normal
from holdfast.sessions.extraction import Proposal, handle


class Leftover(msgspec.Struct, frozen=True):
    """A proposal that was not applied.

    `code` is stable: empty, unclear, moved, changed_since, over_capacity, held_back, or the code of memory's own
    refusal.
    """

    proposal: Proposal
    code: str


class ExtractionResult(msgspec.Struct, frozen=True):
    """The outcome of an answer: its memory operations, and the proposals that wait for a person."""

    applied: tuple[int, ...] = ()  # 0 if the note already existed
    unfit: tuple[Leftover, ...] = ()


def decode_result(raw: bytes) -> ExtractionResult:
    return msgspec.json.decode(raw, type=ExtractionResult)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    changes: tuple[NoteChange, ...]
    of: tuple[int, ...]  # the position of each change's proposal
    unfit: tuple[Leftover, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The limits of a memory for a conversation whose last message was sent at `said_at`."""

    capacity: Capacity
    said_at: Instant
    gone: Gone = ()  # notes that were removed or replaced since then


Wanted: TypeAlias = Mapping[int, tuple[NoteChange, ...]]  # the changes of each proposal, by its position


def judge(
    proposals: Sequence[Proposal], memory: AgentNotes, bounds: Bounds, refused: Mapping[int, str] | None = None
) -> Judged:
    """The proposals that fit the current memory, in the model's order. `refused` holds those that memory rejected."""
    unfit: dict[int, str] = dict(refused or {})
    wanted: dict[int, tuple[NoteChange, ...]] = {}
    free = {handle(entry): entry for entry in memory.entries}
    for position, proposal in enumerate(proposals):
        fault = unfit.get(position) or _fault_of(proposal, free, bounds)
        if fault:
            unfit[position] = fault
        else:
            wanted[position] = _changes_of(proposal, [free.pop(name) for name in proposal.entries])
    chosen = _fitting(wanted, memory, bounds.capacity, unfit)
    return Judged(
        changes=tuple(change for position in chosen for change in wanted[position]),
        of=tuple(position for position in chosen for _ in wanted[position]),
        unfit=tuple(Leftover(proposals[position], code) for position, code in sorted(unfit.items())),
    )


def _fault_of(proposal: Proposal, free: Mapping[str, MemoryEntry], bounds: Bounds) -> str:
    named, text = set(proposal.entries), normal(proposal.text)
    if (not text and proposal.verb != "remove") or (not named and proposal.verb != "add"):
        return "empty"
    if proposal.verb == "add" and named:
        return "unclear"
    if len(named) < len(proposal.entries) or not named <= free.keys():
        return "moved"
    if any(free[name].target is not proposal.aim for name in named):
        return "unclear"
    since = any(free[name].at > bounds.said_at for name in named) or (proposal.aim, text) in bounds.gone
    return "changed_since" if since else ""


def _changes_of(proposal: Proposal, named: Sequence[MemoryEntry]) -> tuple[NoteChange, ...]:
    target, text = proposal.aim, normal(proposal.text)
    if proposal.verb == "add":
        return (NoteChange(verb=MemoryVerb.ADD, target=target, text=text),)
    made = [NoteChange(verb=MemoryVerb.REMOVE, target=target, version=entry.seq) for entry in named]
    if proposal.verb == "replace":
        made[0] = NoteChange(verb=MemoryVerb.REPLACE, target=target, text=text, version=named[0].seq)
    return tuple(made)


def _fitting(wanted: Wanted, memory: AgentNotes, capacity: Capacity, unfit: dict[int, str]) -> list[int]:
    """The positions to apply; all of them if all fit. Positions that must wait are added to `unfit`."""
    most = {target: max(capacity.of(target), memory.used_chars(target)) for target in Target}
    sizes = _sizes(memory, wanted, list(wanted))
    crowded = {target for target in Target if sizes[target] > most[target]}
    for position, changes in wanted.items():
        if changes[0].target in crowded and all(change.verb is MemoryVerb.REMOVE for change in changes):
            unfit[position] = "held_back"
    kept: list[int] = []
    for position in sorted(
        (each for each in wanted if each not in unfit), key=lambda each: _grows(memory, wanted, each)
    ):
        sizes = _sizes(memory, wanted, [*kept, position])
        if all(sizes[target] <= most[target] for target in Target):
            kept.append(position)
        else:
            unfit[position] = "over_capacity"
    return sorted(kept)


def _grows(memory: AgentNotes, wanted: Wanted, position: int) -> bool:
    sizes = _sizes(memory, wanted, [position])
    return any(sizes[target] > memory.used_chars(target) for target in Target)


def _sizes(memory: AgentNotes, wanted: Wanted, positions: Sequence[int]) -> dict[Target, int]:
    """The number of characters that each target would use after these proposals."""
    texts: dict[Target, dict[object, str]] = {
        target: {entry.seq: entry.text for entry in memory.of(target)} for target in Target
    }
    for change in (change for position in sorted(positions) for change in wanted[position]):
        held = texts[change.target]
        match change.verb:
            case MemoryVerb.ADD if change.text not in held.values():
                held["new", len(held), change.text] = change.text
            case MemoryVerb.REPLACE:
                held[change.version] = change.text
            case MemoryVerb.REMOVE:
                held.pop(change.version, None)
    return {target: len(DELIMITER.join(held.values())) for target, held in texts.items()}
