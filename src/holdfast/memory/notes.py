"""An agent's own notes: short texts in two targets, changed by operations that are kept for ever.

Rule 1: the sequence of operations is the source of truth; MEMORY.md and USER.md are projections of it.
Rule 2: a batch is applied as a whole or not at all; the capacity applies to the size after the batch.
Rule 3: an origin is applied once; a repetition changes nothing.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeAlias
from urllib.parse import quote

from holdfast.kernel.ids import AgentName, Instant, Principal
from holdfast.memory.delivery import DeliveryPolicy

MEMORY = "memory:"  # the prefix of a stream of notes
DELIMITER = "\n§\n"  # between entries of a file, as in Hermes


class Target(Enum):
    MEMORY = "memory"  # about the agent's work
    USER = "user"  # about the person


class MemoryVerb(Enum):
    ADD = "add"
    REPLACE = "replace"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """In characters, including delimiters; the defaults are Hermes' limits."""

    memory_chars: int = 2_200
    user_chars: int = 1_375

    def of(self, target: Target) -> int:
        return self.memory_chars if target is Target.MEMORY else self.user_chars


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEntry:
    """A current note. `seq` is the operation that wrote it, and serves as its version."""

    seq: int
    target: Target
    text: str
    at: Instant
    origin: str = ""
    by: str = ""
    principal: Principal = Principal("")  # the speaker of the turn that wrote it
    place: int = 0  # its position: the operation that first added it, kept by replacements


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentNotes:
    """All notes of one subject, in order. The subject is their scope (visibility.py; empty for shared notes)."""

    agent: AgentName
    subject: str
    entries: tuple[MemoryEntry, ...] = ()
    head: int = 0  # the newest operation

    def of(self, target: Target) -> tuple[MemoryEntry, ...]:
        return tuple(entry for entry in self.entries if entry.target is target)

    def used_chars(self, target: Target) -> int:
        return len(DELIMITER.join(entry.text for entry in self.of(target)))


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteChange:
    """One requested change. `old` is a unique part of the entry to replace or remove, or `version` identifies it."""

    verb: MemoryVerb
    target: Target
    text: str = ""
    old: str = ""
    version: int | None = None
    place: int | None = None  # the position of an added entry, if it is free; otherwise the end


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBatch:
    agent: AgentName
    subject: str
    origin: str  # a repeated origin changes nothing and gets the first result
    changes: tuple[NoteChange, ...]
    by: str = "model"  # model, extraction, edit, import, user
    principal: Principal = Principal("")
    capacity: Capacity = field(default_factory=Capacity)
    policies: tuple[DeliveryPolicy, ...] = ()  # the providers that get the operations
    withdraws: bool = False  # running conversations reload their notes at the next turn
    session: str = ""  # the session of the turn that writes it
    fence: int = 0  # the fence of the turn's claim; a turn that lost its claim cannot write
    add_only: bool = False  # from stale history: no existing note may change (R33)


@dataclass(frozen=True, slots=True)
class Applied:
    """The batch is durable. `seqs` has one number per change, 0 for a text that existed already."""

    seqs: tuple[int, ...]
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class NotApplied:
    """No note was changed. `code` is stable: over_capacity, no_match, ambiguous, blocked, stale, empty."""

    code: str
    reason: str
    memory: AgentNotes
    position: int = 0  # the change that failed


MemoryOutcome: TypeAlias = Applied | NotApplied


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOperation:
    """One stored operation. `live` says that its text is current."""

    seq: int
    target: Target
    verb: MemoryVerb
    text: str  # the new text; empty for remove
    old_text: str  # the text before, for replace and remove
    place: int
    origin: str
    by: str
    principal: Principal
    live: bool
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUndo(MemoryBatch):
    """A request to reverse one operation. Each is reversed once; to redo it, reverse the reversal."""

    seq: int
    origin: str = ""  # derived from `seq`, as the changes are from the operation
    changes: tuple[NoteChange, ...] = ()
    by: str = "user"


class NotesPort(Protocol):
    """Access to the stored notes, for a provider that shows them elsewhere and reads people's edits back."""

    async def memory(self, agent: AgentName, subject: str) -> AgentNotes:
        """The current notes, including every write that was acknowledged."""

    async def apply(self, batch: MemoryBatch) -> MemoryOutcome:
        """Make a batch durable, and schedule its delivery to the agent's providers."""


def stream_of(agent: AgentName, subject: str) -> str:
    """The stream of an agent's notes about a subject. Different pairs never get the same name."""
    return f"{MEMORY}{quote(agent, safe='')}:{quote(subject, safe='')}"
