"""Progress of work that takes longer than two seconds, on stderr: one line that is redrawn on a terminal, and a line
every few seconds elsewhere, so that a log of an unattended run shows that it goes on.

Rule 1: what is quick prints nothing.
Rule 2: the output of the command on stdout is never touched.
Rule 3: an error of stderr, such as a closed pipe, never reaches the command.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TextIO

from holdfast.monitor.durations import duration

QUICK_S = 2.0  # work that ends within this time prints nothing
LINE_EVERY_S = 5.0
REDRAW_EVERY_S = 0.5
CLEAR_LINE = "\r\x1b[2K"


class Progress:
    """Counts steps that are done; a thread tells about them, since the work may keep the event loop busy."""

    def __init__(
        self,
        label: str,
        total: int | None = None,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        quick_s: float = QUICK_S,
    ) -> None:
        self._label, self._total = label, total
        self._stream = sys.stderr if stream is None else stream
        self._clock, self._quick_s = clock, quick_s
        self._begun_at = clock()
        self._done = 0
        self._ended = Event()
        self._is_drawn = False
        self._teller = Thread(target=self._tell, name="progress", daemon=True)

    def advance(self, steps: int = 1) -> None:
        self._done += steps

    def part(self, label: str, done: int, total: int) -> None:
        """The work is at this part now; a total of 1 is not told."""
        self._label, self._done, self._total = label, done if total > 1 else 0, total if total > 1 else None

    def begin(self) -> None:
        self._teller.start()

    def end(self) -> None:
        self._ended.set()
        self._teller.join()
        if self._is_drawn:
            self._write(CLEAR_LINE)

    def line(self) -> str:
        """`replay: 150 of 700 (21 %), 8 s`; without a total `rebuild: 150 done, 8 s`."""
        took = duration((self._clock() - self._begun_at) * 1_000)
        if self._total:
            done = f"{self._done} of {self._total} ({100 * self._done // self._total} %)"
        else:
            done = f"{self._done} done" if self._done else "at work"
        return f"{self._label}: {done}, {took}"

    def _tell(self) -> None:
        is_terminal = self._stream.isatty()
        if self._ended.wait(self._quick_s):
            return
        while True:
            self._is_drawn = is_terminal
            self._write(f"{CLEAR_LINE}{self.line()}" if is_terminal else f"{self.line()}\n")
            if self._ended.wait(REDRAW_EVERY_S if is_terminal else LINE_EVERY_S):
                return

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


@contextmanager
def progress(label: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Tell how far the work inside the block is; the yielded function is called with the number of steps done."""
    shown = Progress(label, total)
    shown.begin()
    try:
        yield shown.advance
    finally:
        shown.end()


@contextmanager
def progress_of_parts(label: str) -> Iterator[Callable[[str, int, int], None]]:
    """Progress of work in parts; the yielded function is told the part, how much of it is done, and its size."""
    shown = Progress(label)
    shown.begin()
    try:
        yield shown.part
    finally:
        shown.end()
