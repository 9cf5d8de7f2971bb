"""Logins of a browser: a one-time code or a token is exchanged for a cookie (D43).

Rule 1: a cookie is random and stands for a row in the store (api/auth/login.py). A login survives a restart, and every
        process that shares the store knows it. Nothing is signed, so no key has to be kept or rotated.
Rule 2: what was found in the store is believed for a second. A login that this process ends is over at once, and so
        are the connections that came with it.
Rule 3: a browser sends cookies for any page that makes it ask. So a request that changes something must carry, beside
        the cookie, a header that only a page of this very origin can know (`X-Holdfast-CSRF`).
Rule 4: a code is good once and for ten minutes, and lives in RAM only.
"""

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from holdfast.api.auth.access_token import AccessToken, hash_token
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
from holdfast.api.auth.login_sql import add_login, end_login, find_login, see_login
from holdfast.api.errors import CsrfTokenMissing, LoginEnded, LoginExpired
from holdfast.audit.actor import acting
from holdfast.kernel.clock import Clock
from holdfast.kernel.entropy import Entropy
from holdfast.kernel.errors import StoreFull, StoreUnavailable
from holdfast.kernel.ids import Instant, LoginId, make_id
from holdfast.store.database import Database

CSRF_HEADER = b"x-holdfast-csrf"
CODE_LASTS_MS = 10 * 60 * 1_000
CODE_BITS = 128
CODES_MAX = 16
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
        self._ended: OrderedDict[bytes, LoginEnd] = OrderedDict()  # by this process: no belief outlives that
        self._watched: dict[bytes, set[asyncio.Event]] = {}

    # --- codes

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

    # --- logins

    async def begin(self, token: AccessToken, *, replaces: str = "") -> tuple[str, int]:
        """A new cookie for a token, and for how long it is good. The cookie that the browser had before ends."""
        now = self._clock.now()
        cookie = spell_cookie(self._entropy.bits(COOKIE_BITS))
        ends_at = Instant(min(now + LASTS_MS, token.expires_at or now + LASTS_MS))
        login = Login(
            id=LoginId(make_id("log", now, self._entropy.bits(80))),
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
        """The login that a cookie stands for. Raises `LoginEnded`, and `LoginExpired`, which is one."""
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
        """End the login of a cookie, and every connection that came with it. Unknown cookies are left alone."""
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
        if not is_cookie(cookie):  # the caller came with a token
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

    def csrf(self, cookie: str) -> str:
        """What the page must send beside this cookie."""
        return csrf_of(cookie)

    def check_csrf(self, cookie: str, given: str) -> None:
        """Raises `CsrfTokenMissing`."""
        if not hmac.compare_digest(given.encode(), csrf_of(cookie).encode()):
            raise CsrfTokenMissing("the request came with a cookie and without the header X-Holdfast-CSRF that fits it")

    # --- what was found before

    def _proof(self, cookie: str, token: str) -> bytes:
        return prove_token(cookie, self._operator) if token == OPERATOR.id else b""

    def _believed(self, hashed: bytes) -> Login | None:
        at, login = self._known.get(hashed, (None, None))
        return login if at is not None and 0 <= self._clock.now() - at < BELIEVED_MS else None

    def _believe(self, hashed: bytes, login: Login, now: Instant) -> None:
        """What is believed already is not believed for longer by being asked for again."""
        if hashed in self._ended:
            return
        since = self._known.pop(hashed, (now, login))[0]
        self._known[hashed] = (since if 0 <= now - since < BELIEVED_MS else now, login)
        if len(self._known) > KEPT_MAX:
            self._known.popitem(last=False)

    async def _see(self, hashed: bytes, login: Login, now: Instant) -> Login:
        """Note the use. A store that cannot write at present ends no login: the next use is noted instead."""
        try:
            await self._db.write(see_login(hashed, now))
        except (StoreUnavailable, StoreFull):
            return login
        return replace(login, seen_at=now)
