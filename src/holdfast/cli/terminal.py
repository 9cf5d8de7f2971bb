"""Input from the terminal without blocking the event loop: lines of the keyboard or a pipe, and signals.

A dedicated daemon thread waits for input: no event loop can wait for a console on Windows, and a thread of a pool would
keep the process alive after Ctrl-C until the user presses Enter.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from holdfast.kernel.errors import InvalidUnicode, MessageTooLarge

CHUNK_BYTES = 65_536
LINE_BYTES_MAX = 4 * 1024 * 1024
NAMES = ("SIGINT", "SIGTERM", "SIGBREAK")  # Windows sends the last one to services
HANGUP = "SIGHUP"  # the terminal was lost


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


@contextmanager
def on_signal(
    act: Callable[[], None], *, hang_up: Callable[[], None] | None = None, hangs_up: bool = True
) -> Iterator[None]:
    """Call `act` on the event loop at each signal that requests the process to end.

    A lost terminal calls `hang_up`, or `act` if there is none; a process under `nohup` ignores it. With `hangs_up`
    false, the signal of a lost terminal is left to `on_hangup`.
    """
    acts = {getattr(signal, name): act for name in NAMES if hasattr(signal, name)}
    lost = getattr(signal, HANGUP, None)
    if hangs_up and lost is not None and not ignores_hangups():
        acts[lost] = hang_up or act
    with _handling(acts):
        yield


@contextmanager
def on_hangup(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` on the event loop at each SIGHUP, also in a process under `nohup`."""
    number = getattr(signal, HANGUP, None)
    with _handling({} if number is None else {number: act}):
        yield


def ignores_hangups() -> bool:
    """Whether the process was started by `nohup`."""
    number = getattr(signal, HANGUP, None)
    return number is not None and signal.getsignal(number) is signal.SIG_IGN


def has_terminal() -> bool:
    """Whether the process has a controlling terminal, which it loses when its window is closed."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:  # lost, never had, or Windows
        return False
    return True


@contextmanager
def _handling(acts: Mapping[int, Callable[[], None]]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    before = {each: signal.getsignal(each) for each in acts}
    for each, handle in acts.items():
        try:
            loop.add_signal_handler(each, handle)
        except NotImplementedError:  # Windows
            signal.signal(each, lambda *_, handle=handle: loop.call_soon_threadsafe(handle))
    try:
        yield
    finally:
        for each, handler in before.items():
            with suppress(NotImplementedError):
                loop.remove_signal_handler(each)
            signal.signal(each, handler)
