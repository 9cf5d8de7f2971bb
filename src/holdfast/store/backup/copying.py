"""Makes a backup of a data folder while a process may serve it.

Rule 1: a database is copied by SQLite out of one read transaction, so the copy is one state of it; writers go on.
Rule 2: the copy is checked (pages, indexes, number of rows) before the backup has its name. A backup that is there is
        whole.
Rule 3: nothing in the data folder is written. A store of a newer release, or one that nobody migrated, is copied as
        it is.
"""

import os
import shutil
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from holdfast.kernel.errors import InvalidInput, StoreCorrupt, StorePathInvalid
from holdfast.kernel.files import make_private_folder, sync_folder, unwritable, write_synced
from holdfast.store.backup.contents import contents_of
from holdfast.store.backup.manifest import EMPTY_SHA256, NAME, BackedUpFile, Manifest, encode, read_hashed
from holdfast.store.backup.placing import place_new
from holdfast.store.encryption.changing import STORE
from holdfast.store.encryption.databases import unlock
from holdfast.store.encryption.marker import key_of
from holdfast.store.sqlite.connection import pragma
from holdfast.store.sqlite.faults import translate

PAGES_PER_STEP = 2_000
BUSY_MS = 10_000
ARCHIVES = {".tar": "w:", ".tar.gz": "w:gz", ".tgz": "w:gz"}
Tell = Callable[[str, int, int], None]  # the name of what is copied, how much of it is done, and how much there is


@dataclass(frozen=True, slots=True)
class CopiedDatabase:
    schema: int
    tables: Mapping[str, int]


def archive_mode(target: Path) -> str:
    """How the archive of that name is written; empty for a folder."""
    return next((mode for ending, mode in ARCHIVES.items() if target.name.endswith(ending)), "")


def back_up(folder: Path, target: Path, *, version: str, now: int, tell: Tell) -> Manifest:
    """Back up a data folder into a new folder, or into a new archive if the name ends with .tar or .tar.gz.

    Raises `StorePathInvalid`, `InvalidInput`, `StoreCorrupt`, `StoreFull`, `StoreReadOnly`, the errors of the key.
    """
    if not (folder / STORE).is_file():
        raise StorePathInvalid(f"{folder} contains no Holdfast data", path=str(folder))
    _refuse_target(folder, target)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")  # another process may make the same backup
    try:
        shutil.rmtree(part, ignore_errors=True)  # of a process that had the same number
        make_private_folder(part)
        manifest = _copy_all(folder, part, version=version, now=now, tell=tell)
        if mode := archive_mode(target):
            _archive(part, target, mode, manifest, tell)
        else:
            part.rename(target)  # refused if somebody made a folder of this name meanwhile
        sync_folder(target.parent)
    except OSError as error:
        if target.exists():  # this process gives the name last
            what = f"{target} was made by another process meanwhile; name another file or folder"
            raise InvalidInput(what, path=str(target)) from error
        raise unwritable(f"the backup {target} cannot be written", error, path=str(target)) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return manifest


def _refuse_target(folder: Path, target: Path) -> None:
    if target.exists() or target.is_symlink():
        raise InvalidInput(f"{target} exists already and was not changed; name another file or folder")
    if target.resolve().is_relative_to(folder.resolve()):
        raise InvalidInput(f"{target} is in the data folder itself; a backup belongs elsewhere, best on another disk")


def _copy_all(folder: Path, part: Path, *, version: str, now: int, tell: Tell) -> Manifest:
    found = contents_of(folder)
    marker_key = key_of(folder)
    key = None if marker_key is None else marker_key.of_databases
    damaged: list[str] = []
    store = CopiedDatabase(0, {})
    copied: list[str] = []
    for name in found.databases:
        make_private_folder((part / name).parent)
        try:
            store = copy_database(folder / name, part / name, key, tell=tell, name=name)
        except StoreCorrupt:
            if name == STORE:
                raise
            (part / name).unlink(missing_ok=True)  # an index, which is rebuilt from the journal
            damaged.append(name)
            continue
        copied.append(name)
    files = [_hashed(part, name) for name in copied]
    for name in found.files:
        one = _copy_file(folder / name, part / name, name)
        if one is not None:
            files.append(one)
    manifest = Manifest(
        holdfast=version,
        made_at=now,
        schema=store.schema,
        encrypted=key is not None,
        tables=store.tables,
        files=tuple(sorted(files, key=lambda one: one.path)),
        left_out=(*found.left_out, *damaged),
    ).sealed()
    _write(part / NAME, encode(manifest))
    for path in sorted({one.parent for one in part.rglob("*")}):
        sync_folder(path)
    return manifest


# --- databases ---------------------------------------------------------------------------------------


def copy_database(source: Path, target: Path, key: bytes | None, *, tell: Tell, name: str) -> CopiedDatabase:
    """Copy one state of a database that may be in use, and check the copy. Raises `StoreCorrupt`."""
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    reading = _opened(source, key)
    try:
        reading.execute("pragma query_only=on")
        reading.execute("begin")
        counted = facts_of(reading)  # opens the snapshot, which lasts to the end of the transaction
        writing = _opened(target, key)
        try:
            with writing.backup("main", reading, "main") as copying:
                while not copying.done:
                    copying.step(PAGES_PER_STEP)
                    tell(f"copying {name}", copying.page_count - copying.remaining, copying.page_count)
            tell(f"checking {name}", 0, 1)
            check_pages(writing, str(source))
            copied = facts_of(writing)
        finally:
            writing.close(True)
    except apsw.Error as error:
        raise translate(error, f"copying {source}", reading) from error
    finally:
        _close_reading(reading, source)
    if copied != counted:
        raise StoreCorrupt(f"the copy of {source} has other rows than its original", path=str(source))
    return copied


