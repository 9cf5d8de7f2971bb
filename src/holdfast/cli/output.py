"""What a command prints: JSON for programs, tables and text for people, errors in one form, and the files it writes.

Headings and tables are styled only on a terminal. Control characters in text are escaped, so that no message can steer
the terminal it is shown on.
"""

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.api.shapes.error_report import error_view
from holdfast.cli import exit_codes
from holdfast.cli.times import time_and_age
from holdfast.kernel.errors import HoldfastError, InvalidInput
from holdfast.kernel.files import is_out_of_space, unwritable
from holdfast.kernel.ids import Instant

if TYPE_CHECKING:
    from holdfast.api.shapes.shapes import Delivery

UTF_8 = frozenset({"utf-8", "utf8"})
# Under these names commands import them beside `Output`.
OK, WRONG, USAGE, CONTRADICTION = exit_codes.OK, exit_codes.WRONG, exit_codes.USAGE, exit_codes.CONTRADICTION
AWAITING, INTERNAL, INTERRUPTED = exit_codes.AWAITING, exit_codes.INTERNAL, exit_codes.INTERRUPTED
TERMINATED = exit_codes.TERMINATED
LAST_COLUMN_CHARS = 20  # the last column may be folded to this width before a table is printed row by row


@dataclass(frozen=True, slots=True)
class Heading:
    text: str


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table; without rows, `none` is printed instead, such as "none; `holdfast send` sends a message"."""

    headings: Sequence[str]
    rows: Iterable[Sequence[object]]
    none: str = "none"


Part = str | Heading | TextTable


class Output:
    """The result of a command: a value for `--json`, or else text for people; and the exit code."""

    def __init__(self, value: object, *text: Part, code: int = OK) -> None:
        self.value, self.text, self.code = value, text, code

    def print(self, *, as_json: bool) -> None:
        if as_json:
            print_json(self.value)
            return
        for part in self.text:
            match part:
                case Heading(text):
                    print(f"\x1b[1m{visible(text)}\x1b[0m" if is_terminal() else visible(text))
                case TextTable():
                    print_table(part)
                case _:
                    print(visible(part))


def print_json(value: object) -> None:
    text = msgspec.json.encode(value).decode()
    if (sys.stdout.encoding or "utf-8").lower() not in UTF_8:
        text = json.dumps(json.loads(text))  # escapes everything that is not ASCII
    print(text, flush=True)


def print_error(error: HoldfastError, *, as_json: bool) -> None:
    """For people on stderr; with `as_json`, also as JSON on stdout."""
    if as_json:
        print_json(error_view(error))
    print(f"error[{error.code}]: {visible(str(error))}\n  hint: {error.hint}", file=sys.stderr, flush=True)


def print_errors(errors: Sequence[HoldfastError], *, as_json: bool) -> None:
    """Errors that were found together. In JSON the first one is `error`, and all of them are `problems`."""
    if as_json:
        views = [error_view(one).error for one in errors]
        print_json({"error": views[0], "problems": views})
    for one in errors:
        print_error(one, as_json=False)


def print_warning(sentence: str) -> None:
    print(visible(f"warning: {sentence}"), file=sys.stderr, flush=True)


def print_table(table: TextTable) -> None:
    """Formatted by rich on a terminal, aligned with spaces elsewhere.

    On a terminal too narrow for the columns, each row is printed as lines with the headings before the values.
    """
    cells = [[visible("" if cell is None else str(cell)).replace("\n", " ") for cell in row] for row in table.rows]
    if not cells:
        print(visible(table.none))
        return
    widths = [max(len(line[n]) for line in [table.headings, *cells]) for n in range(len(table.headings))]
    if not is_terminal():
        for line in [table.headings, *cells]:
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    elif sum(widths[:-1]) + 2 * len(widths) + min(widths[-1], LAST_COLUMN_CHARS) > (columns := terminal_columns()):
        for n, line in enumerate(cells):
            if n:
                print()
            _print_card(table.headings, line, columns)
    else:
        _print_formatted(table.headings, cells)


def _print_card(headings: Sequence[str], line: Sequence[str], columns: int) -> None:
    """One row of a table under each other; what does not fit goes on below its value."""
    indent = min(max(map(len, headings)) + 1, columns // 2)
    for heading, cell in zip(headings, line, strict=True):
        if cell:
            texts = textwrap.wrap(cell, max(1, columns - indent)) or [""]
            print(f"{heading[: indent - 1]:<{indent}}{texts[0]}")
            for text in texts[1:]:
                print(f"{'':<{indent}}{text}")


def _print_formatted(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*headings, box=None, header_style="bold", pad_edge=False)
    for row in cells:
        table.add_row(*(Text(cell, overflow="fold") for cell in row))
    Console().print(table)


def wrapped(text: str) -> str:
    """The text with its lines wrapped between words to the width of the terminal; unchanged elsewhere."""
    if not is_terminal():
        return text
    lines = (textwrap.wrap(line, terminal_columns()) or [""] for line in text.split("\n"))
    return "\n".join(line for found in lines for line in found)


def terminal_columns(otherwise: int = 100) -> int:
    """The width of the terminal, or the variable COLUMNS."""
    return shutil.get_terminal_size((otherwise, 24)).columns


def write_new(file: Path, body: bytes, *, option: str) -> None:
    """Write a file that must not exist yet, readable by its owner only. `option` named the file.

    Raises `InvalidInput` if the file exists or cannot be written, and `StoreFull`.
    """
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as opened:
            opened.write(body)
    except FileExistsError as error:
        why = "the file exists already and was not changed; name another file"
        raise InvalidInput(f"{option} {file}: {why}", file=str(file)) from error
    except OSError as error:
        if is_out_of_space(error):
            file.unlink(missing_ok=True)  # an incomplete file is useless
            raise unwritable(f"{option} {file}", error) from error
        raise InvalidInput(f"{option} {file}: the file cannot be written: {error.strerror}", file=str(file)) from error


def facts(found: Mapping[str, object]) -> str:
    """One line for each fact that has a value."""
    return "\n".join(f"{name:<9} {value}" for name, value in found.items() if value)


def visible(text: str) -> str:
    """The text with control characters escaped, except for line breaks and tabs."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"


def is_terminal() -> bool:
    return sys.stdout.isatty()


def when(instant: Instant | int | None) -> str:
    """A time and its age; empty without one."""
    return "" if instant is None else time_and_age(instant)


def decision(state: str, decided_by: str | None) -> str:
    """Who settled a delivery or a reply, if a person did."""
    if decided_by is None:
        return ""
    return f"said to have arrived by {decided_by}" if state == "delivered" else f"given up by {decided_by}"


def what_delivered_means(deliveries: "Iterable[Delivery]") -> list[str]:
    """A line for each provider with a delivered item in the list."""
    meanings = {one.provider: one.means for one in deliveries if one.means}
    return [f"delivered at {provider}: {means}." for provider, means in sorted(meanings.items())]
