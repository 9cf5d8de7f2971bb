"""Gives a finished file its name, and never replaces another one."""

import errno
import os
from pathlib import Path

NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


def place_new(staged: Path, target: Path) -> None:
    """Move a file on one file system. Raises `FileExistsError` if the name is taken."""
    if os.name != "posix":
        staged.rename(target)
        return
    try:
        target.hardlink_to(staged)  # unlike a rename, a link replaces nothing
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in NO_LINKS or target.exists():
            raise
        staged.replace(target)
    else:
        staged.unlink()
