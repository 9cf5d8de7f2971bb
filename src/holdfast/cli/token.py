"""`holdfast token`: create, list and revoke access tokens. Changes take effect immediately, also in running servers."""

from typing import Annotated

import typer

from holdfast.api.auth.access_token import (
    TOKEN_BITS,
    AccessToken,
    Scope,
    expiry_of,
    hash_token,
    spell_token,
)
from holdfast.api.auth.access_token_sql import add_token, list_tokens, revoke_token
from holdfast.api.auth.token_binding import make_binding, unconfirmed_text
from holdfast.audit.actor import acting
from holdfast.cli.command import Invocation, Runtime, command, command_group, visitor
from holdfast.cli.output import Output, TextTable, print_warning, when
from holdfast.inbox.address import check_part
from holdfast.kernel.ids import TokenId, make_id

Scopes = Annotated[
    list[Scope],
    typer.Option("--scope", help="A permission; operate includes read, admin includes all; may be repeated."),
]
token = command_group("token", "Manage access tokens for the HTTP API.")


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
            id=TokenId(make_id("tok", runtime.clock.now(), runtime.entropy.bits(80))),
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
    return Output({**_view(made), "secret": secret}, text)


@token.command("list")
@command(config=True)
async def list_(invocation: Invocation) -> Output:
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
    return Output({"tokens": [_view(one) for one in found]}, TextTable(headings, rows))


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
    return Output(_view(gone), f"Token {gone.id} is revoked.")


def _scopes(one: AccessToken) -> list[str]:
    return sorted(scope.value for scope in one.scopes)


def _speaks_for(one: AccessToken) -> str:
    binding = one.binding
    words = [*([f"sender {binding.sender}"] if binding.sender is not None else []), *sorted(binding.chats)]
    if one.is_unconfirmed:
        return "anyone (not confirmed)"
    return ", ".join(words) or ("relay" if binding.relay else "")


def _view(one: AccessToken) -> dict[str, object]:
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
