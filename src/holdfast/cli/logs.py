"""Where the log goes: a file in the data folder for whoever serves it, stderr with `--verbose`."""

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

from holdfast.kernel.log import JsonLines
from holdfast.store.encryption.log_lines import LineCipher
from holdfast.store.encryption.marker import key_of

FILE = "holdfast.log"
FILE_BYTES_MAX = 10 * 1024 * 1024
FILES_KEPT = 5
GATHER_S = 0.05
LINES_MAX = 10_000  # that wait for the disk
LEVELS = {"holdfast": logging.INFO, "uvicorn.error": logging.WARNING}


class PrivateFile(RotatingFileHandler):
    """Rotates by size; only its owner can read it.

    Lines are written together, by a thread of their own, within a moment: under load a line costs whoever says it more
    than the message it is about. A warning or worse is on file at once, and with it what came before. A process that is
    killed loses the lines of its last moment, and nothing else: what must survive is in the store. While the disk is
    full lines wait, a bounded number of them, and go on where the file ends: none is cut.
    """

    def __init__(self, file: Path, bytes_max: int, files_kept: int, cipher: LineCipher | None = None) -> None:
        super().__init__(file, maxBytes=bytes_max, backupCount=files_kept, encoding="utf-8", delay=True)
        self._cipher = cipher
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        self._begun = b""  # the rest of what is being written
        self._writing = threading.Lock()
        self._said, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._write_now_and_then, name="log", daemon=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Who logs does not fail by it, nor waits for somebody to read what the library would print about it."""
        try:
            line = self.format(record)
        except (TypeError, ValueError) as error:  # of a line's own words
            line = json.dumps({"at": round(record.created, 3), "event": str(record.msg), "lost": type(error).__name__})
        self._lines.append(f"{self._cipher.encrypted(line) if self._cipher is not None else line}\n")
        if record.levelno >= logging.WARNING or self._closing.is_set() or len(self._lines) >= LINES_MAX // 2:
            with suppress(OSError):  # a full disk: it waits with the others
                self.flush()
        if (self._lines or self._begun) and not self._said.is_set():
            with suppress(RuntimeError):  # no thread is to be had now: the next line tries again
                if self._thread.ident is None:
                    self._thread.start()
                self._said.set()

    def flush(self) -> None:
        """Write what was said so far."""
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
        except OSError as error:  # whoever ends has other things to say, and ends all the same
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
            with suppress(OSError):  # a full disk: what waits is tried again with the next line, the oldest goes first
                self.flush()

    def _room(self) -> int:
        """How much more the file takes; a full one is turned over first."""
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
        """Past the stream's own buffer, which would forget what the disk does not take."""
        self.stream = self.stream or self._open()
        while self._begun:
            self._begun = self._begun[os.write(self.stream.fileno(), self._begun) :]

    def _open(self) -> TextIOWrapper:
        handle = os.open(self.baseFilename, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        return os.fdopen(handle, "a", encoding="utf-8")


@contextmanager
def logging_to(handler: logging.Handler) -> Iterator[None]:
    """Send our lines, and the web server's warnings, to the handler."""
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
    """Opened at the first line, which is written once the folder is ours. Encrypted like the folder."""
    key = key_of(folder)
    return PrivateFile(folder / FILE, FILE_BYTES_MAX, FILES_KEPT, None if key is None else LineCipher(key))


def to_stderr() -> logging.Handler:
    return logging.StreamHandler()
