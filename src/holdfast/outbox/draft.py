"""Drafts: a reply that is shown in its chat while it is still being made. Values in, values out.

Rule 1: a draft is on record before its first byte leaves, and its platform's id is recorded after. One that is on
        record without an id may stand in the chat; nobody can say.
Rule 2: whoever holds a draft is the only one who writes to it, and writes only while the hold lasts for longer than a
        request can. The reply waits until the hold is over, so no older edit can land behind the final text.
Rule 3: only the first piece of a long reply is drafted. A draft ends with a mark, so that one which was left standing
        is seen to be unfinished.
Rule 4: no word of a draft is ever stored.
Rule 5: none is posted while a reply to its address is on its way: in the chat it would stand before what is older.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from holdfast.inbox.address import Address
from holdfast.kernel.ids import DraftId, Instant, MailboxId, SessionId
from holdfast.outbox.splitting import LIMIT_MIN, split

MARK = " …"
FIRST_AFTER_MS = 1_200  # of text, and then it is shown, however little there is
FIRST_AFTER_CHARS = 60  # or as soon as there is that much
EVERY_MS_MIN = 1_500  # between two edits of one draft
HOLD_MS = 20_000
WRITE_WAIT_MS = 8_000  # for the platform's answer
QUIET_MS = 3_000  # after an edit whose answer was lost: by then it has landed, or never will


class DraftState(Enum):
    INTENDED = "intended"  # it may be leaving just now
    STANDING = "standing"  # it is in the chat, and its id is known
    UNKNOWN = "unknown"  # it may be in the chat, under an id that nobody knows


class DraftFate(Enum):
    """What a reply did with the draft of its turn, as the ledger shows it."""

    STANDING = "standing"  # the reply's first piece is to take its place
    REPLACED = "replaced"
    GONE = "gone"  # it could not be edited, so the reply was sent as a new message
    UNKNOWN = "unknown"  # a half sentence may stand in the chat; the reply was sent as a new message
    RETRACTED = "retracted"  # the reply's words were deleted, and the draft with them


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftIntent:
    """What a worker's process asks for before it shows a turn's text. The fence is that of the mailbox's claim."""

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
    receipt: str = ""  # the platform's id of it, where that is known


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayDraft:
    """A draft that no reply will take the place of. `id` is its own, or that of the reply that had taken it over."""

    id: str
    address: Address
    receipt: str


def drafted(text: str, limit: int, length: Callable[[str], int] = len) -> str:
    """What is shown of a text that is not finished; empty when there is nothing to show."""
    room = max(LIMIT_MIN, limit - length(MARK))
    pieces = split(text, room, length)
    return f"{pieces[0].rstrip()}{MARK}" if pieces else ""


def first_due(began_at: Instant, chars: int) -> Instant:
    """When a text that began then, and has so many characters now, is shown for the first time."""
    return began_at if chars >= FIRST_AFTER_CHARS else Instant(began_at + FIRST_AFTER_MS)


def may_write(held_until: Instant, now: Instant) -> bool:
    """Whether a request that begins now is over, and quiet, before somebody else may write."""
    return now + WRITE_WAIT_MS + QUIET_MS <= held_until
