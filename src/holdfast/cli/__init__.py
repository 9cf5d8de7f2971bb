"""The command line. `main` loads the table of commands; a command is imported when it is used."""

import errno
import gc
import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# Allocations between two collections while modules are imported, which leave little garbage. `outcome` sets it back.
IMPORT_THRESHOLD = 50_000


def main() -> None:
    gc.set_threshold(IMPORT_THRESHOLD)
    from holdfast.kernel.hardening import harden

    harden()
    prepare_streams()
    for argument in sys.argv[1:]:
        if not is_text(argument):
            from holdfast.cli.running import refuse_argument

            refuse_argument(argument, as_json="--json" in sys.argv)
    from holdfast.cli.commands import app

    app(prog_name="holdfast")


def is_text(argument: str) -> bool:
    """Whether the bytes of an argument are UTF-8; others can be neither stored nor displayed."""
    return not any("\ud800" <= char <= "\udfff" for char in argument)


class Terminal(io.FileIO):
    """A terminal that may be closed while the process runs. Later output is discarded without an error."""

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return len(memoryview(data))


def prepare_streams() -> None:
    """Replace closed streams by the null device; stdout escapes characters that it cannot encode."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)  # this also reserves the descriptor of the stream
            setattr(sys, name, open(nothing, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - stays open
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and stream.isatty():
            terminal = io.BufferedWriter(Terminal(stream.fileno(), "w", closefd=False))
            lines = io.TextIOWrapper(terminal, encoding=stream.encoding, errors=stream.errors, line_buffering=True)
            setattr(sys, name, lines)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
