"""Resolves a caller's working directory and the repository around it when a message is sent.

The path is absolute and free of symbolic links, so two directories never share a name.
"""

import os
from pathlib import Path

from holdfast.kernel.errors import InvalidInput
from holdfast.memory.delivery import NOWHERE, CallerDirectory

PATH_CHARS_MAX = 4_096
MARK = ".git"  # a directory, or a file in a worktree


def locate(directory: Path | str | None) -> CallerDirectory:
    """The directory and its repository. Raises `InvalidInput` for an impossible path."""
    if directory is None or not str(directory):
        return NOWHERE
    try:
        path = Path(directory).expanduser().resolve()
        repo = next((above for above in (path, *path.parents) if (above / MARK).exists()), None)
    except (OSError, RuntimeError, ValueError) as error:  # too long, a loop of links, an unknown home, a NUL byte
        raise InvalidInput(f"the directory {str(directory)[:80]!r} cannot be found: {error}") from error
    return CallerDirectory(_text(path), _text(repo) if repo is not None else "")


def _text(path: Path) -> str:
    """The path as text. A path that is not UTF-8 is written in hexadecimal, which no absolute path resembles."""
    try:
        text = str(path)
        text.encode()
    except UnicodeEncodeError:
        text = f"bytes:{os.fsencode(path).hex()}"
    if len(text) > PATH_CHARS_MAX:
        raise InvalidInput(f"the directory has {len(text)} characters; the limit is {PATH_CHARS_MAX}")
    return text
