"""The data folder: checks its owner and removes other users' permissions. Runs at each start, without a lock.

Rule 1: the user who runs Holdfast owns the folder and Holdfast's files in it. Any other owner is refused.
Rule 2: permissions of group and others are removed. The caller reports each change.
Rule 3: no path that Holdfast writes is a link that leads out of the folder. The operator's own links are left alone.
Rule 4: a folder that others may use and that holds foreign files is refused: `--data /etc` must not make /etc private.
Rule 5: every path is checked before any is changed. No file is opened: closing it would drop SQLite's locks.
"""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.kernel.errors import DataFolderForeign, DataFolderUnsafe
from holdfast.kernel.files import unwritable

OTHERS = 0o077
KNOWN_BY = {"holdfast.db", "holdfast.toml"}  # either file identifies a folder of Holdfast
SEARCHED = "agents"  # searched recursively; files of other folders are protected by the mode of their folder
_OURS = re.compile(r"holdfast\.(db|log|lock|pid).*|token|channels\..*|mcp\..*\.log.*|agents|mcp|\.space-\d+")
_OPERATORS = re.compile(r"holdfast\.toml.*|lost\+found|\..*")


@dataclass(frozen=True, slots=True)
class Tightened:
    path: Path
    mode: int  # the previous mode

    @property
    def sentence(self) -> str:
        return f"others could use {self.path} (mode {self.mode:04o}); now only its owner can"


def check_owner(folder: Path) -> None:
    """Raise `DataFolderForeign` for another user's folder, without changing it."""
    if folder.exists():
        _check_owner(folder, folder.stat())


def make_private(folder: Path) -> list[Tightened]:
    """Remove other users' permissions and return the changes. Raises `DataFolderForeign` and `DataFolderUnsafe`."""
    if os.name != "posix" or not folder.exists():
        return []
    real = folder.resolve()
    found = [Tightened(path, stat.S_IMODE(one.st_mode)) for path, one in _checked(real, folder)]
    loose = [one for one in found if one.mode & OTHERS]
    for one in loose:
        try:
            one.path.chmod(one.mode & ~OTHERS)
        except FileNotFoundError:  # a temporary file of a process that serves the folder: a WAL, a draft
            continue
        except OSError as error:
            raise unwritable(f"the mode of {one.path} cannot be changed", error, path=str(one.path)) from error
    return loose


def _checked(real: Path, named: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every path whose mode matters. The caller exhausts this before it changes a mode."""
    own = real.stat()
    _check_owner(named, own)
    names = sorted(os.listdir(real))  # noqa: PTH208 - names
    if own.st_mode & OTHERS and not KNOWN_BY & set(names) and (strange := _strange(names)):
        what = f"{named}: others may use it, and it holds more than Holdfast's data ({strange})"
        raise DataFolderUnsafe(what, path=str(named))
    yield real, own
    for name in names:
        yield from _entry(real / name, real, is_ours=_OURS.fullmatch(name) is not None)


def _strange(names: list[str]) -> str:
    """The first unknown name; empty if all are known."""
    return next((name for name in names if not _OURS.fullmatch(name) and not _OPERATORS.fullmatch(name)), "")


def _entry(path: Path, root: Path, *, is_ours: bool) -> Iterator[tuple[Path, os.stat_result]]:
    try:
        one = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(one.st_mode):
        if is_ours and not path.resolve().is_relative_to(root):
            what = f"{path.relative_to(root)} is a link that leads out of the data folder {root}"
            raise DataFolderUnsafe(what, path=str(path))
        return
    if is_ours:
        _check_owner(path, one)
    elif not _is_mine(one):
        return  # owned by another user, and not a file of Holdfast
    yield path, one
    if stat.S_ISDIR(one.st_mode) and path.relative_to(root).parts[0] == SEARCHED:
        for name in sorted(os.listdir(path)):  # noqa: PTH208 - names
            yield from _entry(path / name, root, is_ours=True)


def _check_owner(path: Path, one: os.stat_result) -> None:
    if not _is_mine(one):
        what = f"{path} belongs to the user with the number {one.st_uid}, and this process runs as another"
        raise DataFolderForeign(what, path=str(path))


def _is_mine(one: os.stat_result) -> bool:
    return one.st_uid == os.geteuid() if hasattr(os, "geteuid") else True
