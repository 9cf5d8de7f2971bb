"""Ctrl-C, a lost terminal and polite ends of the process, on every platform."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

NAMES = ("SIGINT", "SIGTERM", "SIGBREAK")  # the last is what Windows sends to a service
HANGUP = "SIGHUP"  # the terminal is gone


@contextmanager
def on_signal(act: Callable[[], None], *, hang_up: Callable[[], None] | None = None) -> Iterator[None]:
    """Call `act` on the event loop at each signal that asks the process to end.

    A lost terminal calls `hang_up`, or else `act`; a process that was started to survive that (`nohup`) goes on.
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
