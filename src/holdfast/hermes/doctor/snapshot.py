"""A consistent, read-only view of Hermes' state.db, with the changes that are still in its write-ahead log.

SQLite writes beside a database even to read it: a reader of a write-ahead log makes or changes `state.db-shm`. So both
files are copied to a private temporary folder, and the copy is opened with `mode=ro`. The home keeps every byte, and a
read-only home can be examined. A copy is consistent if neither file changed meanwhile; otherwise it is made again.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from holdfast.kernel.errors import HermesDatabaseCorrupt, HermesDatabaseMissing, HermesHomeInvalid, HermesRunning

COPIES_MAX = 20
HEADER = b"SQLite format 3\x00"
WRITER_VERSION = slice(96, 100)  # the version of the library that changed the file last


class DatabaseSnapshot:
    """An open copy of state.db. `db` may be read only."""

    def __init__(self, db: apsw.Connection, source: Path, copy: Path) -> None:
        self.db, self.source, self.copy = db, source, copy

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401 - values of any column
        """All rows of a query.

        Raises `HermesDatabaseCorrupt` if a page cannot be read, `HermesHomeInvalid` if a table or column is missing.
        """
        try:
            return [tuple(row) for row in self.db.execute(statement, values)]
        except (apsw.CorruptError, apsw.NotADBError, apsw.IOError) as error:
            raise corrupt(self.source, str(error)) from error
        except apsw.SQLError as error:
            what = f"{self.source} is not a database of Hermes: {error}"
            raise HermesHomeInvalid(what, path=str(self.source)) from error

    def columns(self, table: str) -> frozenset[str]:
        """The columns of a table; none if the table does not exist."""
        return frozenset(str(row[1]) for row in self.rows(f"pragma table_info({table})"))

    @property
    def writer(self) -> tuple[int, int, int]:
        """The version of the SQLite library that last changed the file."""
        with self.copy.open("rb") as opened:
            number = int.from_bytes(opened.read(100)[WRITER_VERSION], "big")
        return number // 1_000_000, number // 1_000 % 1_000, number % 1_000


def corrupt(path: Path, why: str) -> HermesDatabaseCorrupt:
    return HermesDatabaseCorrupt(f"{path}: the database is damaged and cannot be read: {why}", path=str(path))


@contextmanager
def open_snapshot(source: Path) -> Iterator[DatabaseSnapshot]:
    """Copy and open the database.

    Raises `HermesDatabaseMissing`, `HermesDatabaseCorrupt`, and `HermesRunning` if the files change all the time.
    """
    with tempfile.TemporaryDirectory(prefix="holdfast-hermes-") as folder:
        copy = Path(folder) / "state.db"
        copy_database(source, copy)
        with read_only(copy, source) as db:
            yield DatabaseSnapshot(db, source, copy)


@contextmanager
def read_only(copy: Path, source: Path) -> Iterator[apsw.Connection]:
    """Open a private copy with `mode=ro`; errors name the source."""
    db = apsw.Connection(f"{copy.as_uri()}?mode=ro", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        try:
            db.execute("select count(*) from sqlite_master").fetchall()
        except apsw.Error as error:
            raise corrupt(source, str(error)) from error
        yield db
    finally:
        db.close(True)


def copy_database(source: Path, copy: Path) -> None:
    """Copy the database and its write-ahead log, as they are at one moment."""
    log = source.with_name(f"{source.name}-wal")
    if not source.is_file():
        raise HermesDatabaseMissing(
            f"{source} does not exist; Hermes has not stored any session here", path=str(source)
        )
    for _ in range(COPIES_MAX):
        before = _state(source), _state(log)
        try:
            shutil.copyfile(source, copy)
            copied = copy.with_name(f"{copy.name}-wal")
            copied.unlink(missing_ok=True)
            if before[1] is not None:
                shutil.copyfile(log, copied)
        except FileNotFoundError:
            continue  # Hermes closed the database, which removes its log
        except PermissionError as error:
            raise HermesDatabaseMissing(f"{source} cannot be read: {error.strerror}", path=str(source)) from error
        if before == (_state(source), _state(log)):
            _check_header(source, copy)
            return
    raise HermesRunning(f"{source} changed during each of {COPIES_MAX} attempts to copy it", path=str(source))


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def _check_header(source: Path, copy: Path) -> None:
    with copy.open("rb") as opened:
        begins = opened.read(len(HEADER))
    if begins and begins != HEADER:
        raise corrupt(source, "it does not begin as an SQLite database does")
