"""Lists of sessions: filters, and the rows of a page."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.kernel.ids import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """Every field that is set must match. `text` is a part of the title, upper and lower case alike, a part of the
    address, a principal, or the beginning of an id.
    """

    agent: str = ""
    state: str = ""  # open, expiring, closed, deleted; or `running`, with an open turn
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSession:
    id: str
    agent: str
    chat: str | None  # its conversation; None without a place
    address: str | None
    principal: str
    purpose: str
    title: str | None
    state: str
    is_live: bool  # its mailbox uses it now
    phase: str | None  # of its open turn
    epoch: int
    turns: int
    snapshots: int
    parent: str | None
    opened_at: Instant
    active_at: Instant
    closed_at: Instant | None
    reason: str | None
    tokens_in: int | None  # of the newest request to the model; None if none was recorded
    asked_at: Instant | None  # when that request ended
    compressed_at: Instant | None  # the newest snapshot

    @property
    def used_tokens(self) -> int | None:
        """What the model was sent last; None if that is unknown or was compressed since."""
        is_stale = self.compressed_at is not None and self.asked_at is not None and self.compressed_at > self.asked_at
        return None if is_stale else self.tokens_in


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    sessions: Sequence[ListedSession]
    next: str | None  # `after` of the next page; None at the end
