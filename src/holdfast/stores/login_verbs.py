"""The store's verbs about logins of browsers."""

from collections.abc import Sequence

from holdfast.core.ids import Instant, LoginId, TokenId
from holdfast.core.login import Login, LoginEnd
from holdfast.ports.login_store import LOGINS_LISTED_MAX
from holdfast.stores.action_verbs import ActionVerbs
from holdfast.stores.verbs import logins


class LoginVerbs(ActionVerbs):
    """Implements the ports `LoginStore` and `LoginReader`."""

    async def add_login(self, login: Login, hash: bytes) -> None:
        await self._act("add_login", lambda by: logins.add_login(login, hash, by))

    async def see_login(self, hash: bytes, at: Instant) -> None:
        await self._db.write("see_login", lambda: logins.see_login(hash, at))

    async def end_login(self, hash: bytes, reason: LoginEnd) -> None:
        await self._act("end_login", lambda by: logins.end_login(hash, reason, by))

    async def end_logins(
        self, reason: LoginEnd, *, id: LoginId | None = None, token: TokenId | None = None
    ) -> Sequence[LoginId]:
        which = {"id_": id or "", "token": token or ""}
        return await self._act("end_logins", lambda by: logins.end_logins(reason, **which, by=by))

    async def login(self, hash: bytes) -> Login | None:
        return await self._db.read("login", lambda: logins.find_login(hash))

    async def logins(self, *, limit: int = LOGINS_LISTED_MAX) -> Sequence[Login]:
        return await self._db.read("logins", lambda: logins.list_logins(limit))
