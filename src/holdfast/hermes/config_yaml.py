"""One value of Hermes' config.yaml: `memory.provider`. The rest of the file, comments included, stays as it is.

The file is changed as lines, because a YAML library would drop the comments. Forms that lines do not show safely (a
flow mapping, an anchor, a tab, two blocks of the same name) are refused.
"""

import os
import re
from pathlib import Path

from holdfast.hermes.home import HermesHome
from holdfast.kernel.errors import HermesConfigInvalid
from holdfast.kernel.files import sync_folder, unwritable, write_synced

FILE_BYTES_MAX = 4 << 20
_BLOCK = re.compile(r"memory[ ]*:[ ]*(?P<rest>[^#\n]*)(#.*)?$")
_PROVIDER = re.compile(r"(?P<indent>[ ]+)provider[ ]*:(?P<value>[^#]*)(?P<comment>#.*)?$")
_PLAIN = re.compile(r"[A-Za-z0-9_.-]*\Z")


def provider_of(home: HermesHome) -> str:
    """The memory provider that config.yaml names; empty without one. Raises `HermesConfigInvalid`."""
    found = _find(_lines(home.config), home.config)
    return found[1] if found is not None else ""


def set_provider(home: HermesHome, provider: str) -> str:
    """Name another provider and return the one before. The file is replaced as a whole.

    Raises `HermesConfigInvalid`, `StoreReadOnly` and `StoreFull`; then the file is unchanged.
    """
    lines = _lines(home.config)
    found = _find(lines, home.config)
    if found is not None:
        number, before = found
        match = _PROVIDER.match(lines[number])
        indent, comment = (match["indent"], match["comment"]) if match else ("  ", "")
        value = provider or "''"
        lines[number] = f"{indent}provider: {value}{f'  {comment}' if comment else ''}"
    else:
        before = ""
        block = _block(lines, home.config)
        if block is None:
            lines = [*lines, "memory:", f"  provider: {provider}"]
        else:
            lines.insert(block + 1, f"{_indent(lines, block)}provider: {provider}")
    if before != provider:
        _replace(home.config, "\n".join(lines).rstrip("\n") + "\n")
    return before


def _lines(file: Path) -> list[str]:
    try:
        raw = file.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise HermesConfigInvalid(f"{file} cannot be read: {error.strerror}", path=str(file)) from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise HermesConfigInvalid(f"{file} is not UTF-8 at byte {error.start}", path=str(file)) from error
    if len(raw) > FILE_BYTES_MAX:
        raise HermesConfigInvalid(f"{file} is larger than {FILE_BYTES_MAX} bytes", path=str(file))
    return text.splitlines()


def _block(lines: list[str], file: Path) -> int | None:
    """The line of the block `memory:`."""
    found = [(number, match) for number, line in enumerate(lines) if (match := _BLOCK.match(line))]
    if len(found) > 1:
        raise HermesConfigInvalid(f"{file} has two blocks named memory", path=str(file))
    if not found:
        return None
    number, match = found[0]
    if match["rest"].strip():
        raise HermesConfigInvalid(f"{file}, line {number + 1}: memory is not a block of lines", path=str(file))
    return number


def _find(lines: list[str], file: Path) -> tuple[int, str] | None:
    """The line of the provider and its value."""
    block = _block(lines, file)
    if block is None:
        return None
    indent = _indent(lines, block)
    for number in range(block + 1, len(lines)):
        line = lines[number]
        if line.strip() and not line.startswith((" ", "#", "\t")):
            break
        match = _PROVIDER.match(line)
        if match and match["indent"] == indent:
            value = match["value"].strip().strip("'\"")
            if not _PLAIN.match(value):
                raise HermesConfigInvalid(f"{file}, line {number + 1}: the provider is {value!r}", path=str(file))
            return number, "" if value in ("null", "~") else value
    return None


def _indent(lines: list[str], block: int) -> str:
    """The indentation of the first key of the block."""
    for line in lines[block + 1 :]:
        if line.strip() and not line.lstrip().startswith("#"):
            return line[: len(line) - len(line.lstrip(" "))] or "  "
    return "  "


def _replace(file: Path, text: str) -> None:
    """Write the new text beside the file and rename it, with the mode of the file. A link keeps leading to its file."""
    real = Path(os.path.realpath(file))
    draft = real.with_name(f"{real.name}.holdfast-new")
    try:
        mode = real.stat().st_mode & 0o777 if real.exists() else 0o600
        draft.unlink(missing_ok=True)
        write_synced(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), text.encode())
        draft.chmod(mode)
        draft.replace(real)
        sync_folder(real.parent)
    except OSError as error:
        raise unwritable(f"{real} cannot be written", error, path=str(real)) from error
