"""Writes a file that must not exist yet, readable by its owner only."""

import os
from pathlib import Path

from holdfast.kernel.disk_space import is_out_of_space, unwritable
from holdfast.kernel.errors import InvalidInput


def write_new(file: Path, body: bytes, *, option: str) -> None:
    """Raises `InvalidInput` if the file exists or cannot be written, and `StoreFull`. `option` named the file."""
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as opened:
            opened.write(body)
    except FileExistsError as error:
        why = "the file exists already and was not changed; name another file"
        raise InvalidInput(f"{option} {file}: {why}", file=str(file)) from error
    except OSError as error:
        if is_out_of_space(error):
            file.unlink(missing_ok=True)  # an incomplete file is useless
            raise unwritable(f"{option} {file}", error) from error
        raise InvalidInput(f"{option} {file}: the file cannot be written: {error.strerror}", file=str(file)) from error
