"""Private folders. `Path.mkdir` applies its mode to the last folder only, so parents need their own call."""

from pathlib import Path

PRIVATE = 0o700


def make_private_folder(folder: Path) -> None:
    """Create the folder and its missing parents with mode 0700. Existing folders keep their mode."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=PRIVATE, exist_ok=True)
    folder.mkdir(mode=PRIVATE, exist_ok=True)  # raises if the path is not a folder
