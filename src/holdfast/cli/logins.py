"""`holdfast logins`: list and end the logins of browsers. They end within a second in every process that serves."""

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.asking import Yes, ask
from holdfast.cli.options import Config, Data, Json

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.api.auth.login import Login
    from holdfast.kernel.ids import Instant

logins = typer.Typer(name="logins", help="Logins of browsers.", no_args_is_help=True, rich_markup_mode=None)


@logins.command("list")
def list_(
    *,
    every: Annotated[bool, typer.Option("--all", help="Also those that are over.")] = False,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List the browsers that are logged in, newest first.

    \b
    Examples:
      holdfast logins list
      holdfast logins list --all --json
    """
    from holdfast.cli.running import run

    run(lambda: _list(data, config, every=every, as_json=as_json), as_json=as_json)


@logins.command("end")
def end(
    id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The login's id, as `holdfast logins list` shows it.")
    ] = None,
    *,
    token: Annotated[
        str | None, typer.Option("--token", help="Every login of this token; `operator` is the operator's.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every login there is.")] = False,
    yes: Yes = False,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """End one login, those of a token, or all. Whoever holds a good token may log in again.

    \b
    Examples:
      holdfast logins end log_...
      holdfast logins end --token tok_... --yes
      holdfast logins end --all --yes --json
    """
    from holdfast.cli.running import run

    what = f"the login {id[:80]}" if id else f"every login of {token[:80]}" if token else "every login"
    if every or id is not None or token is not None:
        ask(f"End {what}?", yes=yes, as_json=as_json)
    run(lambda: _end(id, token, data, config, every=every, as_json=as_json), as_json=as_json)


async def _list(data: "Path | None", config: "Path | None", *, every: bool, as_json: bool) -> int:
    from holdfast.api.auth.login_sql import list_logins
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json, print_table, when
    from holdfast.cli.running import OK

    async with visiting(data, config) as runtime:
        now = runtime.clock.now()
        found = [one for one in await runtime.db.read(list_logins()) if every or one.end(now) is None]
    if as_json:
        print_json({"logins": [_view(one, now) for one in found]})
        return OK
    rows = [
        (one.id, one.token, when(one.made_at), when(one.seen_at), when(one.ends_at), _state(one, now)) for one in found
    ]
    print_table(("login", "token", "made", "seen", "ends", "state"), rows)
    return OK


async def _end(
    id: str | None, token: str | None, data: "Path | None", config: "Path | None", *, every: bool, as_json: bool
) -> int:
    from holdfast.api.auth.login import LoginEnd
    from holdfast.api.auth.login_sql import end_logins
    from holdfast.audit.actor import acting
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json
    from holdfast.cli.running import OK
    from holdfast.inbox.address import check_part
    from holdfast.kernel.errors import InvalidInput, LoginNotFound
    from holdfast.kernel.ids import LoginId, TokenId

    if [id is not None, token is not None, every].count(True) != 1:
        raise InvalidInput("say which logins to end: an id, --token, or --all, and only one of these")
    one = None if id is None else LoginId(check_part("login", id))
    of = None if token is None else TokenId(check_part("token", token))
    async with visiting(data, config) as runtime:
        ended = await runtime.db.write(end_logins(LoginEnd.OPERATOR, id=one, token=of, by=acting()))
    if id is not None and not ended:
        raise LoginNotFound(f"there is no login {id[:80]}, or it has ended already", login=id[:80])
    if as_json:
        print_json({"ended": list(ended)})
    else:
        print(f"Ended {len(ended)} {'login' if len(ended) == 1 else 'logins'}.")
    return OK


def _state(one: "Login", now: "Instant") -> str:
    over = one.end(now)
    return "open" if over is None else over.value


def _view(one: "Login", now: "Instant") -> dict[str, object]:
    return {
        "login": one.id,
        "token": one.token,
        "made_at": one.made_at,
        "seen_at": one.seen_at,
        "ends_at": one.ends_at,
        "ended_at": one.ended_at,
        "state": _state(one, now),
    }
