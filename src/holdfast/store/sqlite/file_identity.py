"""Checks that the open files are still the files at their paths.

If an open database is moved, replaced or deleted, or another process unlinked the WAL because this process
had lost its locks, commits succeed into files that no process will open again. SQLite does not detect this
in WAL mode; two `stat` calls per batch do.
"""

from pathlib import Path


class FileIdentity:
    """Remembers the identity of a database's files; created while the WAL exists."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._wal = path.with_name(f"{path.name}-wal")
        self._identities = self._look()

    def holds(self) -> bool:
        """Whether the paths still refer to the same files."""
        return self._look() == self._identities

    def wal_bytes(self) -> int:
        try:
            return self._wal.stat().st_size
        except FileNotFoundError:
            return 0

    def _look(self) -> tuple[object, object]:
        return _identity(self._path), _identity(self._wal)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
