"""`holdfast top`: the overview and what happens, in a full screen that needs the package Textual."""

import sys
from collections.abc import Sequence
from datetime import UTC

from holdfast.cli.command import Invocation, Runtime, command
from holdfast.cli.output import OK
from holdfast.cli.overview import StoreOverview, read_overview
from holdfast.cli.times import zone
from holdfast.kernel.errors import ConfigInvalid, InvalidInput
from holdfast.kernel.ids import MessageId
from holdfast.monitor.tail import TailCursor, TailEvent
from holdfast.monitor.tail_sql import read_tail, start_tail
from holdfast.monitor.timeline import Timeline, timeline
from holdfast.monitor.trace_sql import read_trace

EXAMINED_EVERY = 10  # looks; the process and a write are examined by the first of them


@command(config=True, times=True)
async def top(invocation: Invocation) -> int:
    """Watch the status in a full screen.

    The screen shows what needs you, a row for each agent, the open turns, and what happens. Tab moves between the
    tables, Enter shows the timeline of a turn's message or what to type about a need, and q ends it. It needs a
    terminal and the extra `top`.

    \b
    Examples:
      holdfast top
      holdfast top --utc
    """
    if invocation.as_json or not is_at_a_terminal():
        hint = "Use `holdfast status --json` or `holdfast tail --json`."
        raise InvalidInput("holdfast top needs a terminal, and prints no JSON", hint=hint)
    try:
        from holdfast.cli.top_screen import TopScreen
    except ModuleNotFoundError as error:
        hint = "Install holdfast[top], or use `holdfast status` and `holdfast tail`."
        raise ConfigInvalid("holdfast top needs the package textual, which is not installed", hint=hint) from error
    async with invocation.visiting() as runtime:
        await TopScreen(TopSource(invocation, runtime), utc=zone() is UTC).run_async()
    return OK


def is_at_a_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


class TopSource:
    """What the screen shows. It reads the store beside the process that serves it."""

    def __init__(self, invocation: Invocation, runtime: Runtime) -> None:
        self._invocation = invocation
        self._runtime = runtime
        self._looks = 0
        self._overview: StoreOverview | None = None
        self._cursor: TailCursor | None = None

    async def overview(self) -> StoreOverview:
        earlier = self._overview if self._looks % EXAMINED_EVERY else None
        self._overview = await read_overview(self._invocation, self._runtime, earlier=earlier)
        self._looks += 1
        return self._overview

    async def events(self) -> Sequence[TailEvent]:
        """What happened since the last call; nothing at the first."""
        if self._cursor is None:
            self._cursor = await self._runtime.db.read(start_tail())
        page = await self._runtime.db.read(read_tail(self._cursor))
        self._cursor = page.cursor
        return page.events

    async def timeline(self, message: str) -> Timeline:
        """Raises `MessageNotFound`."""
        return timeline(await self._runtime.db.read(read_trace(MessageId(message))))
