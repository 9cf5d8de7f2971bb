"""Who may ask: the host that is named, then the token. Both are judged before anything of the body is read.

Rule 1: a browser that was tricked into resolving a foreign name to this machine names that host, and is refused.
Rule 2: the token is compared in constant time, and never taken from a URL.
Rule 3: wrong tokens are counted per client and slowed down in words only: the right token always passes, since on
        loopback every program is the same client and must not be able to lock the owner out. The strength lies in
        the token's length.
"""

import hmac
import re
from collections import OrderedDict
from collections.abc import Iterable
from urllib.parse import parse_qsl

from holdfast import log
from holdfast.channels.http.errors import AuthRequired, HostNotAllowed, TokenInUrl, TooManyAttempts
from holdfast.core.ids import Instant
from holdfast.ports.clock import Clock

HOSTS = re.compile(rb"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?\Z", re.IGNORECASE)
TOKEN_FIELDS = frozenset({"token", "access_token"})
QUERY_BYTES_MAX = 8_192
ATTEMPTS_MAX = 20
ATTEMPTS_WINDOW_MS = 60_000
CLIENTS_MAX = 1_000

Headers = Iterable[tuple[bytes, bytes]]


class Attempts:
    """Wrong tokens per client within a window. RAM that can vanish."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._windows: OrderedDict[str, tuple[Instant, int]] = OrderedDict()

    def count(self, client: str) -> int | None:
        """Note one more; the milliseconds to wait when there were too many."""
        now = self._clock.now()
        began, failed = self._windows.pop(client, (now, 0))
        if not 0 <= now - began < ATTEMPTS_WINDOW_MS:
            began, failed = now, 0
        self._windows[client] = (began, failed + 1)
        if len(self._windows) > CLIENTS_MAX:
            self._windows.popitem(last=False)
        return began + ATTEMPTS_WINDOW_MS - now if failed >= ATTEMPTS_MAX else None


class Guard:
    """Raises the error that a request deserves; returns when it may pass."""

    def __init__(self, token: str, clock: Clock) -> None:
        self._token = token.encode()
        self._attempts = Attempts(clock)

    def check_host(self, headers: Headers) -> None:
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 or not HOSTS.match(hosts[0]):
            named = hosts[0].decode("latin-1")[:80] if hosts else ""
            raise HostNotAllowed(f"this server is not {named!r}" if named else "the request names no host")

    def check_query(self, query: bytes) -> None:
        names = {name.lower() for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True)}
        if names & TOKEN_FIELDS:
            raise TokenInUrl("the URL carries a token")

    def check_token(self, headers: Headers, client: str) -> None:
        given = [value for name, value in headers if name == b"authorization"]
        if len(given) != 1:
            raise AuthRequired("this route needs a bearer token")
        scheme, _, token = given[0].partition(b" ")
        if scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token):
            return
        wait_ms = self._attempts.count(client)
        if wait_ms is not None:
            raise TooManyAttempts(f"{ATTEMPTS_MAX} wrong tokens within a minute", retry_after_ms=wait_ms)
        log.warning("auth.refused", client=client)
        raise AuthRequired("the token is not the right one")
