"""Backup and restore of a data folder, with the real clock and the caller's name in the audit trail."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import holdfast
from holdfast.audit.actor import acting
from holdfast.kernel.machine import SystemClock
from holdfast.repair.restored_sql import SettledStore, settle_restored
from holdfast.runtime.app import data_folder
from holdfast.store.backup import copying, restoring
from holdfast.store.backup.copying import Tell
from holdfast.store.backup.manifest import Manifest
from holdfast.store.data_folder import check_owner
from holdfast.store.sqlite.owner import OwnerLock


@dataclass(frozen=True, slots=True)
class Restored:
    manifest: Manifest
    settled: SettledStore


def back_up(folder: Path, target: Path, tell: Tell) -> Manifest:
    """Back up a data folder, also beside the process that serves it. See `copying.back_up`."""
    check_owner(folder)
    return copying.back_up(folder, target, version=holdfast.__version__, now=SystemClock().now(), tell=tell)


def restore(source: Path, folder: Path, tell: Tell, *, moved: bool) -> Restored:
    """Restore a backup into a folder that is empty or does not exist yet. See `restoring.restore`."""
    made_at = restoring.read_manifest(source).made_at
    restoring.refuse_occupied(folder)
    lock = OwnerLock(data_folder(folder))
    lock.acquire()
    try:
        settle = settle_restored(source.name, made_at=made_at, moved=moved, by=acting())
        manifest, settled = restoring.restore(source, folder, settle=settle, clock=SystemClock(), tell=tell)
    finally:
        lock.release()
    return Restored(manifest, settled)


def verify(source: Path, tell: Tell) -> Manifest:
    """Read and check a backup without restoring it. The copy is made in the folder for temporary files."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as place:
        return restoring.verify(source, Path(place) / "backup", tell)
