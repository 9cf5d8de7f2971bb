"""Browser logins: a one-time code or a token is exchanged for a cookie (D43).

Rule 1: a cookie is random and identifies a row in the store (api/auth/login.py). A login survives a restart, and every
        process that shares the store knows it. Nothing is signed, so no key has to be kept or rotated.
Rule 2: a login read from the store is cached for one second. A login that this process ends is over at once, and so are
        the connections that used it.
Rule 3: a browser sends cookies with requests that any page makes. A request that changes data must therefore also carry
        a header that only a page of this origin can know (`X-Holdfast-CSRF`).
Rule 4: a code is valid once, for ten minutes, and is kept in memory only.
Rule 5: a browser sends a cookie to every port of a host, so its name contains the port that the browser asked. Two
        servers on one machine neither read nor overwrite each other's login.
Rule 6: over TLS the name begins with `__Host-`: the browser then refuses a cookie that was set without TLS or by
        another host of the domain. Without TLS no browser accepts such a name.
Rule 7: a request that has the cookie twice with different values is refused: another site set one of them.
"""

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from holdfast.api.auth.access_token import AccessToken, hash_token
from holdfast.api.auth.access_token_sql import add_login, end_login, find_login, see_login
from holdfast.api.auth.caller import BELIEVED_MS, KEPT_MAX, OPERATOR
from holdfast.api.auth.login import (
    BY_TIME,
    COOKIE_BITS,
    LASTS_MS,
    SEEN_EVERY_MS,
    Login,
    LoginEnd,
    csrf_of,
    hash_cookie,
    is_cookie,
    prove_token,
    spell_cookie,
)
from holdfast.api.errors import CsrfTokenMissing, LoginEnded, LoginExpired
from holdfast.audit.actor import acting
from holdfast.kernel.errors import StoreFull, StoreUnavailable
from holdfast.kernel.ids import Instant, LoginId
from holdfast.kernel.ports import Clock, Entropy, new_id
from holdfast.store.ports import Database

CSRF_HEADER = b"x-holdfast-csrf"
CODE_LASTS_MS = 10 * 60 * 1_000
CODE_BITS = 128
CODES_MAX = 16
PORTS = {True: "443", False: "80"}  # the default ports with and without TLS, which a browser omits from the host
SAYS = {
    LoginEnd.LOGOUT: "this login was logged out",
    LoginEnd.REPLACED: "this browser has logged in again since",
    LoginEnd.OPERATOR: "the operator ended this login",
    LoginEnd.REVOKED: "the token of this login was revoked",
    LoginEnd.EXPIRED: "this login has expired",
    LoginEnd.IDLE: "this login was not used for too long",
}


