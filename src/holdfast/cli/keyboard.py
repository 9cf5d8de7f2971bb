"""Reads lines from the keyboard or a pipe without blocking the event loop.

A dedicated daemon thread waits for input: no event loop can wait for a console on Windows, and a thread of a pool would
keep the process alive after Ctrl-C until the user presses Enter.
"""

import asyncio
import os
import sys
import threading

from holdfast.kernel.errors import InvalidUnicode, MessageTooLarge

CHUNK_BYTES = 65_536
LINE_BYTES_MAX = 4 * 1024 * 1024


class Keyboard:
    """`next_line` returns each line in order, and None at the end of the input.

    A line that is not UTF-8 is refused and never repaired, because the stored text would differ from the input.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        threading.Thread(target=self._read, name="keyboard", daemon=True).start()

    async def next_line(self) -> str | None:
        """Raises `InvalidUnicode` and `MessageTooLarge`; the next line is not affected."""
        line = await self._lines.get()
        if line is not None and len(line) > LINE_BYTES_MAX:
            raise MessageTooLarge(f"a line has more than {LINE_BYTES_MAX} bytes; it was not sent")
        try:
            return None if line is None else line.decode().rstrip("\r")
        except UnicodeDecodeError as error:
            raise InvalidUnicode(f"byte {error.start} of this line is not UTF-8; the line was not sent") from error

    def _read(self) -> None:
        """Read the file descriptor: a thread that waits inside sys.stdin makes the interpreter abort at exit."""
        rest = b""
        while chunk := self._chunk():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._put(line)
            rest = rest[: LINE_BYTES_MAX + 1]  # enough to detect a line that is too long
        if rest:
            self._put(rest)
        self._put(None)

    def _chunk(self) -> bytes:
        try:
            return os.read(sys.stdin.fileno(), CHUNK_BYTES)
        except (OSError, ValueError):  # stdin is closed, or the terminal is gone
            return b""

    def _put(self, line: bytes | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
        except RuntimeError:  # the loop has ended
            return
