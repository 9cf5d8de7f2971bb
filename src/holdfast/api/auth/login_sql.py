"""Browser logins in the store, by the hash of their cookie. An ended login keeps its row, so the list shows why."""

from collections.abc import Sequence

from holdfast.api.auth.login import KEPT_MS, LOGINS_LISTED_MAX, LOGINS_MAX, Login, LoginEnd
from holdfast.audit import action_sql
from holdfast.audit.action import PROGRAM, Act, By
from holdfast.kernel.ids import Instant, LoginId, TokenId
from holdfast.store.script import Columns, Script, one, rows, run, verb

LOGIN = Columns(Login)
ADD = """
insert into login (id, hash, token, proof, made_at, seen_at, ends_at)
values (:id, :hash, :token, :proof, :made_at, :seen_at, :ends_at) on conflict (id) do nothing returning id"""
OLD = "delete from login where ends_at < :before"
SURPLUS = "select id from login where token = :token order by id desc limit 1 offset :most"
REMOVE = "delete from login where token = :token and id <= :id"
SEEN = "update login set seen_at = :at where hash = :hash and seen_at < :at"
END = "update login set ended_at = :now, reason = :reason where hash = :hash and ended_at is null returning token"
END_SOME = """
update login set ended_at = :now, reason = :reason
 where ended_at is null and (cast(:id as text) = '' or id = :id) and (cast(:token as text) = '' or token = :token)
 returning id"""
BY_HASH = f"select {LOGIN} from login where hash = :hash"
LOGINS = f"select {LOGIN} from login order by id desc limit :limit"


@verb
def add_login(login: Login, hash_: bytes, by: By = PROGRAM) -> Script[None]:
    """Add a login. Outdated logins, and those beyond the limit of one token, are deleted."""
    times = {"made_at": login.made_at, "seen_at": login.seen_at, "ends_at": login.ends_at}
    yield from run(OLD, before=login.made_at - KEPT_MS)
    added = yield from one(ADD, id=login.id, hash=hash_, token=login.token, proof=login.proof, **times)
    surplus = yield from one(SURPLUS, token=login.token, most=LOGINS_MAX)
    if surplus is not None:
        yield from run(REMOVE, token=login.token, id=surplus[0])
    if added is not None:
        yield from action_sql.record(Act.LOGIN, by, login.token)


@verb
def see_login(hash_: bytes, at: Instant) -> Script[None]:
    yield from run(SEEN, hash=hash_, at=at)


@verb
def end_login(hash_: bytes, reason: LoginEnd, by: By = PROGRAM) -> Script[None]:
    """End a login. A second call keeps the time of the first."""
    ended = yield from one(END, hash=hash_, reason=reason.value)
    if ended is not None and reason is LoginEnd.LOGOUT:
        yield from action_sql.record(Act.LOGOUT, by, ended[0])


@verb
def end_logins(
    reason: LoginEnd, *, id: LoginId | None = None, token: TokenId | None = None, by: By = PROGRAM
) -> Script[Sequence[LoginId]]:
    """End the login with an id, those of a token, or all; returns the ids of those that had not ended before."""
    ended = yield from rows(END_SOME, reason=reason.value, id=id or "", token=token or "")
    if ended and reason is LoginEnd.OPERATOR:
        yield from action_sql.record(Act.LOGINS_ENDED, by, id or token or "all", logins=len(ended))
    return sorted(LoginId(id_) for (id_,) in ended)


@verb
def find_login(hash_: bytes) -> Script[Login | None]:
    return (yield from LOGIN.one(BY_HASH, hash=hash_))


@verb
def list_logins(*, limit: int = LOGINS_LISTED_MAX) -> Script[Sequence[Login]]:
    return (yield from LOGIN.rows(LOGINS, limit=limit))
