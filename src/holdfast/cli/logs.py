"""Where the log goes: a file in the data folder for whoever serves it, stderr with `--verbose`."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from holdfast.log import JsonLines

FILE = "holdfast.log"
FILE_BYTES_MAX = 10 * 1024 * 1024
FILES_KEPT = 5
LEVELS = {"holdfast": logging.INFO, "uvicorn.error": logging.WARNING}


class PrivateFile(RotatingFileHandler):
    """Rotates by size; only its owner can read it.

    The size is looked at once per line, and a line is made once: the library's own way does both three times over.
    """

    def shouldRollover(self, record: logging.LogRecord) -> bool:  # noqa: ARG002, N802 - the library's name
        return self.stream is not None and os.fstat(self.stream.fileno()).st_size >= self.maxBytes

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
    """Opened at the first line, which is written once the folder is ours."""
    return PrivateFile(folder / FILE, maxBytes=FILE_BYTES_MAX, backupCount=FILES_KEPT, encoding="utf-8", delay=True)


def to_stderr() -> logging.Handler:
    return logging.StreamHandler()
