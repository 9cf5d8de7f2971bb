"""The caller of a request: the rights of its token, and how it was presented (a header, a first frame, a cookie).

Rule 1: a token is looked up in the store for every request. The result is cached for one second, so a token that
        another process revokes is refused within a second.
Rule 2: the operator's own token (HOLDFAST_TOKEN, or the file in the data folder) is compared in constant time and holds
        every scope. It is not in the store.
"""

import hmac
from collections import OrderedDict
from dataclasses import dataclass

from holdfast.api.auth.access_token import AccessToken, Scope, hash_token, is_token
from holdfast.api.auth.access_token_sql import find_token, get_token
from holdfast.api.auth.viewer import Viewer
from holdfast.api.errors import AuthRequired, TokenExpired
from holdfast.audit.action import ActorKind, By
from holdfast.inbox.address import check_part
from holdfast.kernel.errors import ScopeRequired, TokenNotFound
from holdfast.kernel.ids import Instant, Principal, TokenId
from holdfast.kernel.ports import Clock
from holdfast.store.ports import Database

BELIEVED_MS = 1_000
KEPT_MAX = 1_000
OPERATOR = AccessToken(id=TokenId("operator"), label="the operator's token", scopes=frozenset({Scope.ADMIN}))


@dataclass(frozen=True, slots=True)
class Caller:
    token: AccessToken
    cookie: str = ""  # the cookie of the request; empty if it used a token

    def require(self, scope: Scope) -> None:
        """Raises `ScopeRequired`."""
        if not self.token.may(scope):
            held = ", ".join(sorted(one.value for one in self.token.scopes))
            raise ScopeRequired(f"this needs the scope {scope.value}; the token has: {held}", scope=scope.value)

    def as_actor(self, origin: str) -> By:
        """The caller as the audit trail names it."""
        how = f"{origin}, with a cookie" if self.cookie else origin
        if self.token.id == OPERATOR.id:
            return By(kind=ActorKind.OPERATOR, id=self.token.id, origin=how)
        return By(kind=ActorKind.TOKEN, id=self.token.id, label=self.token.label, origin=how)

    async def speak_as(self, sender: str | None, chat: str, viewer: Viewer) -> str:
        """The sender of a message in a chat. `sender` is the one that the request names; an empty chat is chosen later.

        Raises `TokenBound`. Raises `ScopeRequired` for a sender on another channel (named as <channel>:<id>, or by a
        name that such an account is linked to), unless the operator bound the token to exactly that sender.
        """
        binding = self.token.binding
        if sender is None and not chat and binding.sender is None:
            return ""
        who = binding.speaker(sender, chat)
        if self.token.may(Scope.ADMIN) or binding.sender is not None:
            return who
        known = Principal(check_part("sender", who))
        if any(":" in one for one in (known, *await viewer.linked(known))):
            why = f"the sender {who[:80]!r} is somebody on another channel; to speak for them needs the scope admin"
            raise ScopeRequired(why, scope=Scope.ADMIN.value)
        return who


class Keyring:
    def __init__(self, operator_token: str, db: Database, clock: Clock) -> None:
        self._operator = hash_token(operator_token)
        self._db = db
        self._clock = clock
        self._known: OrderedDict[bytes | str, tuple[Instant, AccessToken]] = OrderedDict()

    def is_operator(self, secret: str) -> bool:
        return hmac.compare_digest(hash_token(secret), self._operator)

    async def by_secret(self, secret: str) -> AccessToken | None:
        """The token of a secret; None if it is unknown or revoked. Raises `TokenExpired`."""
        hashed = hash_token(secret)
        if hmac.compare_digest(hashed, self._operator):
            return OPERATOR
        if not is_token(secret):
            return None
        found = self._believed(hashed) or await self._db.read(find_token(hashed))
        return self._valid(hashed, found)

    async def by_id(self, id: str) -> AccessToken:
        """The token of a login. Raises `AuthRequired` and its subclass `TokenExpired`."""
        if id == OPERATOR.id:
            return OPERATOR
        try:
            found = self._valid(id, self._believed(id) or await self._db.read(get_token(TokenId(id))))
        except TokenNotFound as error:
            raise AuthRequired("the token of this login is gone") from error
        if found is None:
            raise AuthRequired("the token of this login was revoked")
        return found

    def _believed(self, key: bytes | str) -> AccessToken | None:
        at, found = self._known.get(key, (None, None))
        return found if at is not None and 0 <= self._clock.now() - at < BELIEVED_MS else None

    def _valid(self, key: bytes | str, found: AccessToken | None) -> AccessToken | None:
        if found is None or found.revoked_at is not None:
            self._known.pop(key, None)
            return None
        if found.has_expired(self._clock.now()):
            raise TokenExpired(f"the token {found.id} has expired")
        if self._believed(key) is None:
            self._known.pop(key, None)
            self._known[key] = (self._clock.now(), found)
            if len(self._known) > KEPT_MAX:
                self._known.popitem(last=False)
        return found
