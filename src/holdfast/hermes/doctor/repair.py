"""Repairing a home: always on a private copy first. The result becomes a folder of its own, or replaces the database.

In place, the database is locked exclusively for the whole time, so no Hermes can read or write it meanwhile; a copy of
what was there is kept. The repaired pages are written as one transaction. A repair of a repaired home changes nothing.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

from holdfast.hermes.doctor.examination import Examination, examine
from holdfast.hermes.doctor.finding import HermesFinding
from holdfast.hermes.doctor.home_files import HomeFiles, running_process
from holdfast.hermes.doctor.records import Records, read_records
from holdfast.hermes.doctor.repair_diff import database_diff, mirror_diff
from holdfast.hermes.doctor.repair_fixes import RepairWork, fix
from holdfast.hermes.doctor.snapshot import copy_database, open_snapshot
from holdfast.kernel.errors import (
    HermesDatabaseCorrupt,
    HermesHomeReadOnly,
    HermesRunning,
    InvalidInput,
)
from holdfast.kernel.files import unwritable

ROUNDS_MAX = 100
BEYOND_REPAIR = "the damaged pages cannot be repaired; recover them with `sqlite3 state.db .recover` first"
COPIED = ("sessions", "memories", "logs")
MIRROR = Path("sessions") / "sessions.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairResult:
    """What a repair changed, and what the doctor says afterwards."""

    applied: Sequence[HermesFinding]
    diff: Sequence[str]
    after: Examination
    place: str = ""  # the repaired home, or empty after a dry run
    backup: str = ""


def preview(home: Path, now: float) -> RepairResult:
    """Repair a temporary copy and tell the difference. Nothing is kept. Raises `HermesRunning`."""
    _refuse_running(home)
    with _workshop(home) as work:
        copy_database(home / "state.db", work / "state.db")
        return _repair_copy(work, now)


def repair_to(home: Path, target: Path, now: float) -> RepairResult:
    """Make a repaired copy of the home in a folder that does not exist yet.

    Raises `InvalidInput` if it does, and `HermesRunning`: a compression that is under way looks like a broken one.
    """
    _refuse_running(home)
    if target.exists():
        raise InvalidInput(
            f"--to {target}: it exists already and was not changed; name another folder", path=str(target)
        )
    with _workshop(home) as work:
        copy_database(home / "state.db", work / "state.db")
        result = _repair_copy(work, now)
        try:
            target.mkdir(mode=0o700, parents=True)
            shutil.copytree(work, target, dirs_exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"--to {target}: {error.strerror}", path=str(target)) from error
    _make_private(target)
    return _placed(result, target)


def repair_in_place(home: Path, backup: Path, now: float) -> RepairResult:
    """Repair the home itself, keeping what was there in `backup`.

    Raises `HermesRunning` if any process has the database open, `HermesHomeReadOnly`, and what `examine` raises.
    """
    _refuse_running(home)
    if not os.access(home, os.W_OK) or not os.access(home / "state.db", os.W_OK):
        raise HermesHomeReadOnly(f"{home} cannot be written", path=str(home))
    with open_snapshot(home / "state.db") as snapshot:
        read_records(snapshot)  # SQLite writes to a file that it takes for an empty database, even to lock it
    with _workshop(home) as work, _locked(home / "state.db") as db:
        _backup(db, work / "state.db")
        kept = Path(tempfile.mkdtemp(prefix="before-", dir=work.parent))
        _backup(db, kept / "state.db")
        result = _repair_copy(work, now)
        if not result.diff:
            return _placed(result, home)
        _keep(home, kept, backup)
        source = apsw.Connection(str(work / "state.db"), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            with db.backup("main", source, "main") as copying:
                copying.step()
        finally:
            source.close()
        _write_mirror(home, work)
    return _placed(result, home, backup)


def _refuse_running(home: Path) -> None:
    if running := running_process(home):
        raise HermesRunning(f"{home} is in use by {running}", path=str(home))


def _placed(result: RepairResult, place: Path, backup: Path | None = None) -> RepairResult:
    kept = str(backup) if backup is not None else ""
    return RepairResult(applied=result.applied, diff=result.diff, after=result.after, place=str(place), backup=kept)


@contextmanager
def _workshop(home: Path) -> Iterator[Path]:
    """A private folder with copies of the files beside the database."""
    with tempfile.TemporaryDirectory(prefix="holdfast-hermes-") as folder:
        work = Path(folder) / "home"
        work.mkdir()
        for name in COPIED:
            if (home / name).is_dir():
                shutil.copytree(home / name, work / name, copy_function=shutil.copyfile, symlinks=True)
        yield work


@contextmanager
def _locked(path: Path) -> Iterator[apsw.Connection]:
    """The database, locked against every other process. Raises `HermesRunning`."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db.execute("pragma locking_mode = exclusive").fetchall()
        try:
            db.execute("begin immediate; commit").fetchall()
        except apsw.BusyError as error:
            raise HermesRunning(f"another process has {path} open", path=str(path)) from error
        yield db
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise HermesDatabaseCorrupt(BEYOND_REPAIR, path=str(path)) from error
    except (apsw.ReadOnlyError, apsw.CantOpenError) as error:
        raise HermesHomeReadOnly(f"{path} cannot be written: {error}", path=str(path)) from error
    finally:
        db.close(True)


