"""The state of a memory file, stored beside it without any text, to distinguish an edit from a write of ours.

`current` is the version in the file, absorbed or written; `intended` is about to replace it. After a crash the file
holds either of them, and neither counts as an edit. `older` is the version that was replaced last; its link is still
beside the file.
"""

from pathlib import Path

import msgspec

from holdfast.memory.files.disk import Disk
from holdfast.memory.notes_text import Version


class FileState(msgspec.Struct, frozen=True, kw_only=True):
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
