"""Proof that the files being written are the files at the path.

A database that is moved, replaced or deleted while it is open, or a log that another process unlinked
because this process had lost its locks, goes on accepting commits into files that nobody will ever open
again. SQLite cannot see it in WAL mode; two `stat` calls per batch can.
"""

from pathlib import Path


class FileIdentity:
    """Remembers which files a database consists of; taken while the log exists."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._wal = path.with_name(f"{path.name}-wal")
        self._identities = self._look()

    def holds(self) -> bool:
        """Whether the paths still lead to the files they led to at first."""
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
