"""`holdfast spend`: what models cost."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import Data, Json


def spend(
    *,
    agent: Annotated[str | None, typer.Option("--agent", help="Only this agent's.")] = None,
    days: Annotated[int, typer.Option("--days", min=1, max=366, help="So many days up to today (UTC).")] = 1,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show what models cost, by agent, model and task.

    \b
    Examples:
      holdfast spend
      holdfast spend --days 30
      holdfast spend --agent main --json
    """
    from holdfast.cli.running import run

    run(lambda: _spend(agent, days, data, as_json=as_json), as_json=as_json)


async def _spend(agent: str | None, days: int, data: Path | None, *, as_json: bool) -> int:
    from holdfast.api.shapes.spend import spending_view
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json, print_table
    from holdfast.cli.running import OK
    from holdfast.inbox.address import agent_name
    from holdfast.turns.spend import dollars
    from holdfast.turns.spend_sql import sum_spend_by_model

    wanted = agent_name(agent) if agent else None
    async with visiting(data) as runtime:
        view = spending_view(await runtime.db.read(sum_spend_by_model(days=days, agent=wanted)), days)
    if as_json:
        print_json(view)
        return OK
    rows = [
        (one.agent, one.model, one.task, one.answers, one.tokens_in, one.tokens_out, dollars(one.cost_micros))
        for one in view.lines
    ]
    print_table(("agent", "model", "task", "answers", "tokens in", "tokens out", "cost"), rows)
    typer.echo(f"together {view.total}")
    return OK
