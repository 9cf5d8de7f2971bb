"""The manifest of a backup: its files with their digests, and how many rows each table had.

Rule 1: the manifest covers every file, and its own digest covers the manifest: a backup that was cut, changed or mixed
        with another one is recognised.
Rule 2: a path in a manifest is relative and stays below the folder that it is restored into.
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import IO

import msgspec

from holdfast.kernel.errors import BackupInvalid, BackupNewer

NAME = "backup.json"
FORMAT = 1
BYTES_MAX = 16_000_000
CHUNK_BYTES = 1 << 20


class BackedUpFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int = FORMAT
    holdfast: str  # the version that made the backup
    made_at: int
    schema: int
    encrypted: bool
    tables: Mapping[str, int]  # the number of rows
    files: tuple[BackedUpFile, ...]
    left_out: tuple[str, ...] = ()  # files that are no part of the backup although they are in the folder
    digest: str = ""

    @property
    def size(self) -> int:
        return sum(one.size for one in self.files)

    def sealed(self) -> "Manifest":
        return msgspec.structs.replace(self, digest=_digest(self))


def encode(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest, order="sorted")) + b"\n"


def decode(raw: bytes, where: str) -> Manifest:
    """Raises `BackupInvalid` and `BackupNewer`."""
    try:
        found = msgspec.json.decode(raw, type=dict[str, object])
        if isinstance(newer := found.get("format"), int) and newer > FORMAT:
            raise BackupNewer(f"{where} has format {newer}; this release knows {FORMAT}")
        manifest = msgspec.convert(found, Manifest)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise BackupInvalid(f"{NAME} of {where} cannot be read: {error}") from error
    if manifest.digest != _digest(manifest):
        raise BackupInvalid(f"{NAME} of {where} was changed: its digest does not match")
    for one in manifest.files:
        if not _stays_below(one.path):
            raise BackupInvalid(f"{where} names a file outside of its folder: {one.path[:80]!r}")
    return manifest


def read_hashed(source: IO[bytes]) -> Iterator[tuple[bytes, str]]:
    """The chunks of a file, each with the digest of everything up to its end."""
    made = hashlib.sha256()
    while chunk := source.read(CHUNK_BYTES):
        made.update(chunk)
        yield chunk, made.hexdigest()


EMPTY_SHA256 = hashlib.sha256().hexdigest()


def _digest(manifest: Manifest) -> str:
    bare = msgspec.structs.replace(manifest, digest="")
    return hashlib.sha256(msgspec.json.encode(bare, order="sorted")).hexdigest()


def _stays_below(path: str) -> bool:
    parts = PurePosixPath(path).parts
    plain = "\\" not in path and ":" not in path and "\0" not in path
    return bool(parts) and plain and not path.startswith("/") and ".." not in parts and path != NAME
