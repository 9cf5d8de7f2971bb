"""`holdfast logins`: list and end browser logins. A login ends within a second in every running server."""

from typing import Annotated

import typer

from holdfast.api.auth.login import Login, LoginEnd
from holdfast.api.auth.login_sql import end_logins, list_logins
from holdfast.audit.actor import acting
from holdfast.cli.command import Invocation, Runtime, command, command_group, visitor
from holdfast.cli.output import Output, TextTable, when
from holdfast.inbox.address import check_part
from holdfast.kernel.errors import InvalidInput, LoginNotFound
from holdfast.kernel.ids import Instant, LoginId, TokenId

logins = command_group("logins", "Manage browser logins.")


@logins.command("list")
@visitor(config=True)
async def list_(
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
    return Output({"logins": [_view(one, now) for one in found]}, table)


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


def _view(one: Login, now: Instant) -> dict[str, object]:
    return {
        "login": one.id,
        "token": one.token,
        "made_at": one.made_at,
        "seen_at": one.seen_at,
        "ends_at": one.ends_at,
        "ended_at": one.ended_at,
        "state": _state(one, now),
    }
