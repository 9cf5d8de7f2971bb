"""Logins of a browser: a one-time code or a token is exchanged for a cookie (D43).

Rule 1: a cookie names a token and when it ends, signed with a key that is derived from the operator's token. Nothing is
        kept, so a login survives a restart; it ends with its token, its time, or a change of the operator's token.
Rule 2: a browser sends cookies whoever made it ask. So whatever changes something must carry, beside the cookie, a
        header that only a page of this very origin can know (`X-Holdfast-CSRF`).
Rule 3: a code is good once and for ten minutes, and lives in RAM only.
"""

import hmac
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256

from holdfast.channels.http.errors import AuthRequired, CsrfTokenMissing
from holdfast.core.access_token import hash_token
from holdfast.core.ids import Instant
from holdfast.ports.clock import Clock
from holdfast.ports.entropy import Entropy

CSRF_HEADER = b"x-holdfast-csrf"
COOKIE_LASTS_MS = 7 * 24 * 60 * 60 * 1_000
CODE_LASTS_MS = 10 * 60 * 1_000
CODE_BITS = 128
CODES_MAX = 16


@dataclass(frozen=True, slots=True)
class Cookie:
    token: str  # the id of the token it stands for
    ends_at: Instant
    value: str


class Logins:
    def __init__(self, operator_token: str, clock: Clock, entropy: Entropy) -> None:
        self._key = hmac.digest(operator_token.encode(), b"holdfast cookie", sha256)
        self._clock = clock
        self._entropy = entropy
        self._codes: OrderedDict[bytes, Instant] = OrderedDict()
        # Cookies know no ports: two servers on one machine must not overwrite each other's.
        self.cookie_name = f"holdfast_{sha256(self._key).hexdigest()[:8]}"

    def new_code(self) -> str:
        """A code that stands for the operator, once."""
        code = f"{self._entropy.bits(CODE_BITS):032x}"
        self._codes[hash_token(code)] = Instant(self._clock.now() + CODE_LASTS_MS)
        while len(self._codes) > CODES_MAX:
            self._codes.popitem(last=False)
        return code

    def take_code(self, code: str) -> bool:
        """Whether the code is good; it is not any more afterwards."""
        ends_at = self._codes.pop(hash_token(code), None)
        return ends_at is not None and self._clock.now() < ends_at

    def issue(self, token: str) -> Cookie:
        ends_at = Instant(self._clock.now() + COOKIE_LASTS_MS)
        signed = f"{token}.{ends_at}.{self._entropy.bits(CODE_BITS):032x}"
        return Cookie(token, ends_at, f"{signed}.{self._sign('cookie', signed)}")

    def read(self, value: str) -> Cookie:
        """What a cookie says. Raises `AuthRequired` when it is not ours or over."""
        signed, _, signature = value.rpartition(".")
        token, _, rest = signed.partition(".")
        if not hmac.compare_digest(signature.encode(), self._sign("cookie", signed).encode()):
            raise AuthRequired("the login is not valid any more; log in again")
        ends_at = Instant(int(rest.partition(".")[0]))
        if self._clock.now() >= ends_at:
            raise AuthRequired("the login is over; log in again")
        return Cookie(token, ends_at, value)

    def csrf(self, cookie: str) -> str:
        """What the page must send beside this cookie."""
        return self._sign("csrf", cookie)

    def check_csrf(self, cookie: str, given: str) -> None:
        """Raises `CsrfTokenMissing`."""
        if not hmac.compare_digest(given.encode(), self.csrf(cookie).encode()):
            raise CsrfTokenMissing("the request came with a cookie and without the header X-Holdfast-CSRF that fits it")

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.digest(self._key, f"{purpose} {text}".encode(), sha256).hex()
