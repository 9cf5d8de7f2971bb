"""An agent's own memory: short notes in two targets, changed by operations that are kept for ever.

Rule 1: the truth is the sequence of operations; MEMORY.md and USER.md are projections of it.
Rule 2: a batch is applied as a whole or not at all, judged by the size it would leave behind.
Rule 3: the same origin is applied once, whoever repeats it.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeAlias
from urllib.parse import quote

from holdfast.kernel.ids import AgentName, Instant, Principal
from holdfast.memory.delivery import DeliveryPolicy

MEMORY = "memory:"  # how a stream of notes begins
DELIMITER = "\n§\n"  # between entries of a file, as Hermes writes them


class Target(Enum):
    MEMORY = "memory"  # what the agent knows about its work
    USER = "user"  # what it knows about the person


class MemoryVerb(Enum):
    ADD = "add"
    REPLACE = "replace"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """In characters, delimiters included; Hermes' own limits by default."""

    memory_chars: int = 2_200
    user_chars: int = 1_375

    def of(self, target: Target) -> int:
        return self.memory_chars if target is Target.MEMORY else self.user_chars


@dataclass(frozen=True, slots=True, kw_only=True)
class NotesPolicy:
    """How an agent keeps notes."""

    capacity: Capacity = field(default_factory=Capacity)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEntry:
    """A note that holds now. `seq` is the operation that wrote it, and its version."""

    seq: int
    target: Target
    text: str
    at: Instant
    origin: str = ""
    by: str = ""
    principal: Principal = Principal("")  # who spoke when it was written
    place: int = 0  # where it stands in the order: the operation that first added it, whatever replaced it since


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """All notes of one subject, which is their scope (visibility.py; empty for shared ones), in their order."""

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
    """One wish. `old` is a unique part of the entry to replace or remove; `version` names it exactly instead."""

    verb: MemoryVerb
    target: Target
    text: str = ""
    old: str = ""
    version: int | None = None
    place: int | None = None  # where an added entry goes back to, if that place is free; the end otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBatch:
    agent: AgentName
    subject: str
    origin: str  # unique: a repeated origin changes nothing and gets the first result
    changes: tuple[NoteChange, ...]
    by: str = "model"  # model, extraction, edit, import, user
    principal: Principal = Principal("")
    capacity: Capacity = field(default_factory=Capacity)
    policies: tuple[DeliveryPolicy, ...] = ()  # whom the operations are mirrored to
    withdraws: bool = False  # running conversations are told the notes anew at their next turn
    session: str = ""  # the session of the turn that writes it, and
    fence: int = 0  # the fence of the turn's claim: a note of a turn that was taken away is refused
    add_only: bool = False  # from stale history: nothing that exists may be changed (R33)


@dataclass(frozen=True, slots=True)
class Applied:
    """What is durable now. `seqs` has one number per change, 0 for one that found its text there already."""

    seqs: tuple[int, ...]
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class NotApplied:
    """Nothing was changed. `code` is stable: over_capacity, no_match, ambiguous, blocked, stale, empty."""

    code: str
    reason: str
    memory: Memory
    position: int = 0  # the change that could not be made


MemoryOutcome: TypeAlias = Applied | NotApplied


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOperation:
    """One operation as it is kept for ever. `live` says that what it wrote still holds."""

    seq: int
    target: Target
    verb: MemoryVerb
    text: str  # what it wrote; empty for remove
    old_text: str  # what held before, for replace and remove
    place: int
    origin: str
    by: str
    principal: Principal
    live: bool
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUndo:
    """The wish to reverse one operation. Each is reversed once; to go back again, reverse what reversed it."""

    agent: AgentName
    subject: str
    seq: int
    by: str = "user"
    principal: Principal = Principal("")
    capacity: Capacity = field(default_factory=Capacity)
    policies: tuple[DeliveryPolicy, ...] = ()


class NotesPort(Protocol):
    """Access to the stored notes, for a provider that shows them elsewhere and reads people's edits back."""

    async def memory(self, agent: AgentName, subject: str) -> Memory:
        """The current notes, including every write that was acknowledged."""
        ...

    async def apply(self, batch: MemoryBatch) -> MemoryOutcome:
        """Make a batch durable, and schedule its delivery to the agent's providers."""
        ...


def stream_of(agent: AgentName, subject: str) -> str:
    """The stream of an agent's memory about a subject; no two of them spell the same name."""
    return f"{MEMORY}{quote(agent, safe='')}:{quote(subject, safe='')}"
