"""`holdfast replay`: put a parked delivery back on its lane."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import Data, Json


def replay(
    delivery: Annotated[str, typer.Argument(help="Its id, as `holdfast deliveries --state parked` shows it.")],
    *,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Try a parked delivery again. It is late, and marked as such.

    \b
    Examples:
      holdfast replay hindsight:ses_01jd...:7
    """
    from holdfast.cli.running import run

    run(lambda: _replay(delivery, data, as_json=as_json), as_json=as_json)


async def _replay(delivery: str, data: Path | None, *, as_json: bool) -> int:
    from holdfast.api.shapes.memory import Replayed
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json, visible
    from holdfast.cli.running import OK
    from holdfast.kernel.ids import DeliveryId

    async with visiting(data, act="delivery.replayed", on=delivery) as runtime:
        state = await runtime.replay(DeliveryId(delivery))
    if as_json:
        print_json(Replayed(delivery=delivery, state=state))
    else:
        print(f"{visible(delivery)} is {state}; a running `holdfast up` carries it.")
    return OK
