"""What we know of a memory file, kept beside it without the words, so that an edit can be told from a write of ours.

`current` is what the file has, absorbed or written; `intended` what is about to replace it. A crash in between leaves
either of them in the file, and neither is taken for somebody's edit. `older` is the version that was replaced last,
whose link still stands beside the file.
"""

from pathlib import Path

import msgspec

from holdfast.memory.files.disk import Disk
from holdfast.memory.notes_text import Version


class FileState(msgspec.Struct, frozen=True, kw_only=True):
    older: Version | None = None
    current: Version | None = None
    intended: Version | None = None
    late: str = ""  # digest of what was found written late into the older version, and dealt with
    refused: str = ""  # digest of an edit that could not be applied and has been copied aside

    @property
    def versions(self) -> tuple[Version, ...]:
        """Oldest first."""
        return tuple(version for version in (self.older, self.current, self.intended) if version is not None)

    def version(self, digest: str) -> Version | None:
        """The version that the file may have without anybody's doing."""
        return next((one for one in (self.intended, self.current) if one and one.digest == digest), None)

    def had(self, digest: str) -> bool:
        """Whether the replaced version is known with this content."""
        return digest == self.late or any(version.digest == digest for version in self.versions)


def state_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.state")


def load_state(disk: Disk, path: Path) -> FileState:
    """A state that is missing or not ours is no state: then nothing that a file lacks is taken for removed."""
    found = disk.read(state_path(path))
    if found is None:
        return FileState()
    try:
        return msgspec.json.decode(found.data, type=FileState)
    except msgspec.MsgspecError:
        return FileState()


def save_state(disk: Disk, path: Path, state: FileState) -> None:
    disk.write(state_path(path), msgspec.json.encode(state))
