"""Importing Hermes' MEMORY.md and USER.md as batches of notes. The files are read and never written.

Each entry is a batch of its own, whose origin is the entry's digest, so repeated imports add it only once, even if the
note was changed since. An entry that does not fit, or is blocked, returns the `NotApplied` of its batch and can be
imported later.
"""

from dataclasses import dataclass
from pathlib import Path

from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.ids import AgentName
from holdfast.memory.files.disk import Disk, FileFault
from holdfast.memory.notes import Capacity, MemoryBatch, MemoryVerb, NoteChange, Target
from holdfast.memory.notes_text import FILE_NAMES, digest, parse_entries


@dataclass(frozen=True, slots=True)
class HermesEntry:
    """One entry of Hermes' files; `n` counts from 1 in each file."""

    file: str
    n: int
    chars: int
    batch: MemoryBatch


def import_hermes(
    folder: Path,
    agent: AgentName,
    *,
    subject: str = "",
    capacity: Capacity | None = None,
) -> tuple[HermesEntry, ...]:
    """Every entry of the files in Hermes' `memories` folder, or in the folder itself.

    Raises `InvalidInput` if neither file exists, or if one cannot be read; then no entry is imported.
    """
    place = folder / "memories" if (folder / "memories").is_dir() else folder
    texts = {target: _read(place, target) for target in Target}
    if all(text is None for text in texts.values()):
        raise InvalidInput(f"{place} has neither MEMORY.md nor USER.md", path=str(place))
    return tuple(
        HermesEntry(
            FILE_NAMES[target],
            n,
            len(entry),
            MemoryBatch(
                agent=agent,
                subject=subject,
                origin=f"import:hermes:{target.value}:{digest(entry)}",
                changes=(NoteChange(verb=MemoryVerb.ADD, target=target, text=entry),),
                by="import",
                capacity=capacity or Capacity(),
            ),
        )
        for target, text in texts.items()
        for n, entry in enumerate(parse_entries(text or ""), start=1)
    )


def _read(folder: Path, target: Target) -> str | None:
    path, disk = folder / FILE_NAMES[target], Disk(folder)
    try:
        found = disk.read(path)
        return None if found is None else disk.text(path, found)
    except FileFault as fault:
        raise InvalidInput(fault.reason, path=str(path)) from fault