class Logins:
    def __init__(self, operator_token: str, db: Database, clock: Clock, entropy: Entropy) -> None:
        self._operator = hash_token(operator_token)
        self._db = db
        self._clock = clock
        self._entropy = entropy
        self._codes: OrderedDict[bytes, Instant] = OrderedDict()
        self._known: OrderedDict[bytes, tuple[Instant, Login]] = OrderedDict()
        self._ended: OrderedDict[bytes, LoginEnd] = OrderedDict()  # by this process; they override the cache
        self._watched: dict[bytes, set[asyncio.Event]] = {}

    # --- codes

    def new_code(self) -> str:
        """A one-time code that logs the operator in."""
        code = f"{self._entropy.bits(CODE_BITS):032x}"
        self._codes[hash_token(code)] = Instant(self._clock.now() + CODE_LASTS_MS)
        while len(self._codes) > CODES_MAX:
            self._codes.popitem(last=False)
        return code

    def take_code(self, code: str) -> bool:
        """Whether the code is valid. The code is used up."""
        ends_at = self._codes.pop(hash_token(code), None)
        return ends_at is not None and self._clock.now() < ends_at

    # --- logins

    async def begin(self, token: AccessToken, *, replaces: str = "") -> tuple[str, int]:
        """A new cookie for a token, and its lifetime. The browser's previous cookie ends."""
        now = self._clock.now()
        cookie = spell_cookie(self._entropy.bits(COOKIE_BITS))
        ends_at = Instant(min(now + LASTS_MS, token.expires_at or now + LASTS_MS))
        login = Login(
            id=LoginId(new_id(self._clock, self._entropy, "log")),
            token=token.id,
            proof=self._proof(cookie, token.id),
            made_at=now,
            seen_at=now,
            ends_at=ends_at,
        )
        await self._db.write(add_login(login, hash_cookie(cookie), by=acting()))
        if replaces:
            await self.end(replaces, LoginEnd.REPLACED)
        return cookie, ends_at - now

    async def read(self, cookie: str, *, used: bool = True) -> Login:
        """The login of a cookie. Raises `LoginEnded` and its subclass `LoginExpired`."""
        if not is_cookie(cookie):
            raise LoginEnded("this server does not know the login")
        hashed, now = hash_cookie(cookie), self._clock.now()
        login = self._believed(hashed) or await self._db.read(find_login(hashed))
        if login is None:
            raise LoginEnded("this server does not know the login")
        over = self._ended.get(hashed) or login.end(now)
        if over is not None:
            self._known.pop(hashed, None)
            raise (LoginExpired if over in BY_TIME else LoginEnded)(SAYS[over])
        if not hmac.compare_digest(login.proof, self._proof(cookie, login.token)):
            raise LoginEnded("the operator's token has changed since this login")
        if used and now - login.seen_at >= SEEN_EVERY_MS:
            login = await self._see(hashed, login, now)
        self._believe(hashed, login, now)
        return login

    async def end(self, cookie: str, reason: LoginEnd) -> None:
        """End the login of a cookie and every connection that used it. An unknown cookie is ignored."""
        if not is_cookie(cookie):
            return
        hashed = hash_cookie(cookie)
        await self._db.write(end_login(hashed, reason, by=acting()))
        self._known.pop(hashed, None)
        self._ended[hashed] = reason
        if len(self._ended) > KEPT_MAX:
            self._ended.popitem(last=False)
        for event in self._watched.get(hashed, ()):
            event.set()

    @contextmanager
    def watching(self, cookie: str) -> Iterator[asyncio.Event]:
        """An event that is set when this process ends the login of the cookie."""
        event = asyncio.Event()
        if not is_cookie(cookie):  # the caller used a token
            yield event
            return
        hashed = hash_cookie(cookie)
        watchers = self._watched.setdefault(hashed, set())
        watchers.add(event)
        try:
            yield event
        finally:
            watchers.discard(event)
            if not watchers:
                self._watched.pop(hashed, None)

    def check_csrf(self, cookie: str, given: str) -> None:
        """Raises `CsrfTokenMissing`."""
        if not hmac.compare_digest(given.encode(), csrf_of(cookie).encode()):
            raise CsrfTokenMissing("the request came with a cookie and without the header X-Holdfast-CSRF that fits it")

    # --- cached logins

    def _proof(self, cookie: str, token: str) -> bytes:
        return prove_token(cookie, self._operator) if token == OPERATOR.id else b""

    def _believed(self, hashed: bytes) -> Login | None:
        at, login = self._known.get(hashed, (None, None))
        return login if at is not None and 0 <= self._clock.now() - at < BELIEVED_MS else None

    def _believe(self, hashed: bytes, login: Login, now: Instant) -> None:
        """Cache a login. Reading a cached login does not extend its time in the cache."""
        if hashed in self._ended:
            return
        since = self._known.pop(hashed, (now, login))[0]
        self._known[hashed] = (since if 0 <= now - since < BELIEVED_MS else now, login)
        if len(self._known) > KEPT_MAX:
            self._known.popitem(last=False)

    async def _see(self, hashed: bytes, login: Login, now: Instant) -> Login:
        """Record the use. If the store cannot write, the login stays valid and its next use is recorded instead."""
        try:
            await self._db.write(see_login(hashed, now))
        except (StoreUnavailable, StoreFull):
            return login
        return replace(login, seen_at=now)


def cookie_name(host: str, *, secure: bool) -> str:
    """The name of the cookie for a request's host, such as `127.0.0.1:7420` or `[::1]:7420`."""
    port = host.rpartition("]")[2].rpartition(":")[2] if ":" in host.rpartition("]")[2] else ""
    return f"{'__Host-' if secure else ''}holdfast_{port or PORTS[secure]}"


def read_cookie(headers: Iterable[tuple[bytes, bytes]], name: str) -> str:
    """The value of the cookie; empty if there is none. Raises `LoginEnded` for different values."""
    lines = [value.decode("latin-1") for key, value in headers if key == b"cookie"]
    pairs = [pair.strip().partition("=") for line in lines for pair in line.split(";")]
    found = {value.strip('"') for key, _, value in pairs if key == name and value}
    if len(found) > 1:
        raise LoginEnded(f"the request has several cookies of the name {name}")
    return found.pop() if found else ""


def set_cookie(name: str, value: str, lasts_ms: int) -> str:
    """The header that sets the cookie for the lifetime of the login."""
    secure = "; Secure" if name.startswith("__Host-") else ""
    return f"{name}={value}; Max-Age={max(0, lasts_ms) // 1000}; Path=/; HttpOnly; SameSite=Strict{secure}"


def clear_cookie(name: str) -> str:
    return set_cookie(name, "", 0)
