"""What a command prints: shapes as JSON, tables and texts for people, errors in one form.

Colours only on a terminal. What people wrote is shown without control characters, so that no message can steer the
terminal it is shown on.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from holdfast.api.shapes.shapes import Delivery, error_view
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.ids import Instant

UTF_8 = frozenset({"utf-8", "utf8"})


def print_json(value: object) -> None:
    text = msgspec.json.encode(value).decode()
    if (sys.stdout.encoding or "utf-8").lower() not in UTF_8:
        text = json.dumps(json.loads(text))  # with everything escaped that is not ASCII
    print(text, flush=True)


def print_error(error: HoldfastError, *, as_json: bool) -> None:
    """For people on stderr; for programs that asked for JSON, also as JSON on stdout."""
    if as_json:
        print_json(error_view(error))
    print(f"error[{error.code}]: {visible(str(error))}\n  hint: {error.hint}", file=sys.stderr, flush=True)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table: drawn on a terminal, aligned with spaces elsewhere."""
    cells = [[visible("" if cell is None else str(cell)).replace("\n", " ") for cell in row] for row in rows]
    if is_terminal():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*headings, box=None, header_style="bold", pad_edge=False)
        for row in cells:
            table.add_row(*(Text(cell, overflow="fold") for cell in row))
        Console().print(table)
        return
    widths = [max(len(line[n]) for line in [list(headings), *cells]) for n in range(len(headings))]
    for line in [list(headings), *cells]:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def print_heading(text: str) -> None:
    print(f"\x1b[1m{visible(text)}\x1b[0m" if is_terminal() else visible(text))


def visible(text: str) -> str:
    """The text with control characters spelt out, line breaks and tabs excepted."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else _spelt(char) for char in text)


def _spelt(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"


def is_terminal() -> bool:
    return sys.stdout.isatty()


def when(instant: Instant | int | None) -> str:
    if instant is None:
        return ""
    return datetime.fromtimestamp(instant / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def what_delivered_means(deliveries: Iterable[Delivery]) -> list[str]:
    """A line for each provider that has delivered something in the list."""
    meanings = {one.provider: one.means for one in deliveries if one.means}
    return [f"delivered at {visible(provider)}: {visible(means)}." for provider, means in sorted(meanings.items())]
