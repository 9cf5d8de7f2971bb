"""The doctor of a data folder: what contradicts itself in the store, the indexes and the files, and its repair.

Rule 1: an examination only reads. It runs beside a serving process, and on a store that is damaged or has never been
        migrated.
Rule 2: a repair needs the owner lock, and the caller makes a copy of the folder first. With damaged pages no row is
        changed: a backup is restored instead.
Rule 3: a repair looks again and changes what it finds then, so a repeated one does nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

from holdfast.audit.actor import acting
from holdfast.kernel.errors import StoreCorrupt, StorePathInvalid
from holdfast.kernel.ids import Instant
from holdfast.kernel.machine import SystemClock
from holdfast.providers.local.index_file import set_aside
from holdfast.repair.finding import FaultEvidence, StoreFinding, ordered
from holdfast.repair.findings_sql import SHOWN_MAX, read_findings
from holdfast.repair.store_repair_sql import repair_rows
from holdfast.runtime.app import DATABASE, has_store, is_served
from holdfast.store.backup.copying import Tell, copy_as_is
from holdfast.store.data_folder import check_owner
from holdfast.store.encryption.changing import INDEXES
from holdfast.store.encryption.databases import unlock
from holdfast.store.encryption.marker import key_of
from holdfast.store.membership import LEASE_MS
from holdfast.store.sqlite.batch import run_batch, run_read
from holdfast.store.sqlite.connection import APPLICATION_ID, BUSY_TIMEOUT_MS, close_untouched, pragma
from holdfast.store.sqlite.faults import translate
from holdfast.store.sqlite.migrate import load_migrations, refuse_newer
from holdfast.store.sqlite.opening import open_ready
from holdfast.store.sqlite.owner import OwnerLock

OUTSIDE_ROWS = ("index_damaged", "memory_index_damaged", "wal_left")
CHECKED_MAX = 1_000  # lines of the integrity check
OF_INDEX = re.compile(r"(?:missing from|wrong # of entries in|non-unique entry in) index (\S+)")
DAMAGE = (apsw.CorruptError, apsw.NotADBError)
NO_ROWS = "pages are damaged, so rows were not repaired"
Evidence = dict[str, Sequence[FaultEvidence]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreExamination:
    folder: Path
    at: Instant
    schema: int | None  # None if the store cannot be read
    served: bool
    findings: Sequence[StoreFinding]
    notes: Sequence[str] = ()

    @property
    def is_healthy(self) -> bool:
        return not self.findings


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRepair:
    before: StoreExamination
    after: StoreExamination
    repaired: Mapping[str, int]
    copy: Path | None  # of the folder as it was; None if the repaired folder is a copy itself
    notes: Sequence[str] = ()


def examine(folder: Path, tell: Tell) -> StoreExamination:
    """Raises `StorePathInvalid`, `StoreNewer`, `StoreUnavailable` for a locked store, the errors of the key."""
    check_owner(folder)
    if not folder.is_dir() or not has_store(folder):
        raise StorePathInvalid(f"{folder} contains no Holdfast data", path=str(folder))
    served, key = is_served(folder), key_of(folder)
    secret = None if key is None else key.of_databases
    found: Evidence = {}
    notes: list[str] = []
    if not served and (size := _size(folder / f"{DATABASE}-wal")):
        found["wal_left"] = [FaultEvidence(subject=f"{DATABASE}-wal", what=f"{size} bytes")]
    schema = _examine_store(folder / DATABASE, secret, found, notes, tell)
    for path in sorted(folder.glob(INDEXES)):
        tell(f"checking {path.relative_to(folder)}", 0, 1)
        if why := _index_damage(path, secret):
            name = path.relative_to(folder).as_posix()
            found["memory_index_damaged"] = [
                *found.get("memory_index_damaged", ()),
                FaultEvidence(subject=name, what=why),
            ]
    return StoreExamination(
        folder=folder,
        at=SystemClock().now(),
        schema=schema,
        served=served,
        findings=ordered(
            {code: evidence[:SHOWN_MAX] for code, evidence in found.items()},
            frozenset(code for code, evidence in found.items() if len(evidence) > SHOWN_MAX),
        ),
        notes=notes,
    )


def repair(folder: Path, tell: Tell, *, keep: Path | None) -> StoreRepair:
    """Repair a folder that no process serves, after copying it to `keep`. Raises `StoreOwned`."""
    lock = OwnerLock(folder)
    before = examine(folder, tell)
    if before.is_healthy:
        return StoreRepair(before=before, after=before, repaired={}, copy=None)
    lock.acquire()
    try:
        if keep is not None:
            copy_as_is(folder, keep, tell)
        codes = {one.fault.code for one in before.findings}
        repaired, notes = _repair_store(folder, before, codes)
        if "memory_index_damaged" in codes:
            for path in sorted(folder.glob(INDEXES)):
                if _index_damage(path, _secret(folder)):
                    set_aside(path.parent, SystemClock().now())
    finally:
        lock.release()
    return StoreRepair(before=before, after=examine(folder, tell), repaired=repaired, copy=keep, notes=notes)


def repair_copy(folder: Path, target: Path, tell: Tell) -> StoreRepair:
    """Copy a folder, which may be served meanwhile, and repair the copy."""
    examine(folder, tell)  # refuses what cannot be examined before anything is copied
    copy_as_is(folder, target, tell)
    return repair(target, tell, keep=None)


def _repair_store(folder: Path, before: StoreExamination, codes: set[str]) -> tuple[Mapping[str, int], list[str]]:
    files: dict[str, int] = {code: _count(before, code) for code in OUTSIDE_ROWS if code in codes}
    if codes & {"pages_damaged", "store_unreadable"}:
        return {code: n for code, n in files.items() if code == "memory_index_damaged"}, [NO_ROWS]
    db = open_ready(folder / DATABASE, key=_secret(folder))
    try:
        for one in _evidence(before, "index_damaged"):
            db.execute(f'reindex "{one.subject}"')
        by = acting()
        (done,) = run_batch(db, [repair_rows(lease_ms=LEASE_MS, also=files, by=by)], SystemClock())
        if done.error is not None:
            raise done.error
        db.execute("pragma wal_checkpoint(truncate)").fetchall()
    except apsw.Error as error:
        raise translate(error, f"repairing {folder}", db) from error
    finally:
        db.close(True)
    return {**files, **done.value}, []


def _secret(folder: Path) -> bytes | None:
    key = key_of(folder)
    return None if key is None else key.of_databases


def _evidence(found: StoreExamination, code: str) -> Sequence[FaultEvidence]:
    return next((one.evidence for one in found.findings if one.fault.code == code), ())


def _count(found: StoreExamination, code: str) -> int:
    return len(_evidence(found, code))


# --- the store -----------------------------------------------------------------------------------------


def _examine_store(path: Path, key: bytes | None, found: Evidence, notes: list[str], tell: Tell) -> int | None:
    """Add the evidence of the store; returns its schema."""
    tell(f"checking {path.name}", 0, 1)
    try:
        with _reading(path, key) as db:
            _refuse_foreign(db, path)
            known, schema = len(load_migrations()), int(pragma(db, "user_version"))
            refuse_newer(db, path, known)
            found.update(_page_damage(db))
            if schema < known:
                notes.append(
                    f"Rows were not examined: the next start migrates the store from schema {schema} to {known}."
                )
                return schema
            tell("comparing rows", 0, 1)
            done = run_read(db, read_findings(lease_ms=LEASE_MS), SystemClock())
            if isinstance(done.error, StoreCorrupt):
                found.setdefault("pages_damaged", [FaultEvidence(subject=path.name, what=str(done.error))])
            elif done.error is not None:
                raise done.error
            else:
                found.update(done.value)
            return schema
    except DAMAGE as error:
        found["store_unreadable"] = [FaultEvidence(subject=path.name, what=str(error))]
        return None
    except apsw.Error as error:
        raise translate(error, f"examining {path}") from error


@contextmanager
def _reading(path: Path, key: bytes | None) -> Iterator[apsw.Connection]:
    """A connection that only reads: a log that was there stays, one that was not there is gone afterwards."""
    had_log = _size(path.with_name(f"{path.name}-wal")) > 0
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    if key is not None:
        unlock(db, key)
    try:
        db.set_busy_timeout(BUSY_TIMEOUT_MS)
        db.execute("pragma query_only=on")
        yield db
    finally:
        close_untouched(db) if had_log else db.close(True)


def _refuse_foreign(db: apsw.Connection, path: Path) -> None:
    tables = db.execute("select count(*) from sqlite_schema").fetchall()[0][0]
    if tables and pragma(db, "application_id") != APPLICATION_ID:
        raise StorePathInvalid(f"{path} is not a Holdfast database", path=str(path))


def _page_damage(db: apsw.Connection) -> Evidence:
    """What the integrity check says: of indexes, which can be made again, and of everything else."""
    try:
        told = [str(row[0]) for row in db.execute(f"pragma integrity_check({CHECKED_MAX})")]
        told += [f"row {row} of {table} refers to nothing" for table, row, *_ in db.execute("pragma foreign_key_check")]
    except DAMAGE as error:
        told = [str(error)]
    indexes: dict[str, str] = {}
    pages: list[FaultEvidence] = []
    for line in told:
        if line == "ok":
            continue
        if (match := OF_INDEX.search(line)) is not None:
            indexes.setdefault(match[1], line)
        else:
            pages.append(FaultEvidence(subject="holdfast.db", what=line))
    damaged = [FaultEvidence(subject=name, what=line) for name, line in indexes.items()]
    return {code: one for code, one in (("pages_damaged", pages), ("index_damaged", damaged)) if one}


def _index_damage(path: Path, key: bytes | None) -> str:
    """Why a search index is damaged; empty if it is not."""
    try:
        with _reading(path, key) as db:
            told = [str(row[0]) for row in db.execute("pragma integrity_check(1)")]
    except DAMAGE as error:
        return str(error)
    except apsw.Error as error:
        raise translate(error, f"examining {path}") from error
    return "" if told == ["ok"] else told[0]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
