"""Memory files as a projection of the notes: people's edits become operations first, then the file is written.

One pass over a file: read the file and the version that it replaced; content that we did not write is an edit, and is
applied to the current notes; then the file is written, if it differs. A pass that finds the file changed meanwhile
starts again.

Rule 1: an edit is never overwritten. An edit that cannot be applied leaves the file unchanged, is copied aside once,
        and stays a fault until a person corrects it.
Rule 2: a missing file is written again; an entry counts as removed only if an existing file lacks it. An empty file
        counts as an edit only when it is read a second time, because editors empty a file before they write it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

import msgspec

from holdfast.kernel.ids import AgentName
from holdfast.kernel.ports import Tasks
from holdfast.memory.files.disk import Content, Disk, FileFault, Signature, previous_of
from holdfast.memory.notes import AgentNotes, Capacity, MemoryBatch, NotApplied, NotesPort, Target
from holdfast.memory.notes_text import (
    Version,
    arranged,
    digest,
    edit_changes,
    nearest,
    parse_entries,
    render_entries,
    version_of,
)

PASSES_MAX = 8
RACED = {"stale", "no_match"}  # the notes changed between reading them and applying the edit


class FileState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a memory file, stored beside it without any text, to distinguish an edit from a write of ours.

    `current` is the version in the file, absorbed or written; `intended` is about to replace it. After a crash the file
    holds either of them, and neither counts as an edit. `older` is the version that was replaced last; its link is
    still beside the file.
    """

    older: Version | None = None
    current: Version | None = None
    intended: Version | None = None
    late: str = ""  # digest of a late edit of the older version that was handled
    refused: str = ""  # digest of an edit that could not be applied and was copied aside

    @property
    def versions(self) -> tuple[Version, ...]:
        """Oldest first."""
        return tuple(version for version in (self.older, self.current, self.intended) if version is not None)

    def version(self, digest: str) -> Version | None:
        """The version with this digest that the file may hold without an edit."""
        return next((one for one in (self.intended, self.current) if one and one.digest == digest), None)

    def had(self, digest: str) -> bool:
        """Whether the replaced version with this digest is known."""
        return digest == self.late or any(version.digest == digest for version in self.versions)


def state_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.state")


def load_state(disk: Disk, path: Path) -> FileState:
    """A missing or unreadable state is empty; then no entry that a file lacks counts as removed."""
    found = disk.read(state_path(path))
    if found is None:
        return FileState()
    try:
        return msgspec.json.decode(found.data, type=FileState)
    except msgspec.MsgspecError:
        return FileState()


def save_state(disk: Disk, path: Path, state: FileState) -> None:
    disk.write(state_path(path), msgspec.json.encode(state))


@dataclass(frozen=True, slots=True)
class _Seen:
    file: Content | None
    previous: Content | None
    state: FileState


@dataclass(frozen=True, slots=True)
class _FileEdit:
    path: Path
    subject: str
    target: Target
    content: Content
    versions: tuple[Version, ...]  # the versions that it may be an edit of


