"""`holdfast finalisations` and `holdfast refinish`: epochs that ended, and what was extracted from them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import Data, FinishStepName, Json

if TYPE_CHECKING:
    from holdfast.api.shapes.finalisations import FinalisationOut

LIMIT = 50


def finalisations(
    *,
    state: Annotated[FinishStepName | None, typer.Option("--state", help="Only those in this state.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Only this agent's.")] = None,
    session: Annotated[str | None, typer.Option("--session", help="Only this session's.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000)] = LIMIT,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List the ends of sessions' epochs, newest first.

    Each with how far extracting memory from it is.

    \b
    Examples:
      holdfast finalisations
      holdfast finalisations --state failed
      holdfast finalisations --session ses_01jd... --json
    """
    from holdfast.cli.running import run

    run(
        lambda: _finalisations(data, state=state, agent=agent, session=session, limit=limit, as_json=as_json),
        as_json=as_json,
    )


async def _finalisations(
    data: Path | None, *, state: str | None, agent: str | None, session: str | None, limit: int, as_json: bool
) -> int:
    from holdfast.api.shapes.finalisations import finalisations_view
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json, print_table
    from holdfast.cli.running import OK
    from holdfast.kernel.ids import SessionId
    from holdfast.sessions.finalisation import finish_state

    wanted, of = finish_state(state), None if session is None else SessionId(session)
    async with visiting(data) as runtime:
        found = await runtime.finalisations.list(session=of, agent=agent, state=wanted, limit=limit)
    view = finalisations_view(found)
    if as_json:
        print_json(view)
        return OK
    headings = ("finalisation", "agent", "cause", "state", "attempts", "ended", "next try", "reason")
    print_table(headings, [_row(one) for one in view.finalisations])
    return OK


def _row(one: "FinalisationOut") -> tuple[object, ...]:
    from holdfast.cli.output import when

    ended, due = ("" if at is None else when(at) for at in (one.ended_at, one.due_at))
    return one.id, one.agent, one.cause, one.state, one.attempts, ended, due, one.reason


def refinish(
    finalisation: Annotated[str, typer.Argument(help="Its id, as `holdfast finalisations --state failed` shows it.")],
    *,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Take up again an extraction whose attempts ran out. An answer that is stored is not asked for again.

    \b
    Examples:
      holdfast refinish finish:ses_01jd...:1
    """
    from holdfast.cli.running import run

    run(lambda: _refinish(finalisation, data, as_json=as_json), as_json=as_json)


async def _refinish(finalisation: str, data: Path | None, *, as_json: bool) -> int:
    from holdfast.api.shapes.finalisations import finalisation_view
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json, visible
    from holdfast.cli.running import OK

    async with visiting(data, act="finalisation.retried", on=finalisation) as runtime:
        found = await runtime.finalisations.retry(finalisation)
    if as_json:
        print_json(finalisation_view(found))
    else:
        print(f"{visible(finalisation)} is {found.step.value}; a running `holdfast up` finishes it.")
    return OK
