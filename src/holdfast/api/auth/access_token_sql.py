"""Access tokens and the logins of browsers in the store, by the hashes of tokens and cookies.

A revoked token and an ended login keep their rows, so that the lists show when and why.
"""

from collections.abc import Sequence

from holdfast.api.auth.access_token import AccessToken, Binding, parse_scopes
from holdfast.api.auth.login import KEPT_MS, LOGINS_LISTED_MAX, LOGINS_MAX, Login, LoginEnd
from holdfast.audit import action_sql
from holdfast.audit.action import PROGRAM, Act, By
from holdfast.kernel.errors import TokenNotFound
from holdfast.kernel.ids import Instant, LoginId, TokenId
from holdfast.store.script import Columns, Row, Script, one, plain, rows, run, verb

CHATS_BETWEEN = "\n"  # the name of a chat contains no control character
BINDING = Columns(Binding, chats=("chats", lambda text: frozenset(filter(None, text.split(CHATS_BETWEEN)))))
TOKEN = Columns(
    AccessToken,
    without=("binding",),
    scopes=("scopes", lambda text: parse_scopes(text.split())),
    agents=("agents", lambda text: frozenset(text.split())),
)
FIELDS = f"{BINDING}, {TOKEN}"
ADD = """
insert into token (id, hash, label, scopes, agents, robot, sender, chats, relay, made_at, expires_at)
values (:id, :hash, :label, :scopes, :agents, :robot, :sender, :chats, :relay, :now, :expires_at)
on conflict (id) do nothing returning id"""
REVOKE = "update token set revoked_at = :now where id = :id and revoked_at is null returning id"
BY_ID = f"select {FIELDS} from token where id = :id"
BY_HASH = f"select {FIELDS} from token where hash = :hash"
TOKENS = f"select {FIELDS} from token where id > :after order by id limit :limit"
LOGIN = Columns(Login)
ADD_LOGIN = """
insert into login (id, hash, token, proof, made_at, seen_at, ends_at)
values (:id, :hash, :token, :proof, :made_at, :seen_at, :ends_at) on conflict (id) do nothing returning id"""
OLD_LOGINS = "delete from login where ends_at < :before"
SURPLUS = "select id from login where token = :token order by id desc limit 1 offset :most"
REMOVE_SURPLUS = "delete from login where token = :token and id <= :id"
SEEN = "update login set seen_at = :at where hash = :hash and seen_at < :at"
END_LOGIN = "update login set ended_at = :now, reason = :reason where hash = :hash and ended_at is null returning token"
END_LOGINS = """
update login set ended_at = :now, reason = :reason
 where ended_at is null and (cast(:id as text) = '' or id = :id) and (cast(:token as text) = '' or token = :token)
 returning id"""
LOGIN_BY_HASH = f"select {LOGIN} from login where hash = :hash"
LOGINS = f"select {LOGIN} from login order by id desc limit :limit"


@verb
def add_token(token: AccessToken, hash_: bytes, by: By = PROGRAM) -> Script[AccessToken]:
    scopes = " ".join(sorted(scope.value for scope in token.scopes))
    agents = " ".join(sorted(token.agents))
    binding = token.binding
    made = yield from one(
        ADD,
        id=token.id,
        hash=hash_,
        label=plain(token.label),
        scopes=scopes,
        agents=agents,
        robot=int(token.robot),
        sender=binding.sender,
        chats=CHATS_BETWEEN.join(sorted(binding.chats)),
        relay=int(binding.relay),
        expires_at=token.expires_at,
    )
    if made is not None:
        yield from action_sql.record(Act.TOKEN_CREATED, by, token.id, scopes=scopes, agents=agents)
    return (yield from get_token(token.id))


@verb
def revoke_token(id_: TokenId, by: By = PROGRAM) -> Script[AccessToken]:
    """Revoke a token and end its logins. A second call keeps the time of the first."""
    if (yield from one(REVOKE, id=id_)) is not None:
        yield from action_sql.record(Act.TOKEN_REVOKED, by, id_)
    yield from end_logins(LoginEnd.REVOKED, token=id_)
    return (yield from get_token(id_))


@verb
def get_token(id_: TokenId) -> Script[AccessToken]:
    row = yield from one(BY_ID, id=id_)
    if row is None:
        raise TokenNotFound(f"there is no token {id_}", token=id_)
    return token_of(row)


@verb
def find_token(hash_: bytes) -> Script[AccessToken | None]:
    row = yield from one(BY_HASH, hash=hash_)
    return None if row is None else token_of(row)


@verb
def list_tokens(*, after: str = "", limit: int = 1_000) -> Script[Sequence[AccessToken]]:
    return [token_of(row) for row in (yield from rows(TOKENS, after=after, limit=limit))]


def token_of(row: Row) -> AccessToken:
    cut = len(BINDING.names)
    return TOKEN.value(row[cut:], binding=BINDING.value(row[:cut]))


# --- logins ----------------------------------------------------------------------------------------


@verb
def add_login(login: Login, hash_: bytes, by: By = PROGRAM) -> Script[None]:
    """Add a login. Outdated logins, and those beyond the limit of one token, are deleted."""
    times = {"made_at": login.made_at, "seen_at": login.seen_at, "ends_at": login.ends_at}
    yield from run(OLD_LOGINS, before=login.made_at - KEPT_MS)
    added = yield from one(ADD_LOGIN, id=login.id, hash=hash_, token=login.token, proof=login.proof, **times)
    surplus = yield from one(SURPLUS, token=login.token, most=LOGINS_MAX)
    if surplus is not None:
        yield from run(REMOVE_SURPLUS, token=login.token, id=surplus[0])
    if added is not None:
        yield from action_sql.record(Act.LOGIN, by, login.token)


@verb
def see_login(hash_: bytes, at: Instant) -> Script[None]:
    yield from run(SEEN, hash=hash_, at=at)


@verb
def end_login(hash_: bytes, reason: LoginEnd, by: By = PROGRAM) -> Script[None]:
    """End a login. A second call keeps the time of the first."""
    ended = yield from one(END_LOGIN, hash=hash_, reason=reason.value)
    if ended is not None and reason is LoginEnd.LOGOUT:
        yield from action_sql.record(Act.LOGOUT, by, ended[0])


@verb
def end_logins(
    reason: LoginEnd, *, id: LoginId | None = None, token: TokenId | None = None, by: By = PROGRAM
) -> Script[Sequence[LoginId]]:
    """End the login with an id, those of a token, or all; returns the ids of those that had not ended before."""
    ended = yield from rows(END_LOGINS, reason=reason.value, id=id or "", token=token or "")
    if ended and reason is LoginEnd.OPERATOR:
        yield from action_sql.record(Act.LOGINS_ENDED, by, id or token or "all", logins=len(ended))
    return sorted(LoginId(id_) for (id_,) in ended)


@verb
def find_login(hash_: bytes) -> Script[Login | None]:
    return (yield from LOGIN.one(LOGIN_BY_HASH, hash=hash_))


@verb
def list_logins(*, limit: int = LOGINS_LISTED_MAX) -> Script[Sequence[Login]]:
    return (yield from LOGIN.rows(LOGINS, limit=limit))
