"""Review: which notes come from unverified sources, and which of them a revocation removes. Pure.

Rule 1: a note needs review if a model made it in a group, or from a stranger's words.
Rule 2: a stranger is an account of a chat platform that is neither on the agent's allowlist nor admitted by name. An
        HTTP sender was admitted by a token; other agents are the operator's own.
Rule 3: a revocation removes the notes from one author's words, or of one chat. The operator's notes stay.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

from holdfast.inbox.access import PLATFORMS
from holdfast.kernel.ids import AgentName, Principal
from holdfast.memory.notes import AgentNotes, MemoryEntry, MemoryVerb, NoteChange
from holdfast.memory.visibility import BY_MODELS, CHAT, is_group
from holdfast.turns.policy import AccessPolicy

CHANGES_MAX = 64  # per batch


class ReviewReason(Enum):
    """Why a note needs review."""

    GROUP = "made in a group"
    STRANGER = "by a stranger"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteForReview:
    agent: AgentName
    subject: str  # under which the note is stored (visibility.py)
    entry: MemoryEntry
    mark: ReviewReason

    @property
    def chat(self) -> str:
        """The address of its group; empty for a private note."""
        return chat_of(self.subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    """The result of `revoke`: the number of removed notes, and the remaining ones of unknown authors."""

    removed: int
    unattributed: tuple[NoteForReview, ...] = ()


def chat_of(subject: str) -> str:
    return subject.removeprefix(CHAT) if subject.startswith(CHAT) else ""


def mark_of(subject: str, entry: MemoryEntry, strangers: Collection[Principal]) -> ReviewReason | None:
    if entry.by not in BY_MODELS:
        return None
    if is_group(chat_of(subject)):
        return ReviewReason.GROUP
    return ReviewReason.STRANGER if entry.principal in strangers else None


def may_be_stranger(principal: str, access: AccessPolicy) -> bool:
    """Whether the principal is a stranger unless the store has admitted it."""
    return principal.partition(":")[0] in PLATFORMS and principal not in access.allow


def for_review(memories: Iterable[AgentNotes], strangers: Collection[Principal]) -> tuple[NoteForReview, ...]:
    """The marked notes, newest first."""
    found = [
        NoteForReview(agent=memory.agent, subject=memory.subject, entry=entry, mark=mark)
        for memory in memories
        for entry in memory.entries
        if (mark := mark_of(memory.subject, entry, strangers)) is not None
    ]
    return tuple(sorted(found, key=lambda one: (-one.entry.at, one.subject, one.entry.seq)))


def to_revoke(memory: AgentNotes, authors: Collection[str], subject: str) -> tuple[MemoryEntry, ...]:
    """The notes from these authors' words, or all of the subject; never the operator's."""
    made = [entry for entry in memory.entries if entry.by in BY_MODELS]
    if subject and memory.subject == subject:
        return tuple(made)
    return tuple(entry for entry in made if entry.principal and entry.principal in authors)


def removals(entries: Iterable[MemoryEntry]) -> tuple[NoteChange, ...]:
    return tuple(NoteChange(verb=MemoryVerb.REMOVE, target=entry.target, version=entry.seq) for entry in entries)
