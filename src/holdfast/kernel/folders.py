"""Folders that only their owner can use. `Path.mkdir` gives its mode to the last of them alone."""

from pathlib import Path

PRIVATE = 0o700


def make_private_folder(folder: Path) -> None:
    """Make the folder, and what is missing above it, with mode 0700. Those that exist stay as they are."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=PRIVATE, exist_ok=True)
    folder.mkdir(mode=PRIVATE, exist_ok=True)  # raises when something else is there
