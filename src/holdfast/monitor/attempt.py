"""Attempts at deliveries and replies that did not settle them: when, on which node, and what the other side answered.

A delivery or reply holds its own newest state, reason and receipt. An attempt is a row beside it, so that a person can
see every answer and not only the last one. Nothing decides by attempts, and only the newest ones are kept.
"""

from dataclasses import dataclass
from enum import Enum

from holdfast.kernel.ids import Instant

KEPT_MAX = 20  # attempts of one delivery or reply; older ones are deleted


class AttemptKind(Enum):
    DELIVERY = "delivery"
    REPLY = "reply"


@dataclass(frozen=True, slots=True, kw_only=True)
class SendAttempt:
    attempt: int
    part: int  # of a reply: the piece that was sent, from 0
    node: str
    started_at: Instant | None  # None if unknown
    ended_at: Instant
    outcome: str  # failed, uncertain, parked, interrupted; of a question to a provider: absent or unclear
    reason: str | None
    status: int | None  # of the answer, with the following three
    request_id: str | None
    code: str | None
    extract: str | None
