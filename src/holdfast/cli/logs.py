"""The log file of the process that serves a data folder, and `holdfast log`, which prints it."""

import json
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from holdfast.cli.command import Invocation, command
from holdfast.kernel.errors import StorePathInvalid
from holdfast.kernel.log import JsonLines
from holdfast.store.encryption.log_lines import LineCipher
from holdfast.store.encryption.marker import key_of

FILE = "holdfast.log"
FILE_BYTES_MAX = 10 * 1024 * 1024
FILES_KEPT = 5
GATHER_S = 0.05
LINES_MAX = 10_000  # lines in memory that are not yet written
LEVELS = {"holdfast": logging.INFO, "uvicorn.error": logging.WARNING}


class PrivateFile(RotatingFileHandler):
    """A log file that rotates by size and that only its owner can read.

    A thread writes lines in batches, at most `GATHER_S` later, because writing each line alone would cost more than the
    message that it is about. A warning or error is written immediately, with the lines before it. A killed process
    loses only the lines of its last batch; everything that must survive is in the store. While the disk is full, a
    bounded number of lines wait in memory; no line is truncated.
    """

    def __init__(self, file: Path, bytes_max: int, files_kept: int, cipher: LineCipher | None = None) -> None:
        super().__init__(file, maxBytes=bytes_max, backupCount=files_kept, encoding="utf-8", delay=True)
        self._cipher = cipher
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        self._begun = b""  # the unwritten rest of a batch
        self._writing = threading.Lock()
        self._said, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._write_now_and_then, name="log", daemon=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line. A logging error never reaches the caller."""
        try:
            line = self.format(record)
        except (TypeError, ValueError) as error:  # raised while formatting the line
            line = json.dumps({"at": round(record.created, 3), "event": str(record.msg), "lost": type(error).__name__})
        self._lines.append(f"{self._cipher.encrypted(line) if self._cipher is not None else line}\n")
        if record.levelno >= logging.WARNING or self._closing.is_set() or len(self._lines) >= LINES_MAX // 2:
            with suppress(OSError):  # the disk is full: the line stays in the queue
                self.flush()
        if (self._lines or self._begun) and not self._said.is_set():
            with suppress(RuntimeError):  # no thread can be started now: the next line tries again
                if self._thread.ident is None:
                    self._thread.start()
                self._said.set()

    def flush(self) -> None:
        """Write all queued lines."""
        with self._writing:
            while self._begun or self._lines:
                self._begun = self._begun or self._gathered(self._room())
                self._write()

    def close(self) -> None:
        self._closing.set()
        self._said.set()
        if self._thread.ident is not None:
            self._thread.join()
        try:
            self.flush()
        except OSError as error:  # the process ends in any case
            count = self._begun.count(b"\n") + len(self._lines)
            print(f"{count} lines of the log could not be written ({error})", file=sys.stderr, flush=True)
            self._lines.clear()
            self._begun = b""
        super().close()

    def _write_now_and_then(self) -> None:
        while not self._closing.is_set():
            self._said.wait()
            self._closing.wait(GATHER_S)
            self._said.clear()
            with suppress(OSError):  # the disk is full: the next line tries again, oldest first
                self.flush()

    def _room(self) -> int:
        """The number of bytes until the file is full; a full file is rotated first."""
        if self.stream is None:
            self.stream = self._open()
        room = self.maxBytes - os.fstat(self.stream.fileno()).st_size
        if room <= 0:
            self.doRollover()
            return self.maxBytes
        return room

    def _gathered(self, room: int) -> bytes:
        lines = []
        while self._lines and room > 0:
            lines.append(self._lines.popleft().encode())
            room -= len(lines[-1])
        return b"".join(lines)

    def _write(self) -> None:
        """Write to the descriptor: the stream's buffer would lose what the disk does not accept."""
        self.stream = self.stream or self._open()
        while self._begun:
            self._begun = self._begun[os.write(self.stream.fileno(), self._begun) :]

    def _open(self) -> TextIOWrapper:
        handle = os.open(self.baseFilename, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        return os.fdopen(handle, "a", encoding="utf-8")


@contextmanager
def logging_to(handler: logging.Handler) -> Iterator[None]:
    """Send the lines of Holdfast, and the warnings of the web server, to the handler."""
    handler.setFormatter(JsonLines())
    loggers = {logging.getLogger(name): level for name, level in LEVELS.items()}
    for logger, level in loggers.items():
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.propagate = True
        handler.close()


def to_file(folder: Path) -> logging.Handler:
    """The file is opened at the first line, after the process has taken the folder. It is encrypted like the folder."""
    key = key_of(folder)
    return PrivateFile(folder / FILE, FILE_BYTES_MAX, FILES_KEPT, None if key is None else LineCipher(key))


@command()
async def log(invocation: Invocation) -> int:
    """Print the log, oldest line first.

    The log of an encrypted data folder is decrypted.

    \b
    Examples:
      holdfast log | tail
    """
    folder = invocation.folder
    key = key_of(folder)
    cipher = None if key is None else LineCipher(key)
    files = [path for path in folder.glob(f"{FILE}*") if path.suffix.removeprefix(".").isdigit() or path.name == FILE]
    if not files:
        raise StorePathInvalid(f"there is no log in {folder} yet; `holdfast up` writes it", path=str(folder))
    for path in sorted(files, key=lambda one: -int(one.suffix[1:]) if one.suffix[1:].isdigit() else 1):
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                text = line.rstrip("\n")
                shown = text if cipher is None else cipher.readable(text)
                print(shown if shown is not None else "(a line that is damaged, or encrypted with another key)")
    return 0
