"""The data folder: whose it is, and that nobody else gets at what is in it. Called at each start, under no lock.

Rule 1: the folder, and what Holdfast keeps in it, belongs to the user who runs Holdfast. Anything else is refused.
Rule 2: what others may use is taken from them: the mode loses the bits of group and others. The caller tells.
Rule 3: what Holdfast writes is no link that leads out of the folder. Links of the operator's own are left alone.
Rule 4: a folder that others may use, and that holds more than Holdfast's data, is refused: `--data /etc` must not take
        /etc from everybody else.
Rule 5: everything is looked at before anything is changed. Nothing is opened: that would drop SQLite's locks.
"""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.kernel.disk_space import unwritable
from holdfast.kernel.errors import DataFolderForeign, DataFolderUnsafe

OTHERS = 0o077
KNOWN_BY = {"holdfast.db", "holdfast.toml"}  # a folder with one of them is Holdfast's
SEARCHED = "agents"  # with everything below it; what is in other folders is reached through them only
_OURS = re.compile(r"holdfast\.(db|log|lock|pid).*|token|channels\..*|mcp\..*\.log.*|agents|mcp|\.space-\d+")
_OPERATORS = re.compile(r"holdfast\.toml.*|lost\+found|\..*")


@dataclass(frozen=True, slots=True)
class Tightened:
    path: Path
    mode: int  # the one before

    @property
    def sentence(self) -> str:
        return f"others could use {self.path} (mode {self.mode:04o}); now only its owner can"


def check_owner(folder: Path) -> None:
    """Raise `DataFolderForeign` for a folder of another user; nothing is changed."""
    if folder.exists():
        _check_owner(folder, folder.stat())


def make_private(folder: Path) -> list[Tightened]:
    """Take from others what they may use, and say what that was. Raises `DataFolderForeign` and `DataFolderUnsafe`."""
    if os.name != "posix" or not folder.exists():
        return []
    real = folder.resolve()
    found = [Tightened(path, stat.S_IMODE(one.st_mode)) for path, one in _checked(real, folder)]
    loose = [one for one in found if one.mode & OTHERS]
    for one in loose:
        try:
            one.path.chmod(one.mode & ~OTHERS)
        except FileNotFoundError:  # of a process that serves the folder now: a log of the store, a draft
            continue
        except OSError as error:
            raise unwritable(f"the mode of {one.path} cannot be changed", error, path=str(one.path)) from error
    return loose


def _checked(real: Path, named: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Everything whose mode counts. Consumed whole before anything is changed."""
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
    """The first name that is not known; empty when all are."""
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
        return  # not ours, in no sense
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
