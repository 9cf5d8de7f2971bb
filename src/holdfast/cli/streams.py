"""The standard streams, made fit for use: a process may be started without them, or where a letter cannot be shown."""

import errno
import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def is_text(argument: str) -> bool:
    """Whether the bytes of an argument are UTF-8: others can neither be stored nor shown again."""
    return not any("\ud800" <= char <= "\udfff" for char in argument)


class Terminal(io.FileIO):
    """A terminal that may be closed while the process runs. What is written to it afterwards is lost, not an error."""

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return len(memoryview(data))


def prepare() -> None:
    """A stream that is closed reads nothing and writes nowhere; what stdout cannot spell is shown by its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)  # nor can a file of ours get the number of the stream
            setattr(sys, name, open(nothing, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - for good
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and stream.isatty():
            terminal = io.BufferedWriter(Terminal(stream.fileno(), "w", closefd=False))
            lines = io.TextIOWrapper(terminal, encoding=stream.encoding, errors=stream.errors, line_buffering=True)
            setattr(sys, name, lines)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
