"""`holdfast token`: access tokens. `holdfast logins`: the logins of browsers, each made with a token.

Changes take effect within a second, also in running servers.
"""

from typing import Annotated

import typer

from holdfast.api.auth.access_token import (
    TOKEN_BITS,
    AccessToken,
    Scope,
    expiry_of,
    hash_token,
    make_binding,
    spell_token,
    unconfirmed_text,
)
from holdfast.api.auth.access_token_sql import add_token, end_logins, list_logins, list_tokens, revoke_token
from holdfast.api.auth.login import Login, LoginEnd
from holdfast.audit.actor import acting
from holdfast.cli.command import Invocation, Runtime, command, command_group, visitor
from holdfast.cli.output import Output, TextTable, print_warning, when
from holdfast.inbox.address import check_part
from holdfast.kernel.errors import InvalidInput, LoginNotFound
from holdfast.kernel.ids import Instant, LoginId, TokenId

Scopes = Annotated[
    list[Scope],
    typer.Option(
        "--scope",
        help="A permission; operate includes read, read includes metrics, admin includes all; may be repeated.",
    ),
]
token = command_group("token", "Manage access tokens for the HTTP API.")
logins = command_group("logins", "Manage browser logins.")


@token.command("new")
@command(config=True)
async def new(
    invocation: Invocation,
    *,
    scope: Scopes,
    agent: Annotated[
        list[str] | None, typer.Option("--agent", help="Only for this agent; may be repeated.", show_default="all")
    ] = None,
    sender: Annotated[
        str | None, typer.Option("--sender", help="It may send only as this sender, in the chats of that sender.")
    ] = None,
    chat: Annotated[
        list[str] | None, typer.Option("--chat", help="It may use this chat; may be repeated.", show_default=False)
    ] = None,
    relay: Annotated[
        bool, typer.Option("--relay", help="It may send as any sender in any chat, for a backend with its own users.")
    ] = False,
    label: Annotated[str, typer.Option("--label", help="The purpose of the token.")] = "",
    robot: Annotated[
        bool, typer.Option("--robot", help="For a program: its messages are held after too many turns without a human.")
    ] = False,
    expires: Annotated[
        str, typer.Option("--expires", help="How long the token is valid, such as 90d, 12h or 30m; or never.")
    ] = "never",
) -> Output:
    """Create a token and show it once.

    A token that sends messages requires --sender, --chat or --relay. With --sender or --chat it also reads only those
    chats.

    \b
    Examples:
      holdfast token new --scope send --scope read --sender ada
      holdfast token new --scope send --chat family --chat garden --agent main
      holdfast token new --scope send --relay --label website
      holdfast token new --scope admin --expires 90d
      holdfast token new --scope send --chat reports --robot --label "the other house"
    """
    scopes = frozenset(scope)
    binding = make_binding(
        sender=sender,
        chats=chat or [],
        relay=relay,
        sends=bool(scopes & {Scope.SEND, Scope.ADMIN}),
        is_admin=Scope.ADMIN in scopes,
    )
    async with invocation.visiting(make=True, act="token.created") as runtime:
        wanted = AccessToken(
            id=TokenId(runtime.ports.new_id("tok")),
            label=label,
            scopes=scopes,
            agents=frozenset(runtime.named(name) for name in agent or []),
            robot=robot,
            binding=binding,
            expires_at=expiry_of(expires, runtime.clock.now()),
        )
        secret = spell_token(runtime.entropy.bits(TOKEN_BITS))
        made = await runtime.db.write(add_token(wanted, hash_token(secret), by=acting()))
    text = f"{secret}\n\nThis is token {made.id}. It is not shown again: store it in a safe place."
    return Output({**_token_view(made), "secret": secret}, text)


@token.command("list")
@command(config=True, times=True)
async def list_all(invocation: Invocation) -> Output:
    """List the tokens, without their secrets.

    \b
    Examples:
      holdfast token list
    """
    async with invocation.visiting() as runtime:
        found = await runtime.db.read(list_tokens())
    for one in found:
        if one.revoked_at is None and one.is_unconfirmed and not invocation.as_json:
            print_warning(unconfirmed_text(one.id, one.label))
    rows = (
        (
            one.id,
            one.label,
            " ".join(_scopes(one)),
            " ".join(sorted(one.agents)) or "all",
            _speaks_for(one),
            "robot" if one.robot else "",
            when(one.made_at),
            when(one.expires_at) or "never",
            when(one.revoked_at),
        )
        for one in found
    )
    headings = ("token", "label", "scopes", "agents", "speaks for", "held by", "made", "expires", "revoked")
    table = TextTable(headings, rows, "none; `holdfast token new` makes one")
    return Output({"tokens": [_token_view(one) for one in found]}, table)


