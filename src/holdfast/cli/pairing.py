"""`holdfast pair`, `pairs`, `unpair`: strangers who asked to be let in."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import Data, Json

if TYPE_CHECKING:
    from holdfast.inbox.access import PairingView

BY = "the command line"
OneAgent = Annotated[str | None, typer.Option("--agent", help="Only this agent.", show_default="all agents")]


def pair(
    code: Annotated[str, typer.Argument(metavar="CODE", help="The code that the stranger was told.")],
    *,
    deny: Annotated[bool, typer.Option("--deny", help="Refuse them, in silence and for good.")] = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Let a stranger in.

    They are told; what they wrote before was not kept. A code is good for a day.

    \b
    Examples:
      holdfast pair 7K2M-PQ9X
      holdfast pair 7K2M-PQ9X --deny
    """
    from holdfast.cli.running import run

    run(lambda: _pair(code, data, admit=not deny, as_json=as_json), as_json=as_json)


def pairs(*, agent: OneAgent = None, data: Data = None, as_json: Json = False) -> None:
    """List those who asked to be let in, newest first.

    A name is what the platform shows, and anybody can choose any; the principal is who they are.

    \b
    Examples:
      holdfast pairs
      holdfast pairs --agent main --json
    """
    from holdfast.cli.running import run

    run(lambda: _pairs(agent, data, as_json=as_json), as_json=as_json)


def unpair(
    principal: Annotated[str, typer.Argument(metavar="PRINCIPAL", help="Who, as in telegram:123456789.")],
    *,
    agent: OneAgent = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Make somebody a stranger again, who may ask to be let in.

    Allowlists in holdfast.toml are not touched.

    \b
    Examples:
      holdfast unpair telegram:123456789
    """
    from holdfast.cli.running import run

    run(lambda: _unpair(principal, agent, data, as_json=as_json), as_json=as_json)


async def _pair(code: str, data: Path | None, *, admit: bool, as_json: bool) -> int:
    from holdfast.api.shapes.access import pair_view
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json, visible
    from holdfast.cli.running import OK

    async with visiting(data, act="access.admitted" if admit else "access.denied", on=code) as runtime:
        found = await runtime.access.pair(code, admit=admit, by=BY)
    if as_json:
        print_json(pair_view(found))
        return OK
    done = "may talk to" if admit else "stays out of"
    print(visible(f"{found.principal} {done} {found.agent} from now on."))
    return OK


async def _pairs(agent: str | None, data: Path | None, *, as_json: bool) -> int:
    from holdfast.api.shapes.access import pairs_view
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json, print_table
    from holdfast.cli.running import OK

    async with visiting(data) as runtime:
        found = await runtime.access.pairs(agent=agent)
    if as_json:
        print_json(pairs_view(found))
        return OK
    headings = ("code", "agent", "principal", "shown as", "state", "asked", "decided")
    print_table(headings, [_row(one) for one in found])
    return OK


def _row(one: "PairingView") -> tuple[str, ...]:
    from holdfast.cli.output import when
    from holdfast.inbox.access import spelt

    asked, decided = when(one.asked_at), when(one.decided_at)
    return spelt(one.code), one.agent, one.principal, one.name, one.state.value, asked, decided


async def _unpair(principal: str, agent: str | None, data: Path | None, *, as_json: bool) -> int:
    from holdfast.api.shapes.access import UnpairedOut
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json, visible
    from holdfast.cli.running import OK
    from holdfast.inbox.access_sql import is_admitted
    from holdfast.kernel.ids import AgentName, Principal

    async with visiting(data, act="access.withdrawn", on=principal) as runtime:
        gone = await runtime.access.unpair(principal, agent=agent, by=BY)
        asked = [agent] if agent is not None else gone or runtime.agents()
        still = [one for one in asked if await runtime.db.read(is_admitted(AgentName(one), Principal(principal)))]
    if as_json:
        print_json(UnpairedOut(principal=principal, agents=list(gone)))
        return OK
    said = f"is a stranger to {', '.join(gone)} again" if gone else "was not paired; nothing changed"
    print(visible(f"{principal} {said}."))
    if still:
        open_to = ", ".join(still)
        print(visible(f"But {open_to} lets them in as another account of that person: see `holdfast links`."))
    return OK