class Projection:
    """The files of one agent. The caller holds the folder's lock."""

    def __init__(self, disk: Disk, notes: NotesPort, tasks: Tasks, *, agent: AgentName, capacity: Capacity) -> None:
        self._disk = disk
        self._notes = notes
        self._tasks = tasks
        self._agent = agent
        self._capacity = capacity
        self._settled: dict[Path, tuple[Signature | None, Signature | None]] = {}
        self._emptied: dict[Path, Signature] = {}

    async def unsettled(self, paths: Sequence[Path]) -> list[Path]:
        """The files that may have changed since they were last brought up to date; compares signatures only.

        One thread call checks all of them: there may be thousands. A file that cannot be checked counts as changed.
        """
        return await self._tasks.in_thread(lambda: [path for path in paths if not self._is_settled(path)])

    def _is_settled(self, path: Path) -> bool:
        known = self._settled.get(path)
        try:
            return known is not None and known == self._looks(path)
        except FileFault:
            return False

    async def bring_up_to_date(self, path: Path, subject: str, target: Target) -> bool:
        """Absorb edits, then write the current notes; whether an edit was absorbed. Raises `FileFault`."""
        self._settled.pop(path, None)
        absorbed = False
        for _ in range(PASSES_MAX):
            seen = await self._tasks.in_thread(lambda: self._see(path))
            for content, versions in self._foreign_content(seen):
                absorbed |= await self._absorb(_FileEdit(path, subject, target, content, versions), seen)
            memory = await self._notes.memory(self._agent, subject)
            if await self._tasks.in_thread(partial(self._write, path, memory, target, seen)):
                self._settled[path] = await self._tasks.in_thread(lambda: self._looks(path))
                return absorbed
        raise FileFault(f"{self._disk.name(path)} changes faster than it can be read", lasting=False)

    # --- reading

    def _looks(self, path: Path) -> tuple[Signature | None, Signature | None]:
        return self._disk.look(path), self._disk.look(previous_of(path))

    def _see(self, path: Path) -> _Seen:
        return _Seen(self._disk.read(path), self._disk.read(previous_of(path)), load_state(self._disk, path))

    def _foreign_content(self, seen: _Seen) -> Iterator[tuple[Content, tuple[Version, ...]]]:
        """Content that we did not write, in the file or late in the version before it, with its possible bases."""
        if seen.previous and not seen.state.had(seen.previous.digest):
            yield seen.previous, seen.state.versions
        if seen.file and not seen.state.version(seen.file.digest):
            yield seen.file, _bases(seen.state)

    # --- edits

    async def _absorb(self, edit: _FileEdit, seen: _Seen) -> bool:
        """Store an edit as operations; False if it changes no entry."""
        texts = parse_entries(self._disk.text(edit.path, edit.content))
        base = nearest(edit.versions, texts)
        self._check_emptied(edit, texts, base)
        memory = await self._notes.memory(self._agent, edit.subject)
        changes = edit_changes(base, texts, memory, edit.target)
        if not changes:
            return False
        batch = MemoryBatch(
            agent=self._agent,
            subject=edit.subject,
            origin=_origin(edit, base, memory),
            changes=changes,
            by="edit",
            capacity=self._capacity,
        )
        outcome = await self._notes.apply(batch)
        if isinstance(outcome, NotApplied):
            await self._refuse(edit, seen, outcome)
        return True

    async def _refuse(self, edit: _FileEdit, seen: _Seen, outcome: NotApplied) -> NoReturn:
        name = self._disk.name(edit.path)
        if outcome.code in RACED:
            raise FileFault(f"{name} was edited while the notes changed", lasting=False)
        await self._tasks.in_thread(lambda: self._set_aside(edit, seen))
        raise FileFault(
            f"the edit of {name} cannot be stored ({outcome.code}: {outcome.reason}); the file is unchanged, with a"
            " copy beside it: correct it",
            lasting=True,
        )

    def _check_emptied(self, edit: _FileEdit, texts: Sequence[str], base: Version | None) -> None:
        if texts or base is None or not base.shown:
            self._emptied.pop(edit.path, None)
        elif self._emptied.get(edit.path) != edit.content.signature:
            self._emptied[edit.path] = edit.content.signature
            raise FileFault(f"{self._disk.name(edit.path)} is empty: an editor may be about to write it", lasting=False)

    def _set_aside(self, edit: _FileEdit, seen: _Seen) -> None:
        """Copy a refused edit, once. A late edit has no file that a person could correct, so it counts as handled."""
        state, found = seen.state, edit.content.digest
        if state.refused != found:
            self._disk.copy_aside(edit.path, edit.content.data)
        late = found if edit.content is seen.previous else state.late
        if (state.refused, state.late) != (found, late):
            save_state(self._disk, edit.path, msgspec.structs.replace(state, refused=found, late=late))

    # --- writing

    def _write(self, path: Path, memory: AgentNotes, target: Target, seen: _Seen) -> bool:
        """True if the file shows the notes; False if it changed meanwhile."""
        present = parse_entries(self._disk.text(path, seen.file)) if seen.file else ()
        entries = arranged(memory.of(target), present, seen.state.versions)
        if seen.file is None and not entries:
            return True
        data = render_entries([entry.text for entry in entries]).encode()
        wanted = version_of(memory, entries, data)
        late = seen.previous.digest if seen.previous else ""
        if seen.file is not None and seen.file.data == data:
            settled = FileState(older=seen.state.older, current=wanted, late=late)
            if settled != seen.state:
                save_state(self._disk, path, settled)
            return True
        now = self._version(memory, target, present, seen)
        # After this the file may hold either version, and both are ours.
        save_state(self._disk, path, FileState(older=seen.state.older, current=now, intended=wanted, late=late))
        if not self._disk.replace(path, data, seen.file, seen.previous):
            save_state(self._disk, path, FileState(older=seen.state.older, current=now, late=late))
            return False
        left = (
            FileState(older=now, current=wanted)
            if now
            else FileState(older=seen.state.older, current=wanted, late=late)
        )
        save_state(self._disk, path, left)
        gone = self._disk.read(previous_of(path))
        return gone is None or now is None or gone.digest == now.digest

    def _version(self, memory: AgentNotes, target: Target, present: Sequence[str], seen: _Seen) -> Version | None:
        """The present content of the file, as a version that a later edit can be compared with."""
        if seen.file is None:
            return None
        known = seen.state.version(seen.file.digest)
        if known is not None:
            return known
        # The file may still show the former text of an entry that the agent has rewritten since.
        former = {shown.digest: shown for version in seen.state.versions for shown in version.shown}
        former |= {shown.digest: shown for shown in version_of(memory, memory.of(target), b"").shown}
        shown = tuple(former[found] for found in map(digest, present) if found in former)
        return Version(head=memory.head, digest=seen.file.digest, shown=shown)

    def forget(self, path: Path, *, whole: bool) -> None:
        """After an erasure, remove every file kept beside the file, and with `whole` the file itself."""
        copies = path.parent.glob(f"{path.name}.edited.*") if path.parent.is_dir() else ()
        self._disk.remove(previous_of(path), state_path(path), *copies, *([path] if whole else []))
        self._settled.pop(path, None)


def _bases(state: FileState) -> tuple[Version, ...]:
    """The versions that the file may be an edit of. Before the first write there may have been none of ours."""
    if state.current is None and state.intended is not None:
        return Version(head=0, digest=""), state.intended
    return tuple(version for version in (state.current, state.intended) if version is not None)


def _origin(edit: _FileEdit, base: Version | None, memory: AgentNotes) -> str:
    """Equal for every reading of the same edit of the same version."""
    head = f"head {base.head}" if base is not None else f"unknown, {memory.head}"
    return f"edit:{edit.target.value}:{digest(f'{edit.content.digest} {head}')}"
