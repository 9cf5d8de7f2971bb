"""An opened backup: a folder, or an archive read from beginning to end. Only files that its manifest names are read."""

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from holdfast.kernel.errors import BackupInvalid
from holdfast.store.backup.manifest import BYTES_MAX, NAME, Manifest, decode


class OpenedBackup:
    def __init__(self, manifest: Manifest, members: Iterator[tuple[str, IO[bytes]]]) -> None:
        self.manifest = manifest
        self.members = members  # each file once, in any order; a file is read before the next one is asked for


@contextmanager
def open_backup(source: Path) -> Iterator[OpenedBackup]:
    """Raises `BackupInvalid` and `BackupNewer`."""
    try:
        if source.is_dir():
            with (source / NAME).open("rb") as opened:
                manifest = decode(opened.read(BYTES_MAX), str(source))
            yield OpenedBackup(manifest, _files(source, manifest))
        else:
            with tarfile.open(source, mode="r:*") as archive:
                manifest = decode(_first(archive, source), str(source))
                yield OpenedBackup(manifest, _members(archive, source))
    except FileNotFoundError as error:
        what = f"{source} does not exist" if not source.exists() else f"{source} has no {NAME}, so it is no backup"
        raise BackupInvalid(what, path=str(source)) from error
    except (tarfile.TarError, EOFError) as error:
        raise BackupInvalid(f"{source} is no backup, or was cut: {error}", path=str(source)) from error


def _files(source: Path, manifest: Manifest) -> Iterator[tuple[str, IO[bytes]]]:
    for one in manifest.files:
        path = source / one.path
        if not path.is_file() or not path.resolve().is_relative_to(source.resolve()):
            raise BackupInvalid(f"{source} lacks {one.path}", path=str(source))
        with path.open("rb") as opened:
            yield one.path, opened


def _first(archive: tarfile.TarFile, source: Path) -> bytes:
    member = archive.next()
    opened = None if member is None or member.name != NAME else archive.extractfile(member)
    if opened is None:
        raise BackupInvalid(f"{source} does not begin with {NAME}, so it is no backup", path=str(source))
    return opened.read(BYTES_MAX)


def _members(archive: tarfile.TarFile, source: Path) -> Iterator[tuple[str, IO[bytes]]]:
    while (member := archive.next()) is not None:
        opened = archive.extractfile(member) if member.isreg() else None
        if opened is None:
            raise BackupInvalid(f"{source} holds {member.name[:80]!r}, which is no file", path=str(source))
        yield member.name, opened
