"""`holdfast token`: make, list and revoke access tokens. They hold at once, also for a process that serves already."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.asking import Yes, ask
from holdfast.cli.options import Config, Data, Json, ScopeName

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.core.access_token import AccessToken

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
    label: Annotated[str, typer.Option("--label", help="What it is for.")] = "",
    robot: Annotated[
        bool, typer.Option("--robot", help="For a program that talks by itself: too many of its turns in a row rest.")
    ] = False,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Make a token and show it, once.

    \b
    Examples:
      holdfast token new --scope send --label website
      holdfast token new --scope send --scope read --agent main
      holdfast token new --scope send --robot --label "the other house"
    """
    from holdfast.cli.running import run

    run(lambda: _new(scope, agent or [], label, data, config, robot=robot, as_json=as_json), as_json=as_json)


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


async def _new(
    scopes: Sequence[str],
    agents: list[str],
    label: str,
    data: "Path | None",
    config: "Path | None",
    *,
    robot: bool,
    as_json: bool,
) -> int:
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json
    from holdfast.cli.running import OK
    from holdfast.core.access_token import TOKEN_BITS, AccessToken, hash_token, parse_scopes, spell_token
    from holdfast.core.ids import TokenId, make_id

    async with visiting(data, config, make=True) as runtime:
        wanted = AccessToken(
            id=TokenId(make_id("tok", runtime.clock.now(), runtime.entropy.bits(80))),
            label=label,
            scopes=parse_scopes(scopes),
            agents=frozenset(runtime.named(agent) for agent in agents),
            robot=robot,
        )
        secret = spell_token(runtime.entropy.bits(TOKEN_BITS))
        made = await runtime.store.add_token(wanted, hash_token(secret))
    if as_json:
        print_json({**_view(made), "secret": secret})
    else:
        print(f"{secret}\n\nThis is token {made.id}. It is not shown again: keep it where secrets are kept.")
    return OK


async def _list(data: "Path | None", config: "Path | None", *, as_json: bool) -> int:
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json, print_table, when
    from holdfast.cli.running import OK

    async with visiting(data, config) as runtime:
        found = await runtime.reader.tokens()
    if as_json:
        print_json({"tokens": [_view(one) for one in found]})
        return OK
    rows = [
        (
            one.id,
            one.label,
            " ".join(_scopes(one)),
            " ".join(sorted(one.agents)) or "all",
            "robot" if one.robot else "",
            when(one.made_at),
            when(one.revoked_at),
        )
        for one in found
    ]
    print_table(("token", "label", "scopes", "agents", "held by", "made", "revoked"), rows)
    return OK


async def _revoke(id: str, data: "Path | None", config: "Path | None", *, as_json: bool) -> int:
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json
    from holdfast.cli.running import OK
    from holdfast.core.ids import TokenId
    from holdfast.core.key import check_part

    async with visiting(data, config) as runtime:
        gone = await runtime.store.revoke_token(TokenId(check_part("token", id)))
    if as_json:
        print_json(_view(gone))
    else:
        print(f"Token {gone.id} is revoked.")
    return OK


def _scopes(one: "AccessToken") -> list[str]:
    return sorted(scope.value for scope in one.scopes)


def _view(one: "AccessToken") -> dict[str, object]:
    return {
        "token": one.id,
        "label": one.label,
        "scopes": _scopes(one),
        "agents": sorted(one.agents),
        "robot": one.robot,
        "made_at": one.made_at,
        "revoked_at": one.revoked_at,
    }
