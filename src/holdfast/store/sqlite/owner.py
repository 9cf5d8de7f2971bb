"""The owner lock: one process at a time runs workers and dispatchers on a data folder.

The operating system releases the lock when its holder dies. The holder's process number is in a separate
file, because a locked file cannot be read on Windows.
"""

import os
from pathlib import Path

from filelock import FileLock, Timeout

from holdfast.kernel.errors import StoreOwned
from holdfast.kernel.files import unwritable

LOCK_NAME = "holdfast.lock"
PID_NAME = "holdfast.pid"
GLANCE_S = 0.2  # a command may hold the lock briefly to check whether the folder is served


class OwnerLock:
    """Held from `acquire` to `release`, or until this object is garbage-collected: keep a reference."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._pid = data / PID_NAME
        self._lock = FileLock(  # another thread may release it; a soft lock would survive its holder
            data / LOCK_NAME, mode=0o600, thread_local=False, fallback_to_soft=False
        )

    def acquire(self) -> None:
        """Take the lock after a short wait at most. Raises `StoreOwned` while another process holds it.

        Raises `StoreFull` or `StoreReadOnly` if the folder cannot be written.
        """
        try:
            self._lock.acquire(timeout=GLANCE_S, poll_interval=GLANCE_S / 10)
            handle = os.open(self._pid, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
            with os.fdopen(handle, "w", encoding="ascii") as opened:
                opened.write(f"{os.getpid()}\n")
        except Timeout as error:
            pid = self.pid()
            holder = "another process" if pid is None else f"process {pid}"
            raise StoreOwned(f"{self._data} is in use by {holder}", path=str(self._data)) from error
        except OSError as error:
            self._lock.release()
            raise unwritable(f"{self._data} cannot be locked", error, path=str(self._data)) from error

    def release(self) -> None:
        """Release the lock; a no-op if it is not held."""
        if self._lock.is_locked:
            self._pid.unlink(missing_ok=True)
            self._lock.release()

    def pid(self) -> int | None:
        """The process number that was written last: the holder's, while there is one."""
        try:
            return int(self._pid.read_text(encoding="ascii"))
        except (OSError, ValueError):  # unreadable, or between taking the lock and writing the file
            return None

    def incarnation(self) -> str | None:
        """The holder's process number and the time it took the lock, which distinguishes reused process numbers."""
        try:
            return f"{self.pid()}:{self._pid.stat().st_mtime_ns}"
        except OSError:
            return None