@token.command("revoke")
@visitor(config=True, act="token.revoked", on="id", confirm="Permanently revoke {id:.80}?".format)
async def revoke(
    runtime: Runtime,
    id: Annotated[str, typer.Argument(metavar="ID", help="The id of the token, as `holdfast token list` shows it.")],
) -> Output:
    """Revoke a token permanently, within a second.

    \b
    Examples:
      holdfast token revoke tok_...
      holdfast token revoke tok_... --yes --json
    """
    gone = await runtime.db.write(revoke_token(TokenId(check_part("token", id)), by=acting()))
    return Output(_token_view(gone), f"Token {gone.id} is revoked.")


def _scopes(one: AccessToken) -> list[str]:
    return sorted(scope.value for scope in one.scopes)


def _speaks_for(one: AccessToken) -> str:
    binding = one.binding
    words = [*([f"sender {binding.sender}"] if binding.sender is not None else []), *sorted(binding.chats)]
    if one.is_unconfirmed:
        return "anyone (not confirmed)"
    return ", ".join(words) or ("relay" if binding.relay else "")


def _token_view(one: AccessToken) -> dict[str, object]:
    return {
        "token": one.id,
        "label": one.label,
        "scopes": _scopes(one),
        "agents": sorted(one.agents),
        "robot": one.robot,
        "sender": one.binding.sender,
        "chats": sorted(one.binding.chats),
        "relay": one.binding.relay or one.is_unconfirmed,
        "confirmed": not one.is_unconfirmed,
        "made_at": one.made_at,
        "expires_at": one.expires_at,
        "revoked_at": one.revoked_at,
    }


@logins.command("list")
@visitor(config=True, times=True)
async def list_open(
    runtime: Runtime, every: Annotated[bool, typer.Option("--all", help="Include logins that have ended.")] = False
) -> Output:
    """List the browsers that are logged in, newest first.

    \b
    Examples:
      holdfast logins list
      holdfast logins list --all --json
    """
    now = runtime.clock.now()
    found = [one for one in await runtime.db.read(list_logins()) if every or one.end(now) is None]
    rows = (
        (one.id, one.token, when(one.made_at), when(one.seen_at), when(one.ends_at), _state(one, now)) for one in found
    )
    table = TextTable(("login", "token", "made", "seen", "ends", "state"), rows)
    return Output({"logins": [_login_view(one, now) for one in found]}, table)


def _question(*, id: str | None, token: str | None, every: bool) -> str:
    if not every and id is None and token is None:
        return ""  # the command itself reports what is missing
    what = f"the login {id[:80]}" if id else f"every login of {token[:80]}" if token else "every login"
    return f"End {what}?"


@logins.command("end")
@command(config=True, confirm=_question)
async def end(
    invocation: Invocation,
    id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The id of the login, as `holdfast logins list` shows it.")
    ] = None,
    token: Annotated[
        str | None, typer.Option("--token", help="End every login of this token; `operator` for the operator's token.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="End every login.")] = False,
) -> Output:
    """End one login, the logins of a token, or all. A valid token can log in again.

    \b
    Examples:
      holdfast logins end log_...
      holdfast logins end --token tok_... --yes
      holdfast logins end --all --yes --json
    """
    if [id is not None, token is not None, every].count(True) != 1:
        raise InvalidInput("name the logins to end by exactly one of these: an id, --token, or --all")
    one = None if id is None else LoginId(check_part("login", id))
    of = None if token is None else TokenId(check_part("token", token))
    async with invocation.visiting() as runtime:
        ended = await runtime.db.write(end_logins(LoginEnd.OPERATOR, id=one, token=of, by=acting()))
    if id is not None and not ended:
        raise LoginNotFound(f"there is no login {id[:80]}, or it has already ended", login=id[:80])
    return Output({"ended": list(ended)}, f"Ended {len(ended)} {'login' if len(ended) == 1 else 'logins'}.")


def _state(one: Login, now: Instant) -> str:
    over = one.end(now)
    return "open" if over is None else over.value


def _login_view(one: Login, now: Instant) -> dict[str, object]:
    return {
        "login": one.id,
        "token": one.token,
        "made_at": one.made_at,
        "seen_at": one.seen_at,
        "ends_at": one.ends_at,
        "ended_at": one.ended_at,
        "state": _state(one, now),
    }
