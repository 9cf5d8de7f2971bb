"""The spool: an append-only folder of records that Hermes writes and a Holdfast process takes.

This module uses the standard library alone: `holdfast hermes install` copies it into the home of Hermes, where the rest
of Holdfast is not installed. The taker (hermes/spool_reader.py) imports it from here, so there is one format.

Rule 1: a segment has one writer process. It begins with the line `holdfast-spool 1`; every other line is
        `+<crc32> <json>`. The first byte of a line that was filed is `-`, and blanks replace its words.
Rule 2: a record is acknowledged after its line is synced. A line without its newline was never acknowledged.
Rule 3: the identity of a record is (writer, n). A record that is written again, because syncing failed, keeps it.
Rule 4: the writer holds a lock of its segment while it may append. Only segments without a writer are removed.
"""

import json
import os
import threading
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows: an open file cannot be removed there, which has the same effect as the lock
    fcntl = None  # type: ignore[assignment]

VERSION = 1
MAGIC = b"holdfast-spool "
HEADER = MAGIC + b"%d\n" % VERSION
WAITING, FILED = b"+", b"-"
SUFFIX = ".spool"
FOLDER = "holdfast"  # of the home of Hermes: the spool, the store and the files of the process beside Hermes
SEGMENT_BYTES_MAX = 1 << 20
RECORD_BYTES_MAX = 64 << 20
_CRC_END = 9  # a mark, eight digits, a blank
_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))  # one for all records: making it costs more


class SpoolError(OSError):
    """A record could not be made durable."""


def encode(record: Mapping[str, Any]) -> bytes:
    """The line of a record. A lone surrogate is kept as its escape."""
    body = _ENCODER.encode(record).encode()
    return WAITING + b"%08x " % zlib.crc32(body) + body + b"\n"


def decode(line: bytes) -> dict[str, Any] | None:
    """The record of a waiting line; None if its checksum is wrong."""
    body = line[_CRC_END + 1 :].rstrip(b"\n")
    if line[_CRC_END : _CRC_END + 1] != b" " or line[1:_CRC_END] != b"%08x" % zlib.crc32(body):
        return None
    read = json.loads(body)
    return read if isinstance(read, dict) else None


class Segment:
    """An open segment of this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        try:
            if fcntl is not None:
                fcntl.flock(self.handle, fcntl.LOCK_EX)
            self.size = os.write(self.handle, HEADER)
            os.fsync(self.handle)
            sync_folder(path.parent)
        except OSError:
            self.close()
            raise

    @property
    def is_usable(self) -> bool:
        """Whether a line that is appended now will be found: the file was not removed, and has room."""
        return self.size < SEGMENT_BYTES_MAX and os.fstat(self.handle).st_nlink > 0

    def append(self, line: bytes) -> None:
        """Write and sync one line. After an error the segment ends before the line, or the line is whole."""
        try:
            written = os.write(self.handle, line)
            while written < len(line):
                written += os.write(self.handle, line[written:])
        except OSError:
            os.ftruncate(self.handle, self.size)
            raise
        self.size += len(line)
        getattr(os, "fdatasync", os.fsync)(self.handle)

    def close(self) -> None:
        os.close(self.handle)


class Spool:
    """The writer of one home in this process. It is safe from any thread, and after a fork in both processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._segment: Segment | None = None
        self._pid = 0
        self._writer = ""
        self._n = 0

    def append(self, record: Mapping[str, Any]) -> str:
        """Make a record durable and return its identity. Raises `SpoolError`; then it may be taken or not."""
        with self._lock:
            if self._pid != os.getpid():
                self._begin()
            self._n += 1
            at = time.time_ns() // 1_000_000
            line = encode({"v": VERSION, "w": self._writer, "n": self._n, "at": at, **record})
            if len(line) > RECORD_BYTES_MAX:
                raise SpoolError(f"the record has {len(line)} bytes; the limit is {RECORD_BYTES_MAX}")
            try:
                self._ready().append(line)
            except OSError:
                self._drop()
                self._retry(line)
            return f"{self._writer}-{self._n}"

    def _retry(self, line: bytes) -> None:
        """Write the same record to a new segment: what an unsynced page holds is unknown."""
        try:
            self._ready().append(line)
        except OSError as error:
            self._drop()
            raise SpoolError(error.errno, f"the turn is not durable: {error.strerror}", str(self.folder)) from error

    def _begin(self) -> None:
        """A new writer: at the first record of a process, also of a forked one."""
        self._segment = None  # of the parent process, which goes on to use it
        self._pid, self._n = os.getpid(), 0
        self._writer = os.urandom(8).hex()

    def _ready(self) -> Segment:
        if self._segment is not None and not self._segment.is_usable:
            self._drop()
        if self._segment is None:
            for folder in (self.folder.parent, self.folder):
                folder.mkdir(mode=0o700, exist_ok=True)
            self._segment = Segment(self.folder / f"{self._writer}-{self._n:012d}-{os.urandom(4).hex()}{SUFFIX}")
        return self._segment

    def _drop(self) -> None:
        if self._segment is not None:
            self._segment.close()
            self._segment = None

    def close(self) -> None:
        """Give the segment up. A later record opens another one."""
        with self._lock:
            if self._pid == os.getpid():
                self._drop()


_spools: dict[str, Spool] = {}  # by folder; `setdefault` is atomic
_named: dict[str, Spool] = {}  # by the home as it was given, so that a turn does not resolve its path again


def _forget() -> None:
    """Another thread may have held a lock while the process forked."""
    _spools.clear()
    _named.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def spool_of(home: str | Path) -> Spool:
    """The spool of a home. All agents of a process that use the home share it. Ask anew for each record."""
    name = str(home)
    found = _named.get(name)
    if found is not None:
        return found
    folder = Path(os.path.realpath(home)) / FOLDER / "spool"
    spool = _spools.setdefault(str(folder), Spool(folder))
    return _named.setdefault(name, spool) if os.path.isabs(name) else spool  # noqa: PTH117 - a name, before a path


def is_free(handle: int) -> bool:
    """Whether no writer holds the segment. The lock is then held until the handle is closed."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Make new names in a folder durable; Windows cannot open a folder."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
