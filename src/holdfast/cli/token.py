"""`holdfast token`: make, list and revoke access tokens. They hold at once, also for a process that serves already."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from holdfast.cli.asking import Yes, ask
from holdfast.cli.options import Config, Data, Json, ScopeName

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.api.auth.access_token import AccessToken

token = typer.Typer(name="token", help="Access tokens for the HTTP API.", no_args_is_help=True, rich_markup_mode=None)


@token.command("new")
def new(
    *,
    scope: Annotated[
        list[ScopeName],
        typer.Option("--scope", help="What it may do; operate includes read, admin everything; may be repeated."),
    ],
    agent: Annotated[
        list[str] | None, typer.Option("--agent", help="Only for this agent; may be repeated.", show_default="all")
    ] = None,
    sender: Annotated[
        str | None, typer.Option("--sender", help="It speaks for this sender only, in chats of that sender's own.")
    ] = None,
    chat: Annotated[
        list[str] | None, typer.Option("--chat", help="It may use this chat; may be repeated.", show_default=False)
    ] = None,
    relay: Annotated[
        bool, typer.Option("--relay", help="It speaks for any sender in any chat: a backend with users of its own.")
    ] = False,
    label: Annotated[str, typer.Option("--label", help="What it is for.")] = "",
    robot: Annotated[
        bool, typer.Option("--robot", help="For a program that talks by itself: too many of its turns in a row rest.")
    ] = False,
    expires: Annotated[
        str, typer.Option("--expires", help="How long it is good, as in 90d, 12h or 30m; or never.")
    ] = "never",
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Make a token and show it, once.

    A token that sends says for whom it speaks: --sender, --chat or --relay. With --sender or --chat it also reads only
    what those chats hold.

    \b
    Examples:
      holdfast token new --scope send --scope read --sender ada
      holdfast token new --scope send --chat family --chat garden --agent main
      holdfast token new --scope send --relay --label website
      holdfast token new --scope admin --expires 90d
      holdfast token new --scope send --chat reports --robot --label "the other house"
    """
    from holdfast.cli.running import run

    wish = _Wish(scope, agent or [], label, robot, sender, chat or [], relay, expires)
    run(lambda: _new(wish, data, config, as_json=as_json), as_json=as_json)


@token.command("list")
def list_(*, config: Config = None, data: Data = None, as_json: Json = False) -> None:
    """List the tokens, without their secrets.

    \b
    Examples:
      holdfast token list
    """
    from holdfast.cli.running import run

    run(lambda: _list(data, config, as_json=as_json), as_json=as_json)


@token.command("revoke")
def revoke(
    id: Annotated[str, typer.Argument(metavar="ID", help="The token's id, as `holdfast token list` shows it.")],
    *,
    yes: Yes = False,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """End a token, within a second and for good.

    \b
    Examples:
      holdfast token revoke tok_...
      holdfast token revoke tok_... --yes --json
    """
    from holdfast.cli.running import run

    ask(f"Revoke {id[:80]} for good?", yes=yes, as_json=as_json)
    run(lambda: _revoke(id, data, config, as_json=as_json), as_json=as_json)


class _Wish(NamedTuple):
    """The token that is wanted, as it was typed."""

    scopes: Sequence[str]
    agents: Sequence[str]
    label: str
    robot: bool
    sender: str | None
    chats: Sequence[str]
    relay: bool
    expires: str


async def _new(wish: _Wish, data: "Path | None", config: "Path | None", *, as_json: bool) -> int:
    from holdfast.api.auth.access_token import (
        TOKEN_BITS,
        AccessToken,
        Scope,
        expiry_of,
        hash_token,
        parse_scopes,
        spell_token,
    )
    from holdfast.api.auth.access_token_sql import add_token
    from holdfast.api.auth.token_binding import make_binding
    from holdfast.audit.actor import acting
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json
    from holdfast.cli.running import OK
    from holdfast.kernel.ids import TokenId, make_id

    scopes = parse_scopes(wish.scopes)
    binding = make_binding(
        sender=wish.sender,
        chats=wish.chats,
        relay=wish.relay,
        sends=bool(scopes & {Scope.SEND, Scope.ADMIN}),
        is_admin=Scope.ADMIN in scopes,
    )
    async with visiting(data, config, make=True, act="token.created") as runtime:
        wanted = AccessToken(
            id=TokenId(make_id("tok", runtime.clock.now(), runtime.entropy.bits(80))),
            label=wish.label,
            scopes=scopes,
            agents=frozenset(runtime.named(agent) for agent in wish.agents),
            robot=wish.robot,
            binding=binding,
            expires_at=expiry_of(wish.expires, runtime.clock.now()),
        )
        secret = spell_token(runtime.entropy.bits(TOKEN_BITS))
        made = await runtime.db.write(add_token(wanted, hash_token(secret), by=acting()))
    if as_json:
        print_json({**_view(made), "secret": secret})
    else:
        print(f"{secret}\n\nThis is token {made.id}. It is not shown again: keep it where secrets are kept.")
    return OK


async def _list(data: "Path | None", config: "Path | None", *, as_json: bool) -> int:
    from holdfast.api.auth.access_token_sql import list_tokens
    from holdfast.api.auth.token_binding import unconfirmed_text
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json, print_table, visible, when
    from holdfast.cli.running import OK

    async with visiting(data, config) as runtime:
        found = await runtime.db.read(list_tokens())
    if as_json:
        print_json({"tokens": [_view(one) for one in found]})
        return OK
    rows = [
        (
            one.id,
            one.label,
            " ".join(_scopes(one)),
            " ".join(sorted(one.agents)) or "all",
            _speaks(one),
            "robot" if one.robot else "",
            when(one.made_at),
            when(one.expires_at) or "never",
            when(one.revoked_at),
        )
        for one in found
    ]
    print_table(("token", "label", "scopes", "agents", "speaks for", "held by", "made", "expires", "revoked"), rows)
    for one in found:
        if one.revoked_at is None and one.is_unconfirmed:
            print(visible(f"warning: {unconfirmed_text(one.id, one.label)}"), file=sys.stderr)
    return OK


async def _revoke(id: str, data: "Path | None", config: "Path | None", *, as_json: bool) -> int:
    from holdfast.api.auth.access_token_sql import revoke_token
    from holdfast.audit.actor import acting
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json
    from holdfast.cli.running import OK
    from holdfast.inbox.address import check_part
    from holdfast.kernel.ids import TokenId

    async with visiting(data, config, act="token.revoked", on=id) as runtime:
        gone = await runtime.db.write(revoke_token(TokenId(check_part("token", id)), by=acting()))
    if as_json:
        print_json(_view(gone))
    else:
        print(f"Token {gone.id} is revoked.")
    return OK


def _scopes(one: "AccessToken") -> list[str]:
    return sorted(scope.value for scope in one.scopes)


def _speaks(one: "AccessToken") -> str:
    binding = one.binding
    words = [*([f"sender {binding.sender}"] if binding.sender is not None else []), *sorted(binding.chats)]
    if one.is_unconfirmed:
        return "anybody (not confirmed)"
    return ", ".join(words) or ("relay" if binding.relay else "")


def _view(one: "AccessToken") -> dict[str, object]:
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
