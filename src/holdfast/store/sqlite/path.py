"""The files of a database: where they may be stored, and whether the open ones are still at their paths.

A database is in a writable folder of a local disk, in a file that only its owner can read. If an open database is
moved, replaced or deleted, or another process unlinked the WAL because this process had lost its locks, commits succeed
into files that no process will open again. SQLite does not detect this in WAL mode; two `stat` calls per batch do.
"""

import os
from pathlib import Path
from shutil import disk_usage

from holdfast.kernel.errors import StorePathInvalid, StoreReadOnly
from holdfast.kernel.files import is_out_of_space, unwritable

MOUNTS = Path("/proc/mounts")  # Linux only; elsewhere the check passes
PROBE_BYTES = 64 * 1024  # the WAL index of an empty WAL has 32 KiB
NETWORK_TYPES = frozenset(
    {"afs", "beegfs", "ceph", "cifs", "coda", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs"}
    | {f"fuse.{name}" for name in ("ceph", "glusterfs", "rclone", "s3fs", "sshfs")}
)


def check_path(path: Path, *, readonly: bool = False) -> None:
    """Raise `StorePathInvalid` or `StoreReadOnly` if no database can be stored at `path`."""
    folder = path.parent
    if not folder.is_dir():
        raise StorePathInvalid(f"the folder {folder} does not exist", path=str(path))
    if path.is_dir():
        raise StorePathInvalid(f"{path} is a folder, not a database file", path=str(path))
    if path.exists() and not path.is_file():
        raise StorePathInvalid(f"{path} is not a regular file", path=str(path))
    if readonly and not path.exists():
        raise StorePathInvalid(f"there is no database at {path}", path=str(path))
    kind = file_system(folder)
    if kind in NETWORK_TYPES:
        raise StorePathInvalid(f"{folder} is on a network file system ({kind})", path=str(path))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StoreReadOnly(f"the folder {folder} cannot be written", path=str(path))
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise StoreReadOnly(f"{path} cannot be written", path=str(path))


def create_private(path: Path) -> None:
    """Create an empty file with mode 0600; an existing file is not touched.

    SQLite gives the WAL and its index the mode of the database file.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return  # the file may be live: opening it here would drop this process's locks
    except OSError as error:
        raise unwritable(f"{path} cannot be made", error, path=str(path)) from error


def has_space(folder: Path) -> bool:
    """Whether a new WAL and its index would fit on the disk. The probe file is removed at once."""
    probe = folder / f".space-{os.getpid()}"
    try:
        handle = os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as error:
        return not is_out_of_space(error)
    try:
        return os.write(handle, bytes(PROBE_BYTES)) == PROBE_BYTES
    except OSError as error:
        return not is_out_of_space(error)
    finally:
        os.close(handle)
        probe.unlink(missing_ok=True)


def file_system(folder: Path, mounts: Path = MOUNTS) -> str | None:
    """The type of the file system that holds `folder`, if the platform reports it."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None  # not Linux, or a sandbox without /proc
    place = f"{folder.resolve()}/"
    best: tuple[int, str | None] = (-1, None)
    for line in lines:
        _, point, kind, *_ = line.split(" ")
        target = point.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\").rstrip("/") + "/"
        if place.startswith(target) and len(target) >= best[0]:  # a later mount hides earlier ones
            best = (len(target), kind)
    return best[1]


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

    def free_bytes(self) -> int | None:
        try:
            return disk_usage(self._path.parent).free
        except OSError:  # the folder is gone: `holds` says so
            return None

    def _look(self) -> list[tuple[int, int] | None]:
        found: list[tuple[int, int] | None] = []
        for path in (self._path, self._wal):
            try:
                one = path.stat()
                found.append((one.st_dev, one.st_ino))
            except FileNotFoundError:
                found.append(None)
        return found
