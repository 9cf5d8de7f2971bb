"""Restores a backup into a data folder that holds nothing yet. The caller holds the folder's owner lock.

Rule 1: every file is copied into a staging folder and compared with the manifest, and the databases are checked page
        by page, before anything has its place.
Rule 2: the store is placed last and never over another one, so a folder has either no store or the restored one.
        An interrupted restore is repeated; it replaces what it left.
Rule 3: what the backup calls under way may have happened since. The caller's script settles that in the staged store,
        in the transaction that also writes the row of the audit trail.
"""

import os
import shutil
from pathlib import Path

import apsw

from holdfast.kernel.errors import BackupInvalid, FolderNotEmpty, StoreCorrupt, StoreNewer
from holdfast.kernel.files import make_private_folder, sync_folder, unwritable, write_synced
from holdfast.kernel.ports import Clock
from holdfast.store.backup.contents import STAGING
from holdfast.store.backup.copying import Tell, check_pages, facts_of
from holdfast.store.backup.manifest import EMPTY_SHA256, Manifest, read_hashed
from holdfast.store.backup.opened_backup import OpenedBackup, open_backup
from holdfast.store.backup.placing import place_new
from holdfast.store.encryption.changing import INDEXES, STORE
from holdfast.store.encryption.databases import unlock
from holdfast.store.encryption.marker import key_of
from holdfast.store.script import Call, R
from holdfast.store.sqlite.batch import run_batch
from holdfast.store.sqlite.migrate import load_migrations
from holdfast.store.sqlite.opening import open_ready

IGNORED = {"holdfast.lock", "holdfast.pid", "lost+found", STAGING}
PLACED = "placed"  # in the staging folder: the files that an interrupted restore may have placed


def restore(source: Path, folder: Path, *, settle: Call[R], clock: Clock, tell: Tell) -> tuple[Manifest, R]:
    """Restore a backup; returns its manifest and what the script `settle` returned.

    Raises `BackupInvalid`, `BackupNewer`, `FolderNotEmpty`, `StoreNewer`, `StoreFull`, the errors of the key.
    """
    refuse_occupied(folder)
    staging = folder / STAGING
    try:
        try:
            manifest = _staged(source, staging, tell)
            key = _key(staging)
            verify_databases(staging, manifest, key, tell)
            settled = _settle(staging / STORE, key, settle, clock)
            for path in staging.glob(INDEXES):
                renew_index(path, key)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        _place(staging, folder, manifest)
    except OSError as error:
        raise unwritable(f"{folder} cannot be written", error, path=str(folder)) from error
    return manifest, settled


def _settle(store: Path, key: bytes | None, call: Call[R], clock: Clock) -> R:
    """Migrate the staged store and run the script in it. The file is complete without a log afterwards."""
    db = open_ready(store, key=key)
    try:
        (done,) = run_batch(db, [call], clock)
    finally:
        db.execute("pragma wal_checkpoint(truncate)").fetchall()
        db.close(True)
    if done.error is not None:
        raise done.error
    settled: R = done.value
    return settled


def read_manifest(source: Path) -> Manifest:
    with open_backup(source) as backup:
        return backup.manifest


def verify(source: Path, beside: Path, tell: Tell) -> Manifest:
    """Read a backup whole and check it in a temporary folder, which is removed."""
    try:
        manifest = _staged(source, beside, tell)
        verify_databases(beside, manifest, _key(beside), tell)
    except OSError as error:
        raise unwritable(f"{beside} cannot be written", error, path=str(beside)) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return manifest


def refuse_occupied(folder: Path) -> None:
    """Raise `FolderNotEmpty`, unless the folder has nothing but what an interrupted restore left."""
    found = sorted(set(os.listdir(folder)) - IGNORED) if folder.exists() else []  # noqa: PTH208 - names
    if found and not (STORE not in found and set(found) <= _left_by_restore(folder)):
        raise FolderNotEmpty(f"{folder} is not empty: it holds {found[0]}", path=str(folder))