def check_pages(db: apsw.Connection, name: str) -> None:
    """Read every page and compare every index with its table. Raises `StoreCorrupt`."""
    try:
        found = [row[0] for row in db.execute("pragma integrity_check(3)")]
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise StoreCorrupt(f"{name} is damaged: {error}", path=name) from error
    if found != ["ok"]:
        raise StoreCorrupt(f"{name} is damaged: {'; '.join(found)}", path=name)


def facts_of(db: apsw.Connection) -> CopiedDatabase:
    tables = [name for (name,) in db.execute("select name from sqlite_schema where type = 'table' order by name")]
    counts: dict[str, Any] = {name: next(db.execute(f'select count(*) from "{name}"'))[0] for name in tables}
    return CopiedDatabase(int(pragma(db, "user_version")), counts)


def _opened(path: Path, key: bytes | None) -> apsw.Connection:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    if key is not None:
        unlock(db, key)
    db.set_busy_timeout(BUSY_MS)
    return db


def _close_reading(db: apsw.Connection, path: Path) -> None:
    """Leave a log that has changes as it is; an empty one is removed by the last connection."""
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size > 0:
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    db.close(True)


# --- files -------------------------------------------------------------------------------------------


def _copy_file(source: Path, target: Path, name: str) -> BackedUpFile | None:
    """Copy a file as it is now; None if it was removed meanwhile."""
    make_private_folder(target.parent)
    try:
        opened = source.open("rb")
    except FileNotFoundError:
        return None
    size, digest = 0, EMPTY_SHA256
    with opened, os.fdopen(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as made:
        for chunk, digest in read_hashed(opened):  # noqa: B007 - the last digest covers the file
            size += made.write(chunk)
        made.flush()
        os.fsync(made.fileno())
    return BackedUpFile(name, size, digest)


def _hashed(part: Path, name: str) -> BackedUpFile:
    path, digest = part / name, EMPTY_SHA256
    with path.open("rb+") as opened:
        for _, digest in read_hashed(opened):  # noqa: B007
            pass
        os.fsync(opened.fileno())
    return BackedUpFile(name, path.stat().st_size, digest)


def _write(path: Path, data: bytes) -> None:
    write_synced(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), data)


def _archive(part: Path, target: Path, mode: str, manifest: Manifest, tell: Tell) -> None:
    """The manifest is the first member, so that a reader knows what must follow."""
    draft = part.with_name(f"{part.name}.archive")
    try:
        handle = os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "wb") as raw:
            with tarfile.open(fileobj=raw, mode=mode) as archive:  # type: ignore[call-overload]  # one of ARCHIVES
                names = [NAME, *(one.path for one in manifest.files)]
                for n, name in enumerate(names, 1):
                    archive.add(part / name, arcname=name, recursive=False)
                    tell(f"writing {target.name}", n, len(names))
            raw.flush()
            os.fsync(raw.fileno())
        place_new(draft, target)
    finally:
        draft.unlink(missing_ok=True)


# --- copies of a damaged folder ----------------------------------------------------------------------


def copy_as_is(folder: Path, target: Path, tell: Tell) -> None:
    """Copy a data folder with all of its damage into a new folder.

    A database that SQLite cannot copy is copied byte for byte, with its log; that copy is one state only if no process
    writes. Raises `InvalidInput`, `StoreFull`, `StoreReadOnly`, the errors of the key.
    """
    _refuse_target(folder, target)
    found, key = contents_of(folder), key_of(folder)
    try:
        make_private_folder(target)
        for name in found.databases:
            make_private_folder((target / name).parent)
            _copy_damaged(folder / name, target / name, None if key is None else key.of_databases, tell)
        for name in found.files:
            _copy_file(folder / name, target / name, name)
    except BaseException as error:
        shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, OSError):
            raise unwritable(f"the copy {target} cannot be written", error, path=str(target)) from error
        raise


def _copy_damaged(source: Path, target: Path, key: bytes | None, tell: Tell) -> None:
    try:
        _copy_pages(source, target, key, tell)
    except apsw.Error:
        target.unlink(missing_ok=True)
        for ending in ("", "-wal"):
            _copy_file(source.with_name(source.name + ending), target.with_name(target.name + ending), source.name)


def _copy_pages(source: Path, target: Path, key: bytes | None, tell: Tell) -> None:
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    reading = _opened(source, key)
    try:
        reading.execute("begin; select count(*) from sqlite_schema").fetchall()
        writing = _opened(target, key)
        try:
            with writing.backup("main", reading, "main") as copying:
                while not copying.done:
                    copying.step(PAGES_PER_STEP)
                    tell(f"copying {source.name}", copying.page_count - copying.remaining, copying.page_count)
        finally:
            writing.close(True)
    finally:
        _close_reading(reading, source)
