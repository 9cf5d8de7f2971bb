"""The store's verbs about logins of browsers."""

from collections.abc import Sequence

from holdfast.api.auth import login_sql
from holdfast.api.auth.login import Login, LoginEnd
from holdfast.kernel.ids import Instant, LoginId, TokenId
from holdfast.store.protocols.login_store import LOGINS_LISTED_MAX
from holdfast.store.verbs.action_verbs import ActionVerbs


class LoginVerbs(ActionVerbs):
    """Implements the ports `LoginStore` and `LoginReader`."""

    async def add_login(self, login: Login, hash: bytes) -> None:
        await self._act("add_login", lambda by: login_sql.add_login(login, hash, by))

    async def see_login(self, hash: bytes, at: Instant) -> None:
        await self._db.write("see_login", lambda: login_sql.see_login(hash, at))

    async def end_login(self, hash: bytes, reason: LoginEnd) -> None:
        await self._act("end_login", lambda by: login_sql.end_login(hash, reason, by))

    async def end_logins(
        self, reason: LoginEnd, *, id: LoginId | None = None, token: TokenId | None = None
    ) -> Sequence[LoginId]:
        which = {"id_": id or "", "token": token or ""}
        return await self._act("end_logins", lambda by: login_sql.end_logins(reason, **which, by=by))

    async def login(self, hash: bytes) -> Login | None:
        return await self._db.read("login", lambda: login_sql.find_login(hash))

    async def logins(self, *, limit: int = LOGINS_LISTED_MAX) -> Sequence[Login]:
        return await self._db.read("logins", lambda: login_sql.list_logins(limit))
