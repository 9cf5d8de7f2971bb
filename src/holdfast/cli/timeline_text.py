"""A timeline as lines of text, for terminals of any width.

    18:02:07.341            accepted and durable
                            from ada, own id 42
    18:02:07.341  +0 ms     waited for its turn, 4.3 s
    18:02:11.641  +4.3 s    claude-sonnet-5 answered, 0.7 s

The first column is the time of day, the second the time since the message was accepted. A mark stands before what did
not end well, or has not ended.
"""

import textwrap
from collections.abc import Iterator
from datetime import datetime, tzinfo

from holdfast.kernel.ids import Instant
from holdfast.monitor.durations import duration
from holdfast.monitor.timeline import Timeline
from holdfast.monitor.timeline_step import Chapter, Mark, TimelineStep

MARKS = {
    Mark.DONE: "",
    Mark.RUNNING: "> ",
    Mark.WAITING: "… ",
    Mark.FAILED: "✗ ",
    Mark.UNCERTAIN: "? ",
    Mark.LOST: "! ",
}
PLAIN_MARKS = {**MARKS, Mark.WAITING: ".. ", Mark.FAILED: "x "}  # where the terminal knows ASCII only
TITLES = {Chapter.SAID: "Said", Chapter.REMEMBERED: "Remembered"}
WIDTH_MIN = 40
WHEN_CHARS, SINCE_CHARS = 14, 12
NARROW = 72  # below it, the columns stand on a line of their own


def timeline_lines(told: Timeline, zone: tzinfo, *, width: int = 100, plain: bool = False) -> Iterator[str]:
    """The lines, none wider than `width`. Days are named where they begin."""
    width = max(WIDTH_MIN, width)
    yield from textwrap.wrap(told.verdict, width)
    began = told.steps[0].at if told.steps else Instant(0)
    day, chapter = "", None
    for step in told.steps:
        if step.chapter is not chapter:
            chapter = step.chapter
            yield ""
            yield TITLES[chapter]
            day = ""
        at = datetime.fromtimestamp(step.at / 1000, zone)
        if (today := at.strftime("%Y-%m-%d")) != day:
            day = today
            yield f"{day} {at.strftime('%Z')}".rstrip()
        yield from _step(step, at, began, width=width, plain=plain)


def _step(step: TimelineStep, at: datetime, began: Instant, *, width: int, plain: bool) -> Iterator[str]:
    when = f"{at.strftime('%H:%M:%S')}.{at.microsecond // 1000:03d}"
    since = f"+{duration(step.at - began)}" if step.at >= began else ""
    mark = (PLAIN_MARKS if plain else MARKS)[step.mark]
    took = step.duration_ms
    what = f"{mark}{step.what}" + (f", {duration(took)}" if took else "")
    if width < NARROW:
        yield f"{when}  {since}".rstrip()
        indent = "  "
        yield from textwrap.wrap(what, width, initial_indent=indent, subsequent_indent=indent)
    else:
        indent = " " * (WHEN_CHARS + SINCE_CHARS)
        first, *more = textwrap.wrap(what, width - len(indent)) or [""]
        yield f"{when:<{WHEN_CHARS}}{since:<{SINCE_CHARS}}{first}".rstrip()
        yield from (f"{indent}{line}" for line in more)
    if step.proof:
        yield from textwrap.wrap(step.proof, width, initial_indent=indent + "  ", subsequent_indent=indent + "  ")