def _left_by_restore(folder: Path) -> set[str]:
    try:
        with (folder / STAGING / PLACED).open("rb") as opened:
            names = opened.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return set()
    return {name.partition("/")[0] for name in names}


def _staged(source: Path, staging: Path, tell: Tell) -> Manifest:
    shutil.rmtree(staging, ignore_errors=True)
    make_private_folder(staging)
    with open_backup(source) as backup:
        _copy(backup, source, staging, tell)
        return backup.manifest


def _copy(backup: OpenedBackup, source: Path, staging: Path, tell: Tell) -> None:
    wanted = {one.path: one for one in backup.manifest.files}
    done = 0
    for name, opened in backup.members:
        expected = wanted.pop(name, None)
        if expected is None:
            raise BackupInvalid(f"{source} holds {name[:80]!r}, which its manifest does not name", path=str(source))
        target = staging / name
        make_private_folder(target.parent)
        size, digest = 0, EMPTY_SHA256
        handle = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "wb") as made:
            for chunk, digest in read_hashed(opened):  # noqa: B007 - the last digest covers the file
                size += made.write(chunk)
                tell("copying", done + size, backup.manifest.size)
            made.flush()
            os.fsync(made.fileno())
        done += size
        if (size, digest) != (expected.size, expected.sha256):
            raise BackupInvalid(f"{name} of {source} was changed or cut: its digest differs", path=str(source))
    if wanted:
        raise BackupInvalid(f"{source} lacks {min(wanted)}", path=str(source))


def _key(staging: Path) -> bytes | None:
    key = key_of(staging)
    return None if key is None else key.of_databases


def verify_databases(staging: Path, manifest: Manifest, key: bytes | None, tell: Tell) -> None:
    if manifest.schema > len(load_migrations()):
        what = f"the backup has schema {manifest.schema}; this release knows {len(load_migrations())}"
        raise StoreNewer(what, version=manifest.schema)
    tell("checking the store", 0, 1)
    db = _opened(staging / STORE, key)
    try:
        check_pages(db, f"the store of {staging}")
        found = facts_of(db)
    except (apsw.CorruptError, apsw.NotADBError, StoreCorrupt) as error:
        raise BackupInvalid(f"the store in the backup is damaged: {error}") from error
    finally:
        db.close(True)
    if (found.schema, dict(found.tables)) != (manifest.schema, dict(manifest.tables)):
        raise BackupInvalid("the store in the backup has other rows than its manifest says")


def renew_index(path: Path, key: bytes | None) -> None:
    """The index was copied at another moment than the store: the next start fills it again from the journal."""
    db = _opened(path, key)
    try:
        db.execute("update state set value = 1 where name = 'needs_rebuild'")
    except apsw.Error:  # of a release whose index has no such mark, or damaged: it is made again
        db.close(True)
        path.unlink()
        return
    db.close(True)


def _opened(path: Path, key: bytes | None) -> apsw.Connection:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    if key is not None:
        unlock(db, key)
    return db


# --- placing -----------------------------------------------------------------------------------------


def _place(staging: Path, folder: Path, manifest: Manifest) -> None:
    names = sorted({one.path for one in manifest.files} - {STORE})
    write_synced(os.open(staging / PLACED, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "\n".join(names).encode())
    sync_folder(staging)
    for name in names:
        if (staging / name).exists():
            make_private_folder((folder / name).parent)
            (staging / name).replace(folder / name)
    for path in {(folder / name).parent for name in names}:
        sync_folder(path)
    _place_store(staging / STORE, folder / STORE)
    sync_folder(folder)
    shutil.rmtree(staging, ignore_errors=True)


def _place_store(staged: Path, target: Path) -> None:
    """Raises `FolderNotEmpty` if another process has made a store meanwhile."""
    try:
        place_new(staged, target)
    except FileExistsError as error:
        raise FolderNotEmpty(f"another process made a store in {target.parent} meanwhile") from error
