"""A folder in memory for the files of tests: nothing there outlives the machine, and a sync costs nothing.

What a disk can do to a database is tested on a simulated one (tests/disk), and what a full one does on a small file
system (tests/full_disk).
"""

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
FREE_BYTES_MIN = 6_000_000_000  # the suite's files take less than a third of it
VARIABLE = "TMPDIR"


def has_room(bytes_min: int) -> bool:
    return MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= bytes_min


def use_memory() -> None:
    """Let this process and those it starts make their temporary files in memory, unless TMPDIR says where."""
    if VARIABLE in os.environ or not has_room(FREE_BYTES_MIN):
        return
    folder = MEMORY / f"holdfast-tests-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o711)  # servers that tests start as another user reach their own folders in it
    os.environ[VARIABLE] = str(folder)
    tempfile.tempdir = None  # it is decided again at the next use
