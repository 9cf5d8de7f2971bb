"""The standard streams, made fit for use: a process may be started without them, or where a letter cannot be shown."""

import io
import os
import sys


def is_text(argument: str) -> bool:
    """Whether the bytes of an argument are UTF-8: others can neither be stored nor shown again."""
    return not any("\ud800" <= char <= "\udfff" for char in argument)


def prepare() -> None:
    """A stream that is closed reads nothing and writes nowhere; what stdout cannot spell is shown by its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)  # nor can a file of ours get the number of the stream
            setattr(sys, name, open(nothing, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - for good
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
