"""The source of the key: a file, a command that prints it, or the system's keyring."""

import os
import shlex
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.kernel.errors import ConfigInvalid, EncryptionKeyMissing, EncryptionUnavailable
from holdfast.kernel.files import unwritable, write_synced
from holdfast.kernel.hardening import variables

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
