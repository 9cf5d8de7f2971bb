"""The file `encryption.json` of a data folder: its encryption, the source of the key, and a change in progress.

The source of a key is a file, a command that prints it, or the system's keyring.

Rule 1: it is written before the first byte is encrypted and removed after the last one is decrypted. While it exists,
        no file in the folder is opened without the key, and no new store is created.
Rule 2: it contains no key, and no data from which one could be computed.
Rule 3: it names a command that this user runs, so this user must own it: a file that others may write is refused.
"""

import os
import shlex
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

from holdfast.kernel.errors import (
    ConfigInvalid,
    EncryptionKeyMissing,
    EncryptionKeyWrong,
    EncryptionUnavailable,
    EncryptionUnfinished,
)
from holdfast.kernel.files import sync_folder, unwritable, write_synced
from holdfast.kernel.hardening import variables
from holdfast.store.encryption.key import EncryptionKey, make_key

NAME = "encryption.json"
FORMAT = 1
WRITABLE_BY_OTHERS = 0o022
KINDS = ("file", "command", "keyring")
FILE_VARIABLE = "HOLDFAST_KEY_FILE"  # overrides the folder's key source for one process
KEY_BYTES_MAX = 4_096
COMMAND_WAIT_S = 30
KEYRING_SERVICE = "holdfast"


@dataclass(frozen=True, slots=True)
class KeySource:
    """`place` is a file path, a command line, or the user name of a keyring entry."""

    kind: str
    place: str

    def __str__(self) -> str:
        return f"the {self.kind} {self.place}"


class Lock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The source of one key, and the value that verifies it."""

    kind: str
    place: str
    salt: str
    check: str

    @property
    def source(self) -> KeySource:
        return KeySource(self.kind, self.place)


class Marker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The state of the folder. `now` is None while it is being decrypted, `former` while it is being encrypted."""

    format: int
    now: Lock | None
    former: Lock | None = None
    changing: bool = False


def key_of(folder: Path) -> EncryptionKey | None:
    """The key of a data folder, or None if it is not encrypted.

    Raises `EncryptionKeyMissing`, `EncryptionKeyWrong`, `EncryptionUnfinished`, `ConfigInvalid`.
    """
    marker = read_marker(folder)
    if marker is None:
        return None
    if marker.changing or marker.now is None:
        raise EncryptionUnfinished(f"the encryption of {folder} was being changed", path=str(folder))
    return unlocked(marker.now, os.environ.get(FILE_VARIABLE, ""))


def read_marker(folder: Path) -> Marker | None:
    """Read the marker. Raises `ConfigInvalid` if it is unreadable or others may write it."""
    path = folder / NAME
    try:
        with path.open("rb") as opened:
            _refuse_writable_by_others(path, os.fstat(opened.fileno()))
            marker = msgspec.json.decode(opened.read(), type=Marker)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigInvalid(f"{path} cannot be read: {error.strerror}", path=str(path)) from error
    except msgspec.DecodeError as error:
        hint = "Restore it from a backup: it says how the data folder is encrypted. Do not delete it."
        raise ConfigInvalid(f"{path} is damaged: {error}", path=str(path), hint=hint) from error
    if marker.format != FORMAT:
        raise ConfigInvalid(f"{path} was written by a newer Holdfast", path=str(path))
    return marker


def key_files(folder: Path) -> tuple[Path, ...]:
    """The files that hold a key of the folder, including its previous key. Raises `ConfigInvalid`."""
    marker = read_marker(folder)
    locks = () if marker is None else (marker.now, marker.former)
    places = [lock.place for lock in locks if lock is not None and lock.kind == "file"]
    given = os.environ.get(FILE_VARIABLE, "")
    return tuple(key_path(place) for place in (*places, given) if place)


def write_marker(folder: Path, marker: Marker | None) -> None:
    """Write the marker durably; None removes it."""
    path, part = folder / NAME, folder / f"{NAME}.part"
    try:
        if marker is None:
            path.unlink(missing_ok=True)
        else:
            handle = os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
            write_synced(handle, msgspec.json.format(msgspec.json.encode(marker)) + b"\n")
            part.replace(path)
        sync_folder(folder)
    except OSError as error:
        raise unwritable(f"{path} cannot be written", error, path=str(path)) from error


