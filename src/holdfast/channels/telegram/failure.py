"""What can go wrong with a call to Telegram, in our words. Vendors' exceptions end in calls.py.

A reason holds class names and statuses only: an address of the Bot API has the token in it, and an answer may hold
people's words. What Telegram answered is in `vendor`, without either.
"""

from enum import Enum

from holdfast.kernel.vendor_error import NO_ANSWER, VendorError


class BotApiErrorKind(Enum):
    UNREACHABLE = "unreachable"  # no connection was made, so nothing left
    LOST = "lost"  # it left, and no whole answer came: it may have been done
    BROKEN = "broken"  # an answer that says nothing (5xx, no JSON, no verdict): it may have been done
    BUSY = "busy"  # refused for now, with a time to wait
    STRANGER = "stranger"  # refused: Telegram does not know this bot
    CONFLICT = "conflict"  # refused: another process polls, or a webhook is set
    MOVED = "moved"  # refused: the chat has another id now
    REFUSED = "refused"  # refused for good
    ODD = "odd"  # refused with a code that nobody has documented


class BotApiError(Exception):
    def __init__(
        self,
        kind: BotApiErrorKind,
        reason: str,
        *,
        retry_after_ms: int = 0,
        moved_to: int = 0,
        said: str = "",
        vendor: VendorError = NO_ANSWER,
    ) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.retry_after_ms = retry_after_ms
        self.moved_to = moved_to
        self.said = said  # Telegram's description, to be compared and never shown
        self.vendor = vendor
