"""`holdfast tail`: what happens, as it happens. It reads the store by a cursor and works beside a serving process."""

import select
import sys
import textwrap
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from holdfast.cli.command import Invocation, OnlyAgent, Runtime, command
from holdfast.cli.output import OK, UTF_8, is_terminal, print_json, print_warning, terminal_columns
from holdfast.cli.tail_text import event_line
from holdfast.cli.times import zone
from holdfast.kernel.errors import StoreUnavailable
from holdfast.kernel.ids import Instant
from holdfast.monitor.tail import TailEvent
from holdfast.monitor.tail_sql import read_tail, start_tail

LOOK_EVERY_MS = 500
INDENT = 9


@command(config=True, times=True)
async def tail(invocation: Invocation, agent: OnlyAgent = None) -> int:
    """Print what happens, as it happens.

    Messages, turns, requests to models, tool calls, replies and deliveries are printed until Ctrl-C, or until the
    reader closes the pipe. --json prints a line of JSON for each. Several changes of one reply within a moment are one
    line.

    \b
    Examples:
      holdfast tail
      holdfast tail --agent main
      holdfast tail --json | grep '"kind":"delivery"'
    """
    async with invocation.visiting() as runtime:
        name = runtime.named(agent) if agent is not None else None
        printer = TailPrinter(as_json=invocation.as_json)
        await _follow(runtime, printer, name)
    return OK


async def _follow(runtime: Runtime, printer: "TailPrinter", agent: str | None) -> None:
    cursor = await runtime.db.read(start_tail())
    printer.begin(runtime.clock.now())
    is_away = False
    while not is_closed():
        try:
            page = await runtime.db.read(read_tail(cursor))
            cursor, is_away = page.cursor, False
            for event in page.events:
                if agent is None or event.agent == agent:
                    printer.print(event)
        except StoreUnavailable as error:  # it goes on where it was
            if not is_away:
                print_warning(f"{error}; waiting for the store")
            is_away = True
        await runtime.tasks.sleep(LOOK_EVERY_MS)


def is_closed() -> bool:
    """Whether the reader of a pipe on stdout is gone. Writing would tell it too, but only when something happens."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # stdout is closed, or no file
        return False
    return any(event & select.POLLERR for _, event in poll.poll(0))


class TailPrinter:
    """Prints a line for each event, and a line for each day."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._plain = (sys.stdout.encoding or "utf-8").lower() not in UTF_8
        self._day = ""

    def begin(self, at: Instant) -> None:
        """Say from when on everything is printed."""
        if self._as_json:
            print_json({"at": at, "kind": "tail", "what": "began"})
        else:
            self._date(at)

    def print(self, event: TailEvent) -> None:
        if self._as_json:
            print_json(_view(event))
            return
        self._date(event.at)
        for line in self._lines(event):
            print(line, flush=True)

    def _date(self, instant: Instant) -> None:
        if (day := datetime.fromtimestamp(instant / 1000, zone()).strftime("%Y-%m-%d %Z")) != self._day:
            self._day = day
            print(day, flush=True)

    def _lines(self, event: TailEvent) -> Iterator[str]:
        line = event_line(event, plain=self._plain)
        if is_terminal():
            yield from textwrap.wrap(line, max(40, terminal_columns()), subsequent_indent=" " * INDENT)
        else:
            yield line


def _view(event: TailEvent) -> dict[str, Any]:
    view: dict[str, Any] = msgspec.to_builtins(event)
    return view
