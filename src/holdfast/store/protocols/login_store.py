"""Logins of browsers, as the store keeps them. Part of the ports `Store` and `Reader`."""

from collections.abc import Sequence
from typing import Protocol

from holdfast.api.auth.login import Login, LoginEnd
from holdfast.kernel.ids import Instant, LoginId, TokenId

LOGINS_LISTED_MAX = 1_000


class LoginStore(Protocol):
    async def add_login(self, login: Login, hash: bytes) -> None:
        """Keep a login by the hash of its cookie. The same id again changes nothing.

        An action `login` is recorded in the same transaction. The oldest logins of the same token go when there are
        more than `LOGINS_MAX`.
        """
        ...

    async def see_login(self, hash: bytes, at: Instant) -> None:
        """Note that a login was used; an earlier time than the noted one changes nothing."""
        ...

    async def end_login(self, hash: bytes, reason: LoginEnd) -> None:
        """End the login of a cookie; one that is over or unknown is left alone. A logout is recorded as an action."""
        ...

    async def end_logins(
        self, reason: LoginEnd, *, id: LoginId | None = None, token: TokenId | None = None
    ) -> Sequence[LoginId]:
        """End one login, those of one token, or all; the ids of those that had not been ended."""
        ...


class LoginReader(Protocol):
    async def login(self, hash: bytes) -> Login | None:
        """The login of a cookie's hash, over or not."""
        ...

    async def logins(self, *, limit: int = LOGINS_LISTED_MAX) -> Sequence[Login]:
        """Newest first, those that are over included."""
        ...
