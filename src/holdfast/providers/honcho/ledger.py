"""What was migrated: a file of keys in the provider's own folder. A key that is marked stays marked.

The file is written anew beside the old one, synced and renamed, so that a crash leaves the old or the new, whole.
"""

import os
from pathlib import Path
from typing import Protocol

import msgspec

from holdfast.kernel.errors import StoreCorrupt
from holdfast.kernel.folders import make_private_folder

FILE = "migrated.json"


class Ledger(Protocol):
    def seen(self, key: str) -> bool: ...

    def mark(self, key: str) -> None:
        """Durable when it returns."""
        ...


class FileLedger:
    """One process at a time writes it: the owner of the data folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def seen(self, key: str) -> bool:
        return key in self._keys()

    def mark(self, key: str) -> None:
        keys = self._keys()
        if key in keys:
            return
        make_private_folder(self._path.parent)
        fresh = self._path.with_suffix(".new")
        with os.fdopen(os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as opened:
            opened.write(msgspec.json.encode([*keys, key]))
            opened.flush()
            os.fsync(opened.fileno())
        fresh.replace(self._path)
        _sync_folder(self._path.parent)

    def _keys(self) -> list[str]:
        """A ledger that cannot be read is not an empty one: everything would be sent a second time."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[str])
        except FileNotFoundError:
            return []
        except msgspec.DecodeError as error:
            what = f"{self._path} is damaged; restore it, or delete it to migrate once more"
            raise StoreCorrupt(what, file=str(self._path)) from error


def _sync_folder(folder: Path) -> None:
    """A rename is durable when its folder is; where folders cannot be opened (Windows) it is so by itself."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
