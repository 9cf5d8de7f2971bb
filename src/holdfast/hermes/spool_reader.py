"""Reading a spool: the waiting records of all segments in order, and marking what was filed.

Rule 1: reading changes nothing. Marking happens after the filing is durable; a crash in between files a record again,
        which has no effect.
Rule 2: records of one writer are taken in their order; records of several writers by time.
Rule 3: a segment is removed if every line was filed and no writer holds its lock.
Rule 4: a line with a wrong checksum is never guessed at. At the end of a segment without a writer it was never
        acknowledged. Anywhere else it is damage: the segment stays, and the reader reports it.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from holdfast.hermes.plugin.spool import FILED, MAGIC, SUFFIX, VERSION, WAITING, decode, is_free, sync_folder
from holdfast.kernel.errors import SpoolNewer
from holdfast.kernel.files import unwritable

HEADER_BYTES_MAX = 64


@dataclass(frozen=True, slots=True)
class SpoolRecord:
    """A waiting record and its position."""

    segment: Path
    offset: int
    size: int
    at: int  # of the writer, but never before an earlier record of the same writer
    writer: str
    n: int
    content: dict[str, Any] = field(repr=False)

    @property
    def key(self) -> str:
        """The identity of the record, which a repeated filing recognises."""
        return f"{self.writer}-{self.n}"


@dataclass(slots=True)
class SpoolReader:
    """The reader of one spool. `damaged` holds the positions of lines that cannot be read."""

    folder: Path
    damaged: set[tuple[str, int]] = field(default_factory=set)
    _seen: dict[str, tuple[int, int]] = field(default_factory=dict)  # segment -> size and time, if all of it was filed

    def waiting(self) -> list[SpoolRecord]:
        """Every waiting record, in order. Raises `SpoolNewer`, `StoreReadOnly` and `StoreFull`."""
        found: list[SpoolRecord] = []
        latest: dict[str, int] = {}  # by writer, whose segments have names in their order
        for path in self._segments():
            for record in self._read(path):
                latest[record.writer] = max(latest.get(record.writer, 0), record.at)
                found.append(replace(record, at=latest[record.writer]))
        return sorted(found, key=lambda record: (record.at, record.writer, record.n))

    def file(self, records: Iterable[SpoolRecord]) -> None:
        """Mark records as filed, durably, then blank their words."""
        by_segment: dict[Path, list[SpoolRecord]] = {}
        for record in records:
            by_segment.setdefault(record.segment, []).append(record)
        for path, ours in by_segment.items():
            try:
                handle = os.open(path, os.O_WRONLY)
            except OSError as error:
                raise unwritable(f"the spool {path}", error, path=str(path)) from error
            try:
                for record in ours:
                    _overwrite(handle, record.offset, FILED)
                os.fsync(handle)
                for record in ours:
                    _overwrite(handle, record.offset + 1, b" " * (record.size - 2))
            finally:
                os.close(handle)

    def prune(self) -> int:
        """Remove segments whose lines were all filed and that have no writer; their number."""
        removed = 0
        for path in self._segments():
            if self._is_spent(path):
                path.unlink(missing_ok=True)
                self._seen.pop(path.name, None)
                removed += 1
        if removed:
            sync_folder(self.folder)
        return removed

    def _segments(self) -> list[Path]:
        return sorted(self.folder.glob(f"*{SUFFIX}")) if self.folder.is_dir() else []

    def _read(self, path: Path) -> Iterator[SpoolRecord]:
        try:
            stat = path.stat()
            if self._seen.get(path.name) == (stat.st_size, stat.st_mtime_ns):
                return
            data = path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise unwritable(f"the spool {path} cannot be read", error, path=str(path)) from error
        offset = check_header(path, data)
        is_idle = True
        while offset < len(data):
            end = data.find(b"\n", offset) + 1
            if end == 0:
                return  # the writer is at work, or died here: the line was never acknowledged
            line = data[offset:end]
            if line[:1] != FILED:
                content = decode(line) if line[:1] == WAITING else None
                if content is None:
                    self.damaged.add((path.name, offset))
                else:
                    is_idle = False
                    at, writer, n = int(content.get("at", 0)), str(content.get("w", "")), int(content.get("n", 0))
                    yield SpoolRecord(path, offset, len(line), at, writer, n, content)
            offset = end
        if is_idle:
            self._seen[path.name] = stat.st_size, stat.st_mtime_ns

    def _is_spent(self, path: Path) -> bool:
        """Whether nothing of the segment is needed. The lock of a writer that lives is not available."""
        try:
            handle = os.open(path, os.O_RDWR)
        except OSError:
            return False
        try:
            is_read = is_free(handle) and not any(True for _ in self._read(path))
            return is_read and not any(name == path.name for name, _ in self.damaged)
        finally:
            os.close(handle)


def check_header(path: Path, data: bytes) -> int:
    """The position of the first record. Raises `SpoolNewer`."""
    end = data.find(b"\n", 0, HEADER_BYTES_MAX) + 1
    if end == 0:
        return len(data)  # the writer died before it wrote the header
    header = data[:end]
    version = header[len(MAGIC) :].strip()
    if not header.startswith(MAGIC) or not version.isdigit():
        raise SpoolNewer(f"{path} is not a spool of Holdfast", path=str(path))
    if int(version) > VERSION:
        what = f"{path} has the format {int(version)}, and this release reads {VERSION}"
        raise SpoolNewer(what, path=str(path))
    return end


def _overwrite(handle: int, offset: int, data: bytes) -> None:
    os.lseek(handle, offset, os.SEEK_SET)
    while data:
        data = data[os.write(handle, data) :]
