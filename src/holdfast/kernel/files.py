"""Private folders, durable files, and the errors of a disk that cannot be written.

`Path.mkdir` applies its mode to the last folder only, so parents need their own call. A write is durable once the file
is synced, and a rename or a new name once its folder is. A full disk is distinguished from a read-only one, because the
operator resolves each differently.
"""

import errno
import os
from pathlib import Path

from holdfast.kernel.errors import StoreFull, StoreReadOnly

PRIVATE = 0o700
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
FULL = "no space is left on the disk"


def make_private_folder(folder: Path) -> None:
    """Create the folder and its missing parents with mode 0700. Existing folders keep their mode."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=PRIVATE, exist_ok=True)
    folder.mkdir(mode=PRIVATE, exist_ok=True)  # raises if the path is not a folder


def write_synced(handle: int, data: bytes) -> None:
    """Write an open file whole, sync it and close it."""
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable. Windows cannot open a folder; its file system journals the rename."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def is_out_of_space(error: BaseException) -> bool:
    """Whether the disk or the user's quota is full."""
    return isinstance(error, OSError) and error.errno in NO_SPACE


def unwritable(what: str, error: OSError, **context: object) -> StoreFull | StoreReadOnly:
    """The error for `what`, which could not be written: `StoreFull` for a full disk, else `StoreReadOnly`."""
    if is_out_of_space(error):
        return StoreFull(f"{what}: {FULL}", **context)
    return StoreReadOnly(f"{what}: {error.strerror or error}", **context)


def why_unusable(error: OSError) -> str:
    """The name of the system error, without a path."""
    name = errno.errorcode.get(error.errno or 0, type(error).__name__)
    return f"{FULL}, {name}" if is_out_of_space(error) else name
