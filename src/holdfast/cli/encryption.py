"""`holdfast encrypt`, `rekey`, `decrypt` and `log`: the data folder under a key of the operator."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import Data, Json

if TYPE_CHECKING:
    from holdfast.store.encryption.source import KeySource

KeyFile = Annotated[Path | None, typer.Option("--key-file", help="The key is in this file.")]
KeyCommand = Annotated[str | None, typer.Option("--key-command", help="This command prints the key.")]
KeyRing = Annotated[str | None, typer.Option("--keyring", help="The key is in the system's keyring, under this name.")]
NewKey = Annotated[Path | None, typer.Option("--new-key", help="Make a key and keep it in this new file.")]


def encrypt(
    *,
    key_file: KeyFile = None,
    key_command: KeyCommand = None,
    keyring: KeyRing = None,
    new_key: NewKey = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Encrypt the data folder: the store, the index and the log.

    Nobody may serve the folder meanwhile. Ended halfway, the same command goes on. Without the key nothing can be read
    any more: keep a copy of it elsewhere, and not beside the backups.

    \b
    Examples:
      holdfast encrypt --new-key ~/.holdfast.key
      holdfast encrypt --key-command "pass show holdfast"
    """
    from holdfast.cli.running import run

    run(lambda: _encrypt(_given(key_file, key_command, keyring, new_key), new_key, data, as_json), as_json=as_json)


def rekey(
    *,
    key_file: KeyFile = None,
    key_command: KeyCommand = None,
    keyring: KeyRing = None,
    new_key: NewKey = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Encrypt the data folder with another key.

    The former key must still be where it is. Ended halfway, the same command goes on.

    \b
    Examples:
      holdfast rekey --new-key ~/.holdfast-2027.key
    """
    from holdfast.cli.running import run

    run(lambda: _rekey(_given(key_file, key_command, keyring, new_key), new_key, data, as_json), as_json=as_json)


def decrypt(data: Data = None, as_json: Json = False) -> None:
    """Write the data folder without encryption again.

    \b
    Examples:
      holdfast decrypt --data ./data
    """
    from holdfast.cli.running import run

    run(lambda: _change(None, data, as_json), as_json=as_json)


def log(data: Data = None, as_json: Json = False) -> None:
    """Print the log, oldest line first.

    Where the data folder is encrypted it is decrypted.

    \b
    Examples:
      holdfast log | tail
    """
    from holdfast.cli.running import run

    run(lambda: _print_log(data), as_json=as_json)


def _given(file: Path | None, command: str | None, keyring: str | None, new: Path | None) -> "KeySource":
    from holdfast.cli.opening import home_of
    from holdfast.kernel.errors import InvalidInput
    from holdfast.store.encryption.source import KeySource

    named = [one for one in (file, command, keyring, new) if one is not None]
    if len(named) != 1:
        wrong = "no place of the key is named" if not named else "several places of the key are named"
        raise InvalidInput(f"{wrong}; give one of --key-file, --key-command, --keyring, --new-key")
    if command is not None:
        return KeySource("command", command)
    if keyring is not None:
        return KeySource("keyring", keyring)
    return KeySource("file", str(home_of(file or new or Path()).absolute()))


async def _encrypt(source: "KeySource", new: Path | None, data: Path | None, as_json: bool) -> int:
    from holdfast.cli.opening import folder_of
    from holdfast.kernel.errors import InvalidInput
    from holdfast.store.encryption.marker import read_marker

    marker = read_marker(folder_of(data))
    if marker is not None and not marker.changing:
        raise InvalidInput(f"{folder_of(data)} is encrypted already; `holdfast rekey` gives it another key")
    return await _with_key(source, new, data, as_json)


async def _rekey(source: "KeySource", new: Path | None, data: Path | None, as_json: bool) -> int:
    from holdfast.cli.opening import folder_of
    from holdfast.kernel.errors import InvalidInput
    from holdfast.store.encryption.marker import read_marker

    if read_marker(folder_of(data)) is None:
        raise InvalidInput(f"{folder_of(data)} is not encrypted; `holdfast encrypt` does it")
    return await _with_key(source, new, data, as_json)


async def _with_key(source: "KeySource", new: Path | None, data: Path | None, as_json: bool) -> int:
    from holdfast.runtime.app import make_key_file

    if new is not None:
        make_key_file(Path(source.place))
    return await _change(source, data, as_json)


async def _change(source: "KeySource | None", data: Path | None, as_json: bool) -> int:
    import sys

    from holdfast.cli.opening import folder_of
    from holdfast.cli.output import print_json
    from holdfast.cli.running import OK
    from holdfast.runtime.app import change_encryption

    def tell(name: str, n: int, count: int) -> None:
        print(f"{n} of {count}: {name}", file=sys.stderr, flush=True)

    folder = folder_of(data)
    changed = change_encryption(folder, source, tell)
    if as_json:
        facts = {"files": changed.files, "removed": changed.removed, "readable": changed.readable}
        print_json({"encrypted": source is not None, "key": str(source) if source else None, **facts})
        return OK
    done = "is not encrypted any more" if source is None else f"is encrypted; its key is in {source}"
    print(f"{folder} {done}.")
    if changed.removed:
        print(f"Removed, because it could not be read: {', '.join(changed.removed)}")
    if source is not None and changed.readable:
        print("Still readable, because people read and edit them:")
        print("\n".join(f"  {name}" for name in changed.readable))
    if source is not None:
        print("Copies that were made before, and freed blocks of the disk, may still hold what was readable.")
    return OK


async def _print_log(data: Path | None) -> int:
    from holdfast.cli.logs import FILE
    from holdfast.cli.opening import folder_of
    from holdfast.cli.running import OK
    from holdfast.kernel.errors import StorePathInvalid
    from holdfast.store.encryption.log_lines import LineCipher
    from holdfast.store.encryption.marker import key_of

    folder = folder_of(data)
    key = key_of(folder)
    cipher = None if key is None else LineCipher(key)
    files = [path for path in folder.glob(f"{FILE}*") if path.suffix.removeprefix(".").isdigit() or path.name == FILE]
    if not files:
        raise StorePathInvalid(f"there is no log in {folder} yet", path=str(folder))
    for path in sorted(files, key=lambda one: -int(one.suffix[1:]) if one.suffix[1:].isdigit() else 1):
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                text = line.rstrip("\n")
                told = text if cipher is None else cipher.readable(text)
                print(told if told is not None else "(a line that is damaged, or encrypted with another key)")
    return OK
