"""Memory files on disk: read without following links, replaced as a whole, never overwritten unread.

Rule 1: a file that cannot be read is a fault, never an empty file.
Rule 2: a file is replaced only if it is still the one that was read. The old version is linked beside it first, so that
        a late write of an editor is found there.
Rule 3: a file that appears where there was none is never overwritten.

Limit: no POSIX call prevents an editor from renaming its own file over ours between the last check and our rename. The
window is microseconds, and the version before it is kept.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from holdfast.kernel.files import make_private_folder, sync_folder, why_unusable, write_synced
from holdfast.memory.notes_text import digest

FILE_BYTES_MAX = 1 << 20
PRIVATE_FILE = 0o600
READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}

Signature: TypeAlias = tuple[int, ...]  # inode, size, time and type: equal means unchanged


class FileFault(Exception):
    """A memory file cannot be used. `lasting` says that a person must act; otherwise a retry may succeed."""

    def __init__(self, reason: str, *, lasting: bool) -> None:
        super().__init__(reason)
        self.reason, self.lasting = reason, lasting


@dataclass(frozen=True, slots=True)
class Content:
    data: bytes
    digest: str
    signature: Signature


class Disk:
    """Blocking calls. `root` is the provider's own folder; error messages name files relative to it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def look(self, path: Path) -> Signature | None:
        """The signature of the file, without opening it; None if it does not exist."""
        with self._faults(path, "looked at"), suppress(FileNotFoundError):
            return _signature(os.lstat(path))
        return None

    def read(self, path: Path) -> Content | None:
        """The file, or None if it does not exist. Raises `FileFault` for anything but a regular file."""
        self._refuse_link(path)
        with self._faults(path, "read"):
            try:
                handle = os.open(path, READ)
            except FileNotFoundError:
                return None
            try:
                found = os.fstat(handle)
                self._refuse_odd(path, found)
                with os.fdopen(handle, "rb", closefd=False) as file:
                    data = file.read(FILE_BYTES_MAX + 1)
            finally:
                os.close(handle)
        return Content(data, digest(data), _signature(found))

    def text(self, path: Path, content: Content) -> str:
        """The text of a file that was read. Raises `FileFault` if it is not UTF-8."""
        try:
            return content.data.decode()
        except UnicodeDecodeError as error:
            reason = f"{self.name(path)} is not UTF-8 (byte {error.start}); save it as UTF-8"
            raise FileFault(reason, lasting=True) from error

    def replace(self, path: Path, data: bytes, seen: Content | None, previous: Content | None) -> bool:
        """Replace the file if it, and the version linked beside it, are still those that were read.

        False if they are not; then the file is unchanged.
        """
        with self._faults(path, "written"):
            self._make_folder(path.parent)
            new = self._write_new(path, data)
            try:
                if seen is None:
                    return self._place(new, path)
                if not self._keep(path, seen, previous):
                    return False
                self._swap(new, path)
            finally:
                new.unlink(missing_ok=True)
            sync_folder(path.parent)
        return True

    def _swap(self, new: Path, path: Path) -> None:
        os.replace(new, path)  # noqa: PTH105 - the call that tests watch

    def _keep(self, path: Path, seen: Content, previous: Content | None) -> bool:
        """Link the old version; False if it is not the one that was read."""
        kept = previous_of(path)
        if _digest_of(self.read(kept)) != _digest_of(previous):
            return False
        kept.unlink(missing_ok=True)
        try:
            _link(path, kept)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
        now = self.read(path)
        linked = self.look(kept)
        return now is not None and now.digest == seen.digest and (linked is None or linked[0] == now.signature[0])

    def _place(self, new: Path, path: Path) -> bool:
        """Create the first version: a link, unlike a rename, never replaces a file that has just appeared."""
        try:
            _link(new, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            self._swap(new, path)
        sync_folder(path.parent)
        return True

    def write(self, path: Path, data: bytes) -> None:
        """Replace a file that only this process writes."""
        with self._faults(path, "written"):
            self._make_folder(path.parent)
            new = self._write_new(path, data)
            os.replace(new, path)  # noqa: PTH105
            sync_folder(path.parent)

    def copy_aside(self, path: Path, data: bytes) -> Path:
        """Copy a version to the next free name beside the file."""
        with self._faults(path, "copied"):
            for n in range(1, 10_000):
                aside = path.with_name(f"{path.name}.edited.{n}")
                with suppress(FileExistsError):
                    write_synced(os.open(aside, MAKE, PRIVATE_FILE), data)
                    sync_folder(path.parent)
                    return aside
        raise FileFault(f"{self.name(path)} has too many copies beside it; remove old ones", lasting=True)

    def remove(self, *paths: Path) -> None:
        with self._faults(paths[0], "removed"):
            for path in paths:
                path.unlink(missing_ok=True)

    def name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    # --- inside

    def _make_folder(self, folder: Path) -> None:
        """Create the folder; no part of its path below the root may be a link."""
        if folder != self.root:
            self._make_folder(folder.parent)
            self._refuse_link(folder)
        make_private_folder(folder)

    def _write_new(self, path: Path, data: bytes) -> Path:
        new = path.with_name(f".{path.name}.new")
        new.unlink(missing_ok=True)  # left by a process that died; the lock excludes other writers
        write_synced(os.open(new, MAKE, PRIVATE_FILE), data)
        return new

    def _refuse_link(self, path: Path) -> None:
        below = path.relative_to(self.root).parts
        for depth in range(1, len(below) + 1):
            part = self.root.joinpath(*below[:depth])
            if part.is_symlink():
                raise FileFault(f"{self.name(part)} is a symbolic link; put a plain file there", lasting=True)

    def _refuse_odd(self, path: Path, found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            raise FileFault(f"{self.name(path)} is a folder; put a plain file there", lasting=True)
        if not stat.S_ISREG(found.st_mode):
            raise FileFault(f"{self.name(path)} is not a regular file", lasting=True)
        if found.st_size > FILE_BYTES_MAX:
            raise FileFault(f"{self.name(path)} has more than {FILE_BYTES_MAX} bytes", lasting=True)

    @contextmanager
    def _faults(self, path: Path, what: str) -> Iterator[None]:
        """Raise `FileFault` for an error of the system."""
        try:
            yield
        except OSError as error:
            is_link = error.errno == errno.ELOOP
            why = "is a symbolic link; put a plain file there"
            if not is_link:
                why = f"cannot be {what} ({why_unusable(error)}); nothing was changed"
            raise FileFault(f"{self.name(path)} {why}", lasting=is_link) from error


def _digest_of(content: Content | None) -> str | None:
    return content.digest if content is not None else None


def previous_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.previous")


def _link(existing: Path, name: Path) -> None:
    if os.link in os.supports_follow_symlinks:
        os.link(existing, name, follow_symlinks=False)
    else:
        os.link(existing, name)


def _signature(found: os.stat_result) -> Signature:
    return (found.st_ino, found.st_size, found.st_mtime_ns, stat.S_IFMT(found.st_mode))
