"""`holdfast spend`: the costs of models."""

from typing import Annotated

import typer

from holdfast.api.shapes.monitoring import spending_view
from holdfast.cli.command import OnlyAgent, Runtime, visitor
from holdfast.cli.output import Output, TextTable
from holdfast.inbox.address import agent_name
from holdfast.turns.spend import dollars
from holdfast.turns.spend_sql import sum_spend_by_model


@visitor()
async def spend(
    runtime: Runtime,
    agent: OnlyAgent = None,
    days: Annotated[int, typer.Option("--days", min=1, max=366, help="The number of days up to today (UTC).")] = 1,
) -> Output:
    """Show the costs of models by agent, model and task.

    \b
    Examples:
      holdfast spend
      holdfast spend --days 30
      holdfast spend --agent main --json
    """
    wanted = agent_name(agent) if agent else None
    view = spending_view(await runtime.db.read(sum_spend_by_model(days=days, agent=wanted)), days)
    rows = (
        (one.agent, one.model, one.task, one.answers, one.tokens_in, one.tokens_out, dollars(one.cost_micros))
        for one in view.lines
    )
    headings = ("agent", "model", "task", "answers", "tokens in", "tokens out", "cost")
    return Output(view, TextTable(headings, rows), f"total {view.total}")
