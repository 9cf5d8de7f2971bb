"""Private folders and durable files.

`Path.mkdir` applies its mode to the last folder only, so parents need their own call. A write is durable once the file
is synced, and a rename or a new name once its folder is.
"""

import os
from pathlib import Path

PRIVATE = 0o700


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
