"""A disk that forgets: an apsw VFS whose files live in memory behind a volatile cache.

The model, as pessimistic as it can be read into POSIX:
- a write is durable after the next sync of its file; until then each of its 512-byte sectors may have
  landed, be lost, or be torn in the middle, in any order;
- a name made is durable after the next sync of its file (SQLite's Unix layer, or the file system, then
  syncs the folder), a name removed only when its removal asked for it: nothing else syncs the folder;
- a sync that fails may have dropped any of the pages it was to write, and the next one does not know.

`crash(chance)` is the disk as it may be found after the power failed just now. The Python VFS has no
shared memory, so WAL needs `locking_mode=exclusive` here.

A run is not repeated exactly by its seed: the salts of a log come from SQLite's own generator, which belongs
to the process. So a bad state is kept as an image, not as a number.
"""

import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import apsw

VFS_NAME = "forgetful"
SECTOR_BYTES = 512

Image = dict[str, bytes]
Fault = Callable[[str, str], Exception | None]  # (kind of operation, file name) -> what it fails with


class Inode:
    """One file: what is on the platter, what the running system sees, and the changes between them."""

    def __init__(self, content: bytes = b"") -> None:
        self.durable = bytearray(content)
        self.seen = bytearray(content)
        self.pending: list[tuple[int, bytes | None]] = []  # (offset, data), or (size, None) for a truncation

    def change(self, offset: int, data: bytes | None) -> None:
        apply(self.seen, offset, data)
        self.pending.append((offset, data))

    def sync(self) -> None:
        for offset, data in self.pending:
            apply(self.durable, offset, data)
        self.pending.clear()

    def forget_some(self, chance: random.Random) -> None:
        self.pending = [change for change in self.pending if chance.random() < 0.5]

    def crash(self, chance: random.Random) -> bytes:
        """The content after a power loss: all, none, the first, or any of the pending changes."""
        found = bytearray(self.durable)
        fate = chance.choice(("all", "none", "first", "any", "any", "any"))
        landed = chance.randrange(len(self.pending) + 1) if fate == "first" else len(self.pending)
        for offset, data in () if fate == "none" else self.pending[:landed]:
            if fate != "any":
                apply(found, offset, data)
            elif data is None:
                if chance.random() < 0.5:
                    apply(found, offset, None)
            else:
                apply_sectors(found, offset, data, chance)
        return bytes(found)


def apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        return
    content.extend(bytes(max(0, offset + len(data) - len(content))))
    content[offset : offset + len(data)] = data


def apply_sectors(content: bytearray, offset: int, data: bytes, chance: random.Random) -> None:
    for start in range(0, len(data), SECTOR_BYTES):
        sector, fate = data[start : start + SECTOR_BYTES], chance.random()
        if fate < 0.5:
            apply(content, offset + start, sector)
        elif fate < 0.55:
            apply(content, offset + start, sector[: chance.randrange(len(sector) + 1)])


class Disk:
    """One folder of files. `watch` is called before every operation, `fault` may fail it."""

    def __init__(self, image: Image | None = None, *, seed: int = 0, lies: bool = False) -> None:
        self.seen = {name: Inode(content) for name, content in (image or {}).items()}
        self.durable = dict(self.seen)
        self.chance = random.Random(seed)
        self.lies = lies  # a disk that says "synced" and is not
        self.operations = 0
        self.watch: Callable[[], None] | None = None
        self.fault: Fault | None = None

    def operate(self, kind: str, name: str) -> None:
        self.operations += 1
        if self.watch:
            self.watch()
        error = self.fault(kind, name) if self.fault else None
        if error:
            raise error

    def sync_name(self, name: str) -> None:
        if self.lies:
            return
        if name in self.seen:
            self.durable[name] = self.seen[name]
        else:
            self.durable.pop(name, None)

    def crash(self, chance: random.Random) -> Image:
        image: Image = {}
        for name in sorted(self.seen.keys() | self.durable.keys()):
            before, now = self.durable.get(name), self.seen.get(name)
            inode = now if before is now or chance.random() < 0.5 else before
            if inode:
                image[name] = inode.crash(chance)
        return image

    def image(self) -> Image:
        """The disk as the running system sees it."""
        return {name: bytes(inode.seen) for name, inode in self.seen.items()}


class OpenFile:
    def __init__(self, disk: Disk, name: str) -> None:
        self.disk, self.name = disk, name
        self.inode = disk.seen.setdefault(name, Inode())

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self.disk.operate("read", self.name)
        return bytes(self.inode.seen[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self.disk.operate("write", self.name)
        self.inode.change(offset, bytes(data))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self.disk.operate("truncate", self.name)
        self.inode.change(size, None)

    def xSync(self, flags: int) -> None:  # noqa: N802
        try:
            self.disk.operate("sync", self.name)
        except apsw.Error:
            self.inode.forget_some(self.disk.chance)
            raise
        if not self.disk.lies:
            self.inode.sync()
            self.disk.sync_name(self.name)

    def xFileSize(self) -> int:  # noqa: N802
        return len(self.inode.seen)

    def xLock(self, level: int) -> None:  # noqa: N802
        """One process, exclusive mode: there is no other process to lock out."""

    def xUnlock(self, level: int) -> None:  # noqa: N802
        """As above."""

    def xCheckReservedLock(self) -> bool:  # noqa: N802
        return False

    def xFileControl(self, op: int, pointer: int) -> bool:  # noqa: N802
        return False

    def xSectorSize(self) -> int:  # noqa: N802
        return SECTOR_BYTES

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        return 0  # nothing is promised, not even that a sector survives a write beside it

    def xClose(self) -> None:  # noqa: N802
        """Closing makes nothing durable."""


class Forgetful(apsw.VFS):
    """Finds the disk by the first part of the path: `<number>/<file>`."""

    def __init__(self) -> None:
        super().__init__(VFS_NAME, "", maxpathname=200)
        self.disks: dict[str, Disk] = {}
        self.numbers = itertools.count()

    def find(self, path: str) -> tuple[Disk, str]:
        number, name = path.split("/", 1)
        return self.disks[number], name

    def xOpen(self, path, flags):  # noqa: N802
        disk, name = self.find(path.filename() if isinstance(path, apsw.URIFilename) else path)
        disk.operate("open", name)
        flags[1] = flags[0]
        return OpenFile(disk, name)

    def xDelete(self, path, sync_folder):  # noqa: N802
        disk, name = self.find(path)
        disk.operate("delete", name)
        if disk.seen.pop(name, None) is None:
            raise apsw.exception_for(apsw.SQLITE_IOERR_DELETE_NOENT)
        if sync_folder:
            disk.sync_name(name)

    def xAccess(self, path, flags):  # noqa: N802
        disk, name = self.find(path)
        return name in disk.seen

    def xFullPathname(self, path):  # noqa: N802
        return path


_vfs = Forgetful()


@contextmanager
def mounted(disk: Disk) -> Iterator[str]:
    """The path of a database on this disk, for as long as it is mounted."""
    number = str(next(_vfs.numbers))
    _vfs.disks[number] = disk
    try:
        yield f"{number}/t.db"
    finally:
        del _vfs.disks[number]
