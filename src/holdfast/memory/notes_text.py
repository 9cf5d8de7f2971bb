"""Notes as the text of a file: rendering, parsing, and the changes that a person's edit means. Pure.

Rule 1: parsing a rendered file gives the same entries.
Rule 2: an edit is compared with the version that the person saw, not with the current notes: a note that the agent
        added meanwhile does not count as deleted.
Rule 3: if both changed the same entry, the person's text wins, and history keeps the agent's. If the person removed an
        entry that the agent has rewritten since, the rewritten one stays.
Rule 4: the person decides the order of a file; new entries go to its end.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from hashlib import sha256

from holdfast.memory.notes import DELIMITER, AgentNotes, MemoryEntry, MemoryVerb, NoteChange, Target
from holdfast.memory.notes_plan import normal
from holdfast.memory.notes_safety import SEPARATOR_LINE

FILE_NAMES = {Target.MEMORY: "MEMORY.md", Target.USER: "USER.md"}


def digest(data: str | bytes) -> str:
    return sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def render_entries(texts: Sequence[str]) -> str:
    """The text of a file, with a final line end, so that editors do not add one."""
    return DELIMITER.join(texts) + "\n" if texts else ""


def parse_entries(text: str) -> tuple[str, ...]:
    """The entries of a file, separated by lines that hold only '§'."""
    pieces = SEPARATOR_LINE.split(text.replace("\r\n", "\n").removeprefix("\ufeff"))
    return tuple(kept for piece in pieces if (kept := normal(piece)))


# --- edits -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One entry in a written file."""

    seq: int
    place: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A file as we wrote it, in the file's order, without its text."""

    head: int
    digest: str  # of the whole file
    shown: tuple[FileEntry, ...] = ()


def version_of(memory: AgentNotes, entries: Sequence[MemoryEntry], data: bytes) -> Version:
    shown = tuple(FileEntry(entry.seq, entry.place, digest(entry.text)) for entry in entries)
    return Version(head=memory.head, digest=digest(data), shown=shown)


def nearest(versions: Sequence[Version], texts: Sequence[str]) -> Version | None:
    """The version that a person edited: the one that shares most entries with the text.

    Of equals it is the oldest: a newer one may have an entry that the person never saw.
    """
    found = Counter(digest(text) for text in texts)

    def shared(version: Version) -> int:
        return (found & Counter(entry.digest for entry in version.shown)).total()

    return max(versions, key=shared, default=None)


def edit_changes(
    base: Version | None, texts: Sequence[str], memory: AgentNotes, target: Target
) -> tuple[NoteChange, ...]:
    """The changes that apply an edit of `base` to the current notes. Without a base no entry is removed."""
    held = {entry.text for entry in memory.of(target)}
    if base is None:
        wanted = dict.fromkeys(text for text in texts if text not in held)
        return tuple(NoteChange(verb=MemoryVerb.ADD, target=target, text=text) for text in wanted)
    by_seq = {entry.seq: entry for entry in memory.of(target)}
    by_place = {entry.place: entry for entry in memory.of(target)}
    changes: list[NoteChange] = []
    for old, text in _differences(base.shown, texts):
        if text is None:
            if old is not None and old.seq in by_seq:
                changes.append(NoteChange(verb=MemoryVerb.REMOVE, target=target, version=old.seq))
        elif old is not None and (now := by_seq.get(old.seq) or by_place.get(old.place)) is not None:
            if now.text != text:
                changes.append(NoteChange(verb=MemoryVerb.REPLACE, target=target, version=now.seq, text=text))
        elif text not in held:
            place = old.place if old is not None else None
            changes.append(NoteChange(verb=MemoryVerb.ADD, target=target, text=text, place=place))
    return tuple(changes)


def _differences(shown: Sequence[FileEntry], texts: Sequence[str]) -> Iterator[tuple[FileEntry | None, str | None]]:
    """Pairs of old entry and new text; an entry that only moved is not among them."""
    before, after = [entry.digest for entry in shown], [digest(text) for text in texts]
    kept = Counter(before) & Counter(after)
    for _, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        olds = [entry for entry in shown[i1:i2] if entry.digest not in kept]
        news = [text for text, found in zip(texts[j1:j2], after[j1:j2], strict=True) if found not in kept]
        for place in range(max(len(olds), len(news))):
            yield (
                olds[place] if place < len(olds) else None,
                news[place] if place < len(news) else None,
            )


# --- the order of a file -------------------------------------------------------------------------------


def arranged(
    entries: Sequence[MemoryEntry], texts: Sequence[str], versions: Sequence[Version]
) -> tuple[MemoryEntry, ...]:
    """The entries in the file's order, matched by their current or former text; new ones at the end."""
    places = {shown.digest: shown.place for version in versions for shown in version.shown}
    places |= {digest(entry.text): entry.place for entry in entries}
    order: dict[int, int] = {}
    for text in texts:
        place = places.get(digest(text))
        if place is not None:
            order.setdefault(place, len(order))
    return tuple(sorted(entries, key=lambda entry: (order.get(entry.place, len(order)), entry.place)))
