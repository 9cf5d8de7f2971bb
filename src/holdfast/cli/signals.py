"""Handlers for Ctrl-C, a lost terminal and requests to terminate, on every platform."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

NAMES = ("SIGINT", "SIGTERM", "SIGBREAK")  # Windows sends the last one to services
HANGUP = "SIGHUP"  # the terminal was lost


@contextmanager
def on_signal(act: Callable[[], None], *, hang_up: Callable[[], None] | None = None) -> Iterator[None]:
    """Call `act` on the event loop at each signal that requests the process to end.

    A lost terminal calls `hang_up`, or `act` if there is none; a process under `nohup` ignores it.
    """
    loop = asyncio.get_running_loop()
    acts = {getattr(signal, name): act for name in NAMES if hasattr(signal, name)}
    lost = getattr(signal, HANGUP, None)
    if lost is not None and signal.getsignal(lost) is not signal.SIG_IGN:
        acts[lost] = hang_up or act
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
