"""Where a caller is: its directory and the repository around it, found on this machine when a message is sent.

Two directories never get one name: the path is whole, without symbolic links and relative parts.
"""

import os
from pathlib import Path

from holdfast.kernel.errors import InvalidInput
from holdfast.memory.naming import NOWHERE, Whereabouts

PATH_CHARS_MAX = 4_096
MARK = ".git"  # a folder, or a file in a worktree


def locate(directory: Path | str | None) -> Whereabouts:
    """The directory and its repository. Raises `InvalidInput` for what no path can be."""
    if directory is None or not str(directory):
        return NOWHERE
    try:
        path = Path(directory).expanduser().resolve()
        repo = next((above for above in (path, *path.parents) if (above / MARK).exists()), None)
    except (OSError, RuntimeError, ValueError) as error:  # too long, a circle of links, nobody's home, a zero byte
        raise InvalidInput(f"the directory {str(directory)[:80]!r} cannot be found: {error}") from error
    return Whereabouts(_text(path), _text(repo) if repo is not None else "")


def _text(path: Path) -> str:
    """The path as text. One that is no UTF-8 is spelt in digits, which no whole path looks like."""
    try:
        text = str(path)
        text.encode()
    except UnicodeEncodeError:
        text = f"bytes:{os.fsencode(path).hex()}"
    if len(text) > PATH_CHARS_MAX:
        raise InvalidInput(f"the directory has {len(text)} characters; the limit is {PATH_CHARS_MAX}")
    return text
