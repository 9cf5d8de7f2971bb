"""Handlers of the runtime's log during a history: one keeps unexpected errors, the other prints every line."""

import logging
from collections.abc import Callable

from holdfast.testing.node import NODE

SURPRISES = frozenset({"claim.failed", "loop.failed"})
# A worker that was paused beyond its lease may find its session deleted by the younger claim; a worker with a valid
# lease never does, or its mailbox would never be processed.
EXPECTED_CODES = frozenset({"provider_failed", "claim_lost", "node_lost", "session_not_found", "store_unavailable"})
# A channel may break its promise to raise nothing; the draft writer gives up that draft and logs it.
EXPECTED_WHY = frozenset({"a fault in the channel's code"})
FIELDS_SHOWN = (
    "message",
    "mailbox",
    "fence",
    "session",
    "turn",
    "operation",
    "outcome",
    "attempt",
    "provider",
    "delivery",
    "state",
    "code",
    "why",
)


class Surprises(logging.Handler):
    """Errors that no fault explains: a loop or a worker met an unknown condition."""

    def __init__(self, kept: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self._kept = kept

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "fields", {})
        expected = fields.get("code") in EXPECTED_CODES or fields.get("why") in EXPECTED_WHY
        if record.getMessage() in SURPRISES and not expected:
            self._kept(f"{record.getMessage()}: {fields.get('code')}: {fields.get('why')}")


class Telling(logging.Handler):
    """Log lines of the runtime, each with the virtual second and the node that wrote it."""

    def __init__(self, now: Callable[[], float], tell: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._now = now
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        node = NODE.get()
        fields = getattr(record, "fields", {})
        shown = " ".join(f"{name}={fields[name]}" for name in FIELDS_SHOWN if fields.get(name) is not None)
        name = node.name if node else "world"
        self._tell(f"{self._now():8.3f} {name:5} {record.getMessage():18} {shown}")
