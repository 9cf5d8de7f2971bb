"""`holdfast encrypt`, `rekey` and `decrypt`: encryption of the data folder with a key of the operator."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.command import Invocation, command, home_of
from holdfast.cli.output import Output
from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.machine import SystemEntropy
from holdfast.store.encryption.marker import KeySource, read_marker, write_new_key

KeyFile = Annotated[Path | None, typer.Option("--key-file", help="Read the key from this file.")]
KeyCommand = Annotated[str | None, typer.Option("--key-command", help="Read the key from the output of this command.")]
KeyRing = Annotated[
    str | None, typer.Option("--keyring", help="Read the key from the system keyring, under this name.")
]
NewKey = Annotated[Path | None, typer.Option("--new-key", help="Create a key and store it in this new file.")]


@command()
async def encrypt(
    invocation: Invocation,
    key_file: KeyFile = None,
    key_command: KeyCommand = None,
    keyring: KeyRing = None,
    new_key: NewKey = None,
) -> Output:
    """Encrypt the data folder.

    The store, the index and the log are encrypted. No process may serve the folder meanwhile. If the command is
    interrupted, run it again: it continues. Without the key the data cannot be read: keep a copy of the key, separate
    from the backups.

    \b
    Examples:
      holdfast encrypt --new-key ~/.holdfast.key
      holdfast encrypt --key-command "pass show holdfast"
    """
    source = _source(key_file, key_command, keyring, new_key)
    marker = read_marker(invocation.folder)
    if marker is not None and not marker.changing:
        raise InvalidInput(f"{invocation.folder} is already encrypted; use `holdfast rekey` to change the key")
    return _change(invocation.folder, source, new_key)


@command()
async def rekey(
    invocation: Invocation,
    key_file: KeyFile = None,
    key_command: KeyCommand = None,
    keyring: KeyRing = None,
    new_key: NewKey = None,
) -> Output:
    """Encrypt the data folder with another key.

    The current key must still be available. If the command is interrupted, run it again: it continues.

    \b
    Examples:
      holdfast rekey --new-key ~/.holdfast-2027.key
    """
    source = _source(key_file, key_command, keyring, new_key)
    if read_marker(invocation.folder) is None:
        raise InvalidInput(f"{invocation.folder} is not encrypted; use `holdfast encrypt`")
    return _change(invocation.folder, source, new_key)


@command()
async def decrypt(invocation: Invocation) -> Output:
    """Remove the encryption of the data folder.

    \b
    Examples:
      holdfast decrypt --data ./data
    """
    return _change(invocation.folder, None, None)


def _source(file: Path | None, command: str | None, keyring: str | None, new: Path | None) -> KeySource:
    named = [one for one in (file, command, keyring, new) if one is not None]
    if len(named) != 1:
        wrong = "no location of the key is given" if not named else "several locations of the key are given"
        raise InvalidInput(f"{wrong}; use exactly one of --key-file, --key-command, --keyring, --new-key")
    if command is not None:
        return KeySource("command", command)
    if keyring is not None:
        return KeySource("keyring", keyring)
    return KeySource("file", str(home_of(file or new or Path()).absolute()))


def _change(folder: Path, source: KeySource | None, new: Path | None) -> Output:
    from holdfast.runtime.app import change_encryption

    if source is not None and new is not None:
        write_new_key(Path(source.place), f"{SystemEntropy().bits(256):064x}")

    def progress(name: str, n: int, count: int) -> None:
        print(f"{n} of {count}: {name}", file=sys.stderr, flush=True)

    changed = change_encryption(folder, source, progress)
    text = [f"{folder} {'is no longer encrypted' if source is None else f'is encrypted; its key is in {source}'}."]
    if changed.removed:
        text.append(f"Removed, because it could not be read: {', '.join(changed.removed)}")
    if source is not None and changed.readable:
        text += ["Not encrypted, because people read and edit them:", *(f"  {name}" for name in changed.readable)]
    if source is not None:
        text.append("Earlier copies, and freed blocks of the disk, may still contain readable data.")
    view = {
        "encrypted": source is not None,
        "key": str(source) if source else None,
        "files": changed.files,
        "removed": changed.removed,
        "readable": changed.readable,
    }
    return Output(view, *text)
