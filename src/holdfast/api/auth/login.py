"""A browser's login: the row that a cookie identifies, and its lifetime.

Rule 1: a cookie is 256 random bits. The store keeps their SHA-256, so a reader of the store cannot use a login.
Rule 2: a login ends by logout, by a newer login of the same browser, by the operator's command, or when its token is
        revoked or expires. It also ends `LASTS_MS` after it began and `IDLE_MS` after its last use.
Rule 3: a login of the operator ends when the operator's token changes. `proof` is an HMAC of that token under the
        cookie, which the store does not have, so the store is no help in guessing the token.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass
from enum import Enum

from holdfast.kernel.ids import Instant, LoginId, TokenId

COOKIE_BITS = 256
HOUR_MS = 60 * 60 * 1_000
LASTS_MS = 7 * 24 * HOUR_MS
IDLE_MS = 24 * HOUR_MS
SEEN_EVERY_MS = 5 * 60 * 1_000  # the minimum time between two records of a use
KEPT_MS = 30 * 24 * HOUR_MS  # how long a login stays listed after it expired
LOGINS_MAX = 100  # per token; a newer login removes the oldest
_SHAPE = re.compile(r"[0-9a-f]{64}\Z", re.ASCII)


class LoginEnd(Enum):
    """Why a login is over. The first four are stored; the others follow from the time."""

    LOGOUT = "logout"
    REPLACED = "replaced"
    OPERATOR = "operator"
    REVOKED = "revoked"
    EXPIRED = "expired"
    IDLE = "idle"


BY_TIME = frozenset({LoginEnd.EXPIRED, LoginEnd.IDLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A login without its cookie."""

    id: LoginId
    token: TokenId
    proof: bytes
    made_at: Instant
    seen_at: Instant
    ends_at: Instant
    ended_at: Instant | None = None
    reason: LoginEnd | None = None

    def end(self, now: Instant) -> LoginEnd | None:
        """Why the login is over at `now`; None while it is valid."""
        if self.ended_at is not None:
            return self.reason or LoginEnd.OPERATOR
        if now >= self.ends_at:
            return LoginEnd.EXPIRED
        return LoginEnd.IDLE if now >= self.seen_at + IDLE_MS else None


def spell_cookie(chance: int) -> str:
    """The cookie made of 256 random bits."""
    return f"{chance:064x}"


def is_cookie(text: str) -> bool:
    """Whether the text has the form of a cookie; other text is not looked up."""
    return _SHAPE.match(text) is not None


def hash_cookie(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("ascii")).digest()


def prove_token(cookie: str, token_hash: bytes) -> bytes:
    """The HMAC that ties a login to the operator's token, given the hash of that token."""
    return hmac.digest(cookie.encode("ascii"), b"holdfast operator " + token_hash, "sha256")


def csrf_of(cookie: str) -> str:
    """The CSRF token of a cookie. A page of another origin can read neither the cookie nor this token."""
    return hmac.digest(cookie.encode("ascii"), b"holdfast csrf", "sha256").hex()


LOGINS_LISTED_MAX = 1_000
