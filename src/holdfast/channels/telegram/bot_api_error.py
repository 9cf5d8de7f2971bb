"""The error of a Bot API call.

A reason holds class names and statuses only: the URL of a call contains the token, and an answer may contain people's
messages. `vendor` holds Telegram's answer without either.
"""

from enum import Enum

from holdfast.kernel.vendor_error import NO_ANSWER, VendorError


class BotApiErrorKind(Enum):
    UNREACHABLE = "unreachable"  # no connection was made, so nothing was sent
    LOST = "lost"  # the request was sent and no complete answer came: it may have been executed
    BROKEN = "broken"  # the answer is no verdict (5xx, not JSON): the request may have been executed
    BUSY = "busy"  # refused for now, with a time to wait
    STRANGER = "stranger"  # refused: Telegram does not know this bot
    CONFLICT = "conflict"  # refused: another process polls, or a webhook is set
    MOVED = "moved"  # refused: the chat has a new id
    REFUSED = "refused"  # refused for good
    ODD = "odd"  # refused with an undocumented code


class BotApiError(Exception):
    def __init__(
        self,
        kind: BotApiErrorKind,
        reason: str,
        *,
        retry_after_ms: int = 0,
        moved_to: int = 0,
        description: str = "",
        vendor: VendorError = NO_ANSWER,
    ) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.retry_after_ms = retry_after_ms
        self.moved_to = moved_to
        self.description = description  # Telegram's own text; compared, never shown
        self.vendor = vendor