def new_lock(source: KeySource, salt: bytes) -> Lock:
    """Create a lock for the key at that source. Raises `EncryptionKeyMissing` and `EncryptionKeyInvalid`."""
    check = make_key(read_key(source), salt).check
    return Lock(kind=source.kind, place=source.place, salt=salt.hex(), check=check)


@lru_cache(maxsize=8)
def unlocked(lock: Lock, file: str = "") -> EncryptionKey:
    """Read the key of a lock from its source or from `file`. Raises `EncryptionKeyMissing` and `EncryptionKeyWrong`."""
    source = KeySource("file", file) if file else lock.source
    key = make_key(read_key(source), bytes.fromhex(lock.salt))
    if key.check != lock.check:
        raise EncryptionKeyWrong(f"{source} holds another key than this data folder was encrypted with")
    return key


def _refuse_writable_by_others(path: Path, found: os.stat_result) -> None:
    if hasattr(os, "geteuid") and found.st_uid not in (os.geteuid(), 0):
        raise ConfigInvalid(f"{path} belongs to another user", path=str(path), hint="It may name a command to run.")
    if os.name == "posix" and found.st_mode & WRITABLE_BY_OTHERS:
        raise ConfigInvalid(f"{path} can be written by others", path=str(path), hint=f"Run `chmod 600 {path}`.")


# --- the source of the key ---------------------------------------------------------------------------


def read_key(source: KeySource) -> str:
    """Read the key. Raises `EncryptionKeyMissing`, and `EncryptionUnavailable` without the keyring library."""
    match source.kind:
        case "file":
            found = _from_file(Path(source.place))
        case "command":
            found = _from_command(source.place)
        case "keyring":
            found = _from_keyring(source.place)
        case _:
            raise ConfigInvalid(f"{source.kind[:40]!r} is no place of a key; there are: {', '.join(KINDS)}")
    if not found.strip():
        raise EncryptionKeyMissing(f"the encryption key is not there: {source} is empty")
    return found


def write_new_key(path: Path, text: str) -> None:
    """Write the key to a file that only its owner can read. An existing file is kept, for a repeated command."""
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return
    except OSError as error:
        raise unwritable(f"the key file {path} cannot be made", error, path=str(path)) from error
    write_synced(handle, f"{text}\n".encode("ascii"))


def key_path(place: str) -> Path:
    """The absolute path of a key file. A path in an unknown user's home folder is kept as written."""
    with suppress(RuntimeError):
        return Path(place).expanduser().absolute()
    return Path(place).absolute()


def _from_file(path: Path) -> str:
    try:
        with path.expanduser().open("rb") as opened:
            return opened.read(KEY_BYTES_MAX).decode("utf-8", "replace")
    except (OSError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise EncryptionKeyMissing(f"the encryption key is not there: the file {path}: {why}") from error


def _from_command(line: str) -> str:
    """Run the command without a shell. Its stderr goes to the terminal; its stdout is never shown."""
    try:
        words = shlex.split(line)
        # The operator's own command; it may need credentials that `harden` removed from the environment.
        done = subprocess.run(  # noqa: S603
            words, stdout=subprocess.PIPE, timeout=COMMAND_WAIT_S, check=False, env=dict(variables())
        )
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
        why = type(error).__name__
        raise EncryptionKeyMissing(f"the encryption key is not there: the command {line!r}: {why}") from error
    if done.returncode != 0:
        why = f"exit code {done.returncode}"
        raise EncryptionKeyMissing(f"the encryption key is not there: the command {line!r}: {why}")
    return done.stdout[:KEY_BYTES_MAX].decode("utf-8", "replace")


def _from_keyring(name: str) -> str:
    try:
        import keyring  # noqa: PLC0415 - an extra
        from keyring.errors import KeyringError  # noqa: PLC0415
    except ModuleNotFoundError as error:
        hint = "Run `pip install keyring`, or keep the key in a file or behind a command."
        raise EncryptionUnavailable("the library for the system's keyring is not installed", hint=hint) from error
    try:
        found: str | None = keyring.get_password(KEYRING_SERVICE, name)
    except KeyringError as error:
        why = type(error).__name__
        raise EncryptionKeyMissing(f"the encryption key is not there: the keyring cannot be read: {why}") from error
    if found is None:
        raise EncryptionKeyMissing(
            f"the encryption key is not there: the keyring has no {name!r} of the service {KEYRING_SERVICE!r}"
        )
    return found
