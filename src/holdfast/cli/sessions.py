"""`holdfast sessions`: the sessions of a chat, an agent, or everybody."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import Config, Data, Json

if TYPE_CHECKING:
    from holdfast.api.shapes.shapes import SessionView

LIMIT = 100


def sessions(
    *,
    agent: Annotated[str | None, typer.Option("--agent", help="Only this agent's.")] = None,
    chat: Annotated[
        str | None, typer.Option("--chat", help="Only this chat's (of the first agent, unless said).")
    ] = None,
    after: Annotated[str, typer.Option("--after", help="The last session of the page before.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000)] = LIMIT,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List sessions, newest first.

    \b
    Examples:
      holdfast sessions
      holdfast sessions --agent main --chat family --json
    """
    from holdfast.cli.running import run

    run(lambda: _sessions(agent, chat, after, limit, (data, config), as_json=as_json), as_json=as_json)


async def _sessions(
    agent: str | None,
    chat: str | None,
    after: str,
    limit: int,
    where: tuple[Path | None, Path | None],
    *,
    as_json: bool,
) -> int:
    from holdfast.api.shapes.shapes import sessions_view
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json, print_table, when
    from holdfast.cli.running import OK

    async with visiting(*where) as runtime:
        found = await runtime.sessions(agent=agent, chat=chat, after=after, limit=limit)
    view = sessions_view(found)
    if as_json:
        print_json(view)
        return OK
    rows = [
        (one.id, one.agent, one.chat, _state(one), one.turns, one.summaries, when(one.opened_at), one.title)
        for one in view.sessions
    ]
    print_table(("session", "agent", "chat", "state", "turns", "summaries", "opened", "title"), rows)
    return OK


def _state(session: "SessionView") -> str:
    return f"{session.state}, live" if session.live else session.state
