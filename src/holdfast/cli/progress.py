"""Progress of a long command: a line on stderr every two seconds, on a terminal and off it; nothing before that."""

import sys
from collections.abc import Callable

from holdfast.kernel.machine import SystemClock

EVERY_MS = 2_000


def progress_lines(now: Callable[[], int] | None = None) -> Callable[[str, int, int], None]:
    """A function that is told what is done, how much of it, and how much there is."""
    time = SystemClock().now if now is None else now
    last = time()

    def tell(what: str, done: int, total: int) -> None:
        nonlocal last
        if (at := time()) - last < EVERY_MS:
            return
        last = at
        share = f": {100 * done // total} %" if total > 1 else ""
        print(f"{what}{share}", file=sys.stderr, flush=True)

    return tell