def _backup(db: apsw.Connection, target: Path) -> None:
    copy = apsw.Connection(str(target))
    try:
        with copy.backup("main", db, "main") as copying:
            copying.step()
    finally:
        copy.close()


def _repair_copy(work: Path, now: float) -> RepairResult:
    """Apply repairs until the doctor finds nothing more that can be repaired."""
    before = work.parent / "before.db"
    _settle(work / "state.db")
    shutil.copyfile(work / "state.db", before)
    examined = examine(work, now)
    old_mirror = examined.files.mirror_raw
    applied: list[HermesFinding] = []
    for _ in range(ROUNDS_MAX):
        chosen = _next(examined.findings, applied)
        if not chosen or examined.records is None:
            break
        _apply(work, examined.records, examined.files, chosen)
        applied += chosen
        examined = examine(work, now)
    _settle(work / "state.db")
    diff = [*database_diff(before, work / "state.db"), *mirror_diff(old_mirror, examined.files.mirror_raw)]
    return RepairResult(applied=applied, diff=diff, after=examined)


def _next(found: Sequence[HermesFinding], applied: Sequence[HermesFinding]) -> list[HermesFinding]:
    """The findings to repair together: no two name the same session, because a repair changes what the other saw."""
    done = {(one.kind.code, one.what) for one in applied}
    chosen: list[HermesFinding] = []
    sessions: set[str] = set()
    codes: set[str] = set()
    for one in found:
        repeated = (one.kind.code, one.what) in done or (not one.sessions and one.kind.code in codes)
        if not one.is_repaired or repeated or sessions & set(one.sessions):
            continue
        chosen.append(one)
        sessions |= set(one.sessions)
        codes.add(one.kind.code)
    return chosen


def _apply(work: Path, records: Records, files: HomeFiles, chosen: Sequence[HermesFinding]) -> None:
    db = apsw.Connection(str(work / "state.db"), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        repairing = RepairWork(db, records, files)
        with db:
            for one in chosen:
                fix(repairing, one)
    except apsw.CorruptError as error:
        raise HermesDatabaseCorrupt(BEYOND_REPAIR) from error
    finally:
        db.close()
    if repairing.mirror is not None:
        (work / MIRROR).write_text(json.dumps(repairing.mirror, indent=2), encoding="utf-8")


def _settle(path: Path) -> None:
    """Move the changes of the write-ahead log into the file, so that the file alone is the database."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db.execute("pragma wal_checkpoint(truncate)").fetchall()
    except (apsw.CorruptError, apsw.NotADBError, apsw.IOError) as error:
        raise HermesDatabaseCorrupt(BEYOND_REPAIR) from error
    finally:
        db.close()


def _keep(home: Path, kept: Path, backup: Path) -> None:
    """Put what the repair replaces into the backup folder."""
    try:
        backup.mkdir(mode=0o700, parents=True)
        shutil.copyfile(kept / "state.db", backup / "state.db")
        if (home / MIRROR).is_file():
            shutil.copyfile(home / MIRROR, backup / MIRROR.name)
    except OSError as error:
        raise unwritable(f"the backup {backup}", error) from error
    _make_private(backup)


def _write_mirror(home: Path, work: Path) -> None:
    if not (work / MIRROR).is_file() or (work / MIRROR).read_bytes() == (home / MIRROR).read_bytes():
        return
    fresh = home / MIRROR.parent / ".sessions.json.repaired"
    shutil.copyfile(work / MIRROR, fresh)
    fresh.chmod((home / MIRROR).stat().st_mode & 0o777)
    fresh.replace(home / MIRROR)


def _make_private(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o700 if path.is_dir() else 0o600)
