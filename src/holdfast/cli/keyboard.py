"""Lines from the keyboard or a pipe, without blocking the event loop.

A thread of its own waits for them: no event loop can wait for a console on Windows, and a thread of a pool would
keep the process alive after Ctrl-C until somebody presses Enter.
"""

import asyncio
import os
import sys
import threading

CHUNK_BYTES = 65_536
LINE_BYTES_MAX = 4 * 1024 * 1024


class Keyboard:
    """`next_line` gives each line in turn, and None at the end of the input."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        threading.Thread(target=self._read, name="keyboard", daemon=True).start()

    async def next_line(self) -> str | None:
        return await self._lines.get()

    def _read(self) -> None:
        """Reads the descriptor itself: a thread that waits inside sys.stdin makes the interpreter abort at exit."""
        rest = b""
        while chunk := self._chunk():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._hand_over(line)
            if len(rest) > LINE_BYTES_MAX:
                break
        if rest:
            self._hand_over(rest)
        self._put(None)

    def _chunk(self) -> bytes:
        try:
            return os.read(sys.stdin.fileno(), CHUNK_BYTES)
        except (OSError, ValueError):  # no stdin, or a terminal that is gone
            return b""

    def _hand_over(self, line: bytes) -> None:
        self._put(line.decode("utf-8", "replace").rstrip("\r"))

    def _put(self, line: str | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
        except RuntimeError:  # the loop has ended; nobody reads any more
            return
