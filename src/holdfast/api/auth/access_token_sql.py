"""Access tokens in the store, by hash. A revoked token keeps its row, so that the list shows when it was revoked."""

from collections.abc import Sequence

from holdfast.api.auth.access_token import AccessToken, parse_scopes
from holdfast.api.auth.login import LoginEnd
from holdfast.api.auth.login_sql import end_logins
from holdfast.api.auth.token_binding import Binding
from holdfast.audit import action_sql
from holdfast.audit.action import PROGRAM, Act, By
from holdfast.kernel.errors import TokenNotFound
from holdfast.kernel.ids import TokenId
from holdfast.store.script import Columns, Row, Script, one, plain, rows, verb

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
