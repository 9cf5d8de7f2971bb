"""Ctrl-C and polite ends of the process, on every platform."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

NAMES = ("SIGINT", "SIGTERM", "SIGBREAK")  # the last is what Windows sends to a service


@contextmanager
def on_signal(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` on the event loop at each signal that asks the process to end."""
    loop = asyncio.get_running_loop()
    wanted = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]
    before = {each: signal.getsignal(each) for each in wanted}
    for each in wanted:
        try:
            loop.add_signal_handler(each, act)
        except NotImplementedError:  # Windows
            signal.signal(each, lambda *_: loop.call_soon_threadsafe(act))
    try:
        yield
    finally:
        for each, handler in before.items():
            with suppress(NotImplementedError):
                loop.remove_signal_handler(each)
            signal.signal(each, handler)
