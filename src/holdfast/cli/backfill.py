"""`holdfast backfill` and `holdfast rebuild`: give a provider what it missed, or an index everything once more."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import AgentName, Config, Data, Json

if TYPE_CHECKING:
    from holdfast.runtime.runtime import Runtime


def backfill(
    provider: Annotated[str, typer.Argument(help="Its name in holdfast.toml, such as hindsight.")],
    *,
    agent: AgentName = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Send a provider what it missed.

    What was said before it was configured goes out, each turn once, however often this is run.

    \b
    Examples:
      holdfast backfill hindsight --agent main
    """
    told = "{n} units are on their way; `holdfast deliveries` shows them."
    _run(
        lambda runtime: runtime.backfill(provider, agent=agent),
        "units",
        told,
        (data, config),
        act="provider.backfilled",
        on=provider,
        as_json=as_json,
    )


def rebuild(
    provider: Annotated[str, typer.Argument(help="A provider with an index of its own.")] = "local",
    *,
    agent: AgentName = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Fill a lost index again.

    After the file of the embedded index was damaged or lost, a new one is filled from the journal.

    \b
    Examples:
      holdfast rebuild
      holdfast rebuild local --agent bookkeeper
    """
    told = "{n} deliveries are in the index again."
    _run(
        lambda runtime: runtime.rebuild(provider, agent=agent),
        "parcels",
        told,
        (data, config),
        act="provider.rebuilt",
        on=provider,
        as_json=as_json,
    )


def _run(
    work: Callable[["Runtime"], Awaitable[int]],
    counted: str,
    told: str,
    where: tuple[Path | None, Path | None],
    *,
    act: str,
    on: str,
    as_json: bool,
) -> None:
    from holdfast.cli.running import run

    async def visit() -> int:
        from holdfast.cli.opening import visiting
        from holdfast.cli.output import print_json
        from holdfast.cli.running import OK

        async with visiting(*where, act=act, on=on) as runtime:
            n = await work(runtime)
        if as_json:
            print_json({counted: n})
        else:
            print(told.format(n=n))
        return OK

    run(visit, as_json=as_json)
