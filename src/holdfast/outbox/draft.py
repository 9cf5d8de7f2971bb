"""Drafts: a reply's text, shown in its chat while the model still writes it. This module is pure.

Rule 1: a draft is stored before its first request, and its platform id after the answer. A stored draft without an id
        may be in the chat or not.
Rule 2: only the holder of a draft writes to it, and only if the hold outlasts the longest request. The reply waits
        until the hold is over, so that no older edit can overwrite the final text.
Rule 3: a draft shows only the first piece of a long reply. It ends with a mark, so that an abandoned draft is
        recognizably unfinished.
Rule 4: the text of a draft is never stored.
Rule 5: a draft is not posted while a reply to its address is unsent: it would appear before the older reply.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from holdfast.inbox.address import Address
from holdfast.kernel.ids import DraftId, Instant, MailboxId, SessionId
from holdfast.outbox.splitting import LIMIT_MIN, split

MARK = " …"
FIRST_AFTER_MS = 1_200  # after the first text, a draft of any length is shown
FIRST_AFTER_CHARS = 60  # a text of this length is shown at once
EVERY_MS_MIN = 1_500  # between two edits of one draft
HOLD_MS = 20_000
WRITE_WAIT_MS = 8_000  # for the platform's answer
QUIET_MS = 3_000  # an edit whose answer was lost takes effect within this time, or never


class DraftState(Enum):
    INTENDED = "intended"  # the first request may be in progress
    STANDING = "standing"  # it is in the chat, and its id is known
    UNKNOWN = "unknown"  # it may be in the chat; its id is unknown


class DraftFate(Enum):
    """The fate of a turn's draft, as the reply ledger shows it."""

    STANDING = "standing"  # the reply's first piece will replace it
    REPLACED = "replaced"
    GONE = "gone"  # it could not be edited, so the reply was sent as a new message
    UNKNOWN = "unknown"  # it may still be in the chat; the reply was sent as a new message
    RETRACTED = "retracted"  # the reply's text was erased, and the draft with it


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftIntent:
    """A request to hold the draft of a turn. `fence` is the fence of the mailbox claim."""

    id: DraftId
    session: SessionId
    turn: int
    mailbox: MailboxId
    fence: int
    address: Address
    hold_ms: int = HOLD_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    id: DraftId
    fence: int
    state: DraftState
    address: Address
    receipt: str = ""  # the platform's message id; empty if unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayDraft:
    """A draft that no reply will replace. `id` is the draft's id, or that of the reply that had taken it over."""

    id: str
    address: Address
    receipt: str


def drafted(text: str, limit: int, length: Callable[[str], int] = len) -> str:
    """The draft of an unfinished text; empty if the text is blank."""
    room = max(LIMIT_MIN, limit - length(MARK))
    pieces = split(text, room, length)
    return f"{pieces[0].rstrip()}{MARK}" if pieces else ""


def first_due(began_at: Instant, chars: int) -> Instant:
    """The time at which a text with this start and this many characters is first shown."""
    return began_at if chars >= FIRST_AFTER_CHARS else Instant(began_at + FIRST_AFTER_MS)


def may_write(held_until: Instant, now: Instant) -> bool:
    """Whether a request that begins now ends, with its quiet period, before the hold does."""
    return now + WRITE_WAIT_MS + QUIET_MS <= held_until
