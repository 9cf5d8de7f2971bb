"""The limit of a test counts the share of the machine that the test gets (tests/support/patience.py).

pytest-timeout sets one alarm for the end of the limit. These hooks set an alarm every few seconds instead.
"""

import signal
from typing import Any

import pytest
import pytest_timeout  # type: ignore[import-untyped]

from tests.support.patience import Watch


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    """Look at the watch every few seconds instead of once at the end; None leaves it to the plugin."""
    if settings.method != "signal" or not hasattr(signal, "setitimer"):
        return None
    watch = Watch(settings.timeout)

    def look(*_: object) -> None:
        if watch.left_s() <= 0:
            pytest_timeout.timeout_sigalrm(item, settings)
        signal.setitimer(signal.ITIMER_REAL, watch.next_look_s())

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, watch.next_look_s())
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> bool | None:
    if not hasattr(signal, "setitimer"):
        return None
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    return True
