"""`holdfast deliveries`: what is on its way to the memory providers, and what became of the rest."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import Data, DeliveryStateName, Json

LIMIT = 50


def deliveries(
    *,
    provider: Annotated[str | None, typer.Option("--provider", help="Only this provider's.")] = None,
    state: Annotated[DeliveryStateName | None, typer.Option("--state", help="Only those in this state.")] = None,
    after: Annotated[int, typer.Option("--after", min=0, help="`next` of the page before.")] = 0,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000)] = LIMIT,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List deliveries to the memory providers, newest first.

    \b
    Examples:
      holdfast deliveries
      holdfast deliveries --state parked
      holdfast deliveries --provider hindsight --state uncertain --json
    """
    from holdfast.cli.running import run

    run(lambda: _deliveries(provider, state, after, limit, data, as_json=as_json), as_json=as_json)


async def _deliveries(
    provider: str | None, state: str | None, after: int, limit: int, data: Path | None, *, as_json: bool
) -> int:
    from holdfast.api.shapes.memory import deliveries_view
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json, print_table, what_delivered_means, when
    from holdfast.cli.running import OK
    from holdfast.memory.delivery import delivery_state

    wanted = delivery_state(state)
    async with visiting(data) as runtime:
        found = await runtime.deliveries(provider=provider, state=wanted, after=after, limit=limit)
    view = deliveries_view(found, limit)
    if as_json:
        print_json(view)
        return OK
    rows = [
        (one.id, one.state + (" (late)" if one.late else ""), one.attempt, when(one.due_at), one.receipt or one.reason)
        for one in view.deliveries
    ]
    print_table(("delivery", "state", "attempt", "next try", "receipt or reason"), rows)
    for line in what_delivered_means(view.deliveries):
        print(line)
    return OK
