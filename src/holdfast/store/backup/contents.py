"""What of a data folder goes into a backup: the databases, copied by SQLite, and every other file that is not volatile.

A link is not followed, and an encryption key is never copied: whoever has the backup must not also have its key.
"""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.store.encryption.changing import INDEXES, STORE
from holdfast.store.encryption.marker import key_files

VOLATILE = re.compile(
    r"(holdfast)?\.(lock|pid)|channels\..*|.*-(wal|shm|journal)|.*\.(rekey|part)|\.space-\d+|recall\.db\.damaged-.*"
)
STAGING = ".restore"
SKIPPED_FOLDERS = {"mcp", "lost+found", STAGING}  # working folders of MCP programs


@dataclass(frozen=True, slots=True)
class Contents:
    databases: tuple[str, ...]  # the indexes, then the store
    files: tuple[str, ...]
    left_out: tuple[str, ...]


def contents_of(folder: Path) -> Contents:
    """The relative paths of everything in a data folder that a backup has, and of what it has not."""
    indexes = sorted(path.relative_to(folder).as_posix() for path in folder.glob(INDEXES) if path.is_file())
    databases = [*indexes, STORE]
    keys = {path.resolve() for path in key_files(folder)}
    files: list[str] = []
    left_out: list[str] = []
    for path in _walk(folder):
        name = path.relative_to(folder).as_posix()
        if name in databases or VOLATILE.fullmatch(path.name):
            continue
        is_copied = stat.S_ISREG(path.lstat().st_mode) and path.resolve() not in keys
        (files if is_copied else left_out).append(name)
    return Contents(tuple(databases), tuple(files), tuple(left_out))


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        inside = sorted(name for name in folders if not (root == str(folder) and name in SKIPPED_FOLDERS))
        linked = [name for name in inside if (Path(root) / name).is_symlink()]
        folders[:] = [name for name in inside if name not in linked]
        for name in sorted([*names, *linked]):
            yield Path(root) / name
